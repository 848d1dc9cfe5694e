"""Finds the logs of a root by the folders below `aof/`."""

from __future__ import annotations

import os

from lakebed.aof.paths import LogPaths
from lakebed.base.errors import BadName, NotFound
from lakebed.base.files import Disk, PathLike


def log_names(disk: Disk, root: PathLike) -> list[str]:
    """Returns the sorted names of all logs of a root, open or not."""
    try:
        names = disk.names(os.path.join(os.fspath(root), "aof"))
    except NotFound:
        return []
    return [name for name in names if _is_log(disk, root, name)]


def require_log(disk: Disk, root: PathLike, name: str) -> LogPaths:
    """Returns the paths of an existing log. Raises `NotFound` if there is no such log."""
    paths = LogPaths(root, name)
    if not disk.is_folder(paths.segments):
        raise NotFound(f"{os.fspath(root)}: there is no log {name}")
    return paths


def _is_log(disk: Disk, root: PathLike, name: str) -> bool:
    try:
        return disk.is_folder(LogPaths(root, name).segments)
    except BadName:
        return False
