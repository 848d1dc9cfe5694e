"""Creates and deletes the folder of a topic atomically, with one rename.

A new topic is built as `topics/+creating-<id>`, which is then renamed to the topic's name. A
deleted topic is renamed to `topics/+deleting-<id>` before its files are removed. Topic names never
contain a `+`. If a crash leaves such folders, they are removed the next time the store is opened,
and so are the temporary files of an interrupted change of a `topic.json`.

So a folder with a topic's name that holds files but no `topic.json` is a damaged topic: it must not
be treated as nonexistent. A folder without any files except temporary files is not a topic: older
releases left such folders when a creation was interrupted.

A topic's folder must not be a symbolic link, and removing a folder never follows symbolic links.
"""

from __future__ import annotations

import contextlib
import logging
import os

from lakebed.base.errors import Corrupt, LakebedError, NotFound
from lakebed.base.files import (
    Disk,
    PathLike,
    make_folders,
    remove_temporaries,
    replace_atomically,
)
from lakebed.base.files.protocol import TEMPORARY_SUFFIX
from lakebed.keratin.paths import (
    IDENTITY_NAME,
    SEGMENTS_NAME,
    TOPICS_NAME,
    TopicPaths,
    is_topic_name,
)

_CREATING = "+creating-"
_DELETING = "+deleting-"

_log = logging.getLogger(__name__)


def topic_names(disk: Disk, root: PathLike) -> list[str]:
    """Returns the sorted names of all topics below the root, including damaged ones."""
    folder = os.path.join(os.fspath(root), TOPICS_NAME)
    if not disk.is_folder(folder):
        return []
    names = [name for name in disk.names(folder) if is_topic_name(name)]
    return [name for name in names if _is_topic(disk, TopicPaths(root, name))]


def topic_exists(disk: Disk, paths: TopicPaths) -> bool:
    """Returns whether the topic exists, even if its `topic.json` is missing.

    Raises `Corrupt` if the folder is a symbolic link.
    """
    _check_not_linked(disk, paths)
    return disk.exists(paths.identity) or _has_files(disk, paths.folder)


def check_topic_folder(disk: Disk, paths: TopicPaths) -> None:
    """Raises `Corrupt` if the topic's folder is damaged.

    It is damaged if it is a symbolic link, or holds files other than temporary files but no
    `topic.json`.
    """
    _check_not_linked(disk, paths)
    if not disk.exists(paths.identity) and _has_files(disk, paths.folder):
        raise Corrupt(
            f"the file is missing: the topic's folder has other files; run 'lakebed topic repair "
            f"{paths.topic}' to write it again with default settings (this needs at least one "
            f"partition folder), or 'lakebed topic delete {paths.topic}' to delete the topic with "
            "all its files",
            path=paths.identity,
        )


def create_topic_folder(
    disk: Disk, paths: TopicPaths, identity: bytes, *, topic_id: str, partition_count: int
) -> None:
    """Durably creates the topic's folder, completely or not at all.

    `identity` is the contents of `topic.json`. Replaces an existing folder of that name, which must
    not belong to a topic. If this raises, the new folder may exist nevertheless.
    """
    topics = os.path.dirname(paths.folder)
    temporary = os.path.join(topics, f"{_CREATING}{topic_id}")
    make_folders(disk, topics)
    _remove_empty_folders(disk, paths.folder)
    try:
        disk.make_folder(temporary)
        folders = [os.path.join(temporary, str(number)) for number in range(partition_count)]
        for folder in folders:
            disk.make_folder(folder)
            disk.make_folder(os.path.join(folder, SEGMENTS_NAME))
        for folder in folders:
            disk.sync_folder(folder)
        replace_atomically(disk, os.path.join(temporary, IDENTITY_NAME), identity)
        disk.rename(temporary, paths.folder)
        disk.sync_folder(topics)
    except LakebedError:
        with contextlib.suppress(LakebedError):
            remove_tree(disk, temporary)
        raise


def delete_topic_folder(disk: Disk, paths: TopicPaths, *, token: str) -> None:
    """Renames the topic's folder, which deletes the topic, and then removes its files.

    `token` makes the temporary name unique.
    """
    topics = os.path.dirname(paths.folder)
    temporary = os.path.join(topics, f"{_DELETING}{token}")
    disk.rename(paths.folder, temporary)
    disk.sync_folder(topics)
    remove_tree(disk, temporary)
    disk.sync_folder(topics)


def remove_leftovers(disk: Disk, root: PathLike) -> None:
    """Removes what interrupted creations, deletions and changes of settings left.

    These are whole folders, and temporary files next to a `topic.json`. Only the process that holds
    the root's lock may call this, before it changes any topic.
    """
    topics = os.path.join(os.fspath(root), TOPICS_NAME)
    if not disk.is_folder(topics):
        return
    for name in disk.names(topics):
        path = os.path.join(topics, name)
        try:
            if name.startswith((_CREATING, _DELETING)):
                remove_tree(disk, path)
            elif is_topic_name(name) and disk.is_folder(path) and not disk.is_symlink(path):
                remove_temporaries(disk, path)
        except LakebedError as error:  # the next opening tries again
            _log.warning("%s: the leftover files could not be removed: %s", path, error)


def remove_tree(disk: Disk, folder: str) -> None:
    """Removes a folder with everything in it. Symbolic links are removed, never followed."""
    for name in disk.names(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(NotFound):
            if disk.is_folder(path) and not disk.is_symlink(path):
                remove_tree(disk, path)
            else:
                disk.unlink(path)
    disk.remove_folder(folder)


def _check_not_linked(disk: Disk, paths: TopicPaths) -> None:
    if disk.is_symlink(paths.folder):
        raise Corrupt(
            "the topic's folder is a symbolic link; replace it with the folder itself, or remove "
            "the link",
            path=paths.folder,
        )


def _is_topic(disk: Disk, paths: TopicPaths) -> bool:
    return (
        disk.exists(paths.identity)
        or disk.is_symlink(paths.folder)
        or _has_files(disk, paths.folder)
    )


def _has_files(disk: Disk, folder: str) -> bool:
    """Returns whether there are files anywhere below the folder, not counting temporary files."""
    if not disk.is_folder(folder):
        return False
    for name in disk.names(folder):
        path = os.path.join(folder, name)
        if disk.is_symlink(path) or not disk.is_folder(path):
            if not name.endswith(TEMPORARY_SUFFIX):
                return True
        elif _has_files(disk, path):
            return True
    return False


def _remove_empty_folders(disk: Disk, folder: str) -> None:
    """Removes the folder, if it exists, with everything in it.

    The caller has checked that it is not a topic: an older release left it when a creation was
    interrupted, and it has only empty folders and temporary files.
    """
    if disk.is_folder(folder):
        remove_tree(disk, folder)
