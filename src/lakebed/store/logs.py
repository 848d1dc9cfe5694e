"""Which logs a root has, found by looking into its folder."""

from __future__ import annotations

import os

from lakebed.aof.paths import LogPaths
from lakebed.base.errors import BadName, NotFound
from lakebed.base.files import Disk, PathLike


def log_names(disk: Disk, root: PathLike) -> list[str]:
    """All logs there are, open or not, sorted. What else lies there is passed over."""
    try:
        names = disk.names(os.path.join(os.fspath(root), "aof"))
    except NotFound:
        return []
    return [name for name in names if _is_log(disk, root, name)]


def require_log(disk: Disk, root: PathLike, name: str) -> LogPaths:
    """The paths of a log that exists; `NotFound` if it does not, and nothing is created."""
    paths = LogPaths(root, name)
    if not disk.is_folder(paths.segments):
        raise NotFound(f"{os.fspath(root)}: there is no log {name}")
    return paths


def _is_log(disk: Disk, root: PathLike, name: str) -> bool:
    try:
        return disk.is_folder(LogPaths(root, name).segments)
    except BadName:
        return False
