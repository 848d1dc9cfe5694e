"""The folder of a topic: it appears and disappears with one rename, so it is never half there.

A topic is built as `topics/+creating-<id>` and renamed to its name; a deleted one is renamed to
`topics/+deleting-<id>` before anything in it is removed. No topic's name has a `+`. What a crash
leaves under these names is removed when the topics are opened next.

So a folder under a topic's name that holds files, but no `topic.json`, has lost it: nothing may
create, open or remove that topic as if it were not there. Folders without a file in them are what
older releases left of a creation that was cut short: no topic.

A topic's folder is never a symbolic link, and what is removed is never found by following one.
"""

from __future__ import annotations

import contextlib
import logging
import os

from lakebed.base.errors import Corrupt, LakebedError, NotFound
from lakebed.base.files import Disk, PathLike, make_folders, replace_atomically
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
    """The topics of a root, sorted; also those whose folder cannot be used as it is."""
    folder = os.path.join(os.fspath(root), TOPICS_NAME)
    if not disk.is_folder(folder):
        return []
    names = [name for name in disk.names(folder) if is_topic_name(name)]
    return [name for name in names if _is_topic(disk, TopicPaths(root, name))]


def topic_exists(disk: Disk, paths: TopicPaths) -> bool:
    """Whether there is a topic, even one that has lost its `topic.json`; `Corrupt` for a link."""
    _check_not_linked(disk, paths)
    return disk.exists(paths.identity) or _has_files(disk, paths.folder)


def check_topic_folder(disk: Disk, paths: TopicPaths) -> None:
    """`Corrupt` if the folder is a symbolic link, or has lost its `topic.json`."""
    _check_not_linked(disk, paths)
    if not disk.exists(paths.identity) and _has_files(disk, paths.folder):
        raise Corrupt(
            f"the file is missing, and the topic's messages are there: lakebed topic repair "
            f"{paths.topic} writes it again, with default settings; lakebed topic delete "
            f"{paths.topic} removes the messages",
            path=paths.identity,
        )


def create_topic_folder(
    disk: Disk, paths: TopicPaths, identity: bytes, *, topic_id: str, partition_count: int
) -> None:
    """All of it or nothing; durable when it returns. `identity` is what `topic.json` holds."""
    topics = os.path.dirname(paths.folder)
    build = os.path.join(topics, f"{_CREATING}{topic_id}")
    make_folders(disk, topics)
    _remove_empty_folders(disk, paths.folder)
    try:
        disk.make_folder(build)
        folders = [os.path.join(build, str(number)) for number in range(partition_count)]
        for folder in folders:
            disk.make_folder(folder)
            disk.make_folder(os.path.join(folder, SEGMENTS_NAME))
        for folder in folders:
            disk.sync_folder(folder)
        replace_atomically(disk, os.path.join(build, IDENTITY_NAME), identity)
        disk.rename(build, paths.folder)
        disk.sync_folder(topics)
    except LakebedError:
        with contextlib.suppress(LakebedError):
            remove_tree(disk, build)
        raise


def delete_topic_folder(disk: Disk, paths: TopicPaths, *, token: str) -> None:
    """The topic is gone for good once this has renamed its folder; `token` is used once."""
    topics = os.path.dirname(paths.folder)
    gone = os.path.join(topics, f"{_DELETING}{token}")
    disk.rename(paths.folder, gone)
    disk.sync_folder(topics)
    remove_tree(disk, gone)
    disk.sync_folder(topics)


def remove_leftovers(disk: Disk, root: PathLike) -> None:
    """What crashes left of creations and deletions. Only for the one writer."""
    topics = os.path.join(os.fspath(root), TOPICS_NAME)
    if not disk.is_folder(topics):
        return
    for name in disk.names(topics):
        if name.startswith((_CREATING, _DELETING)):
            try:
                remove_tree(disk, os.path.join(topics, name))
            except LakebedError as error:  # it is tried again by the next opening
                _log.warning("%s: not removed: %s", os.path.join(topics, name), error)


def remove_tree(disk: Disk, folder: str) -> None:
    """A folder with all that is in it. A symbolic link is removed, never followed."""
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
            "a symbolic link where a topic's folder must be: put the folder itself there, or "
            "remove the link",
            path=paths.folder,
        )


def _is_topic(disk: Disk, paths: TopicPaths) -> bool:
    return (
        disk.exists(paths.identity)
        or disk.is_symlink(paths.folder)
        or _has_files(disk, paths.folder)
    )


def _has_files(disk: Disk, folder: str) -> bool:
    """Anywhere below it; what an interrupted replacement left does not count."""
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
    """What an older release left of a creation that was cut short."""
    if disk.is_folder(folder):
        remove_tree(disk, folder)
