"""Deletes a group in all its partitions or in none, even if a crash interrupts the deletion.

    {"topic": "orders", "group": "billing", "partitions": [0, 1]}

A removal file with this content is durable before the first file of the group is removed, and is
itself removed last. While it exists, the group counts as deleted: it is not listed, and opening the
store or the group finishes the removal first.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence

from lakebed.base.events import event
from lakebed.base.files import Disk, PathLike, replace_atomically
from lakebed.stroma.paths import (
    FOLDER_NAME,
    REMOVAL_ENDING,
    GroupName,
    GroupPaths,
    list_groups,
    read_removal,
)

_log = logging.getLogger(__name__)


def remove_group(disk: Disk, root: PathLike, *, topic: str, group: str) -> None:
    """Removes all files of a group, in all partitions. The group must not be open."""
    names = [name for name in list_groups(disk, root) if (name.topic, name.group) == (topic, group)]
    path = GroupPaths(root, GroupName(topic, 0, group)).removal
    partitions = [name.partition for name in names]
    document = {"topic": topic, "group": group, "partitions": partitions}
    replace_atomically(disk, path, json.dumps(document).encode())
    _finish(disk, root, path, names)


def finish_removal(disk: Disk, root: PathLike, *, topic: str, group: str) -> None:
    """Finishes the removal of a group if a crash interrupted it."""
    path = GroupPaths(root, GroupName(topic, 0, group)).removal
    if disk.exists(path):
        _finish(disk, root, path, read_removal(disk, path))


def finish_removals(disk: Disk, root: PathLike, *, topic: str | None = None) -> None:
    """Finishes all interrupted removals of groups of `topic`, or of all topics if it is None."""
    folder = os.path.join(os.fspath(root), FOLDER_NAME)
    if not disk.is_folder(folder):
        return
    for path in (os.path.join(folder, name) for name in disk.names(folder)):
        if path.endswith(REMOVAL_ENDING):
            names = read_removal(disk, path)
            if topic is None or topic in (name.topic for name in names or ()):
                _finish(disk, root, path, names)


def _finish(disk: Disk, root: PathLike, path: str, names: Sequence[GroupName] | None) -> None:
    if names is None:
        problem = f"{path}: the removal file is damaged; delete the group again if it is listed"
        event(_log, "group_problem", level=logging.ERROR, problem=problem)
        return
    for name in names:
        GroupPaths(root, name).remove(disk)
    disk.unlink(path)
    disk.sync_folder(os.path.dirname(path))
