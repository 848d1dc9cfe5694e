"""The reserve of free disk space, which makes the engines refuse writes before SQLite meets a full
disk.

Writes below the reserve are refused. The free space is checked again at each refused write, so
writing resumes by itself. While there is plenty of space, one check is enough for many writes.
"""

from __future__ import annotations

from lakebed.base.errors import NoSpace
from lakebed.base.files.protocol import Disk, PathLike
from lakebed.base.units import format_bytes

_GRANTED_PART = 16


class SpaceReserve:
    """Keeps `reserve_bytes` of the folder's file system free of ordinary writes.

    Up to a sixteenth of it may be used without checking again. For one thread at a time.
    """

    def __init__(self, disk: Disk, folder: PathLike, *, reserve_bytes: int) -> None:
        self._disk = disk
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._granted_bytes = 0  # may be written before the next look

    def check(self, needed_bytes: int) -> None:
        """Raises `NoSpace` if writing that much would use the reserve."""
        if needed_bytes <= self._granted_bytes:
            self._granted_bytes -= needed_bytes
            return
        self._granted_bytes = 0
        free_bytes = self._disk.free_bytes(self._folder)
        if free_bytes - needed_bytes < self._reserve_bytes:
            raise NoSpace(
                f"{self._folder}: {format_bytes(free_bytes)} free, of which "
                f"{format_bytes(self._reserve_bytes)} are kept in reserve: writes are refused "
                "until space is freed"
            )
        self._granted_bytes = self._reserve_bytes // _GRANTED_PART
