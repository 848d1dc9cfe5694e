"""The reserve of free disk space: writes that would use it up are refused, so that SQLite, which
keeps the metadata of objects, still has space.

After a refusal, the next write checks the free space again, so writes succeed as soon as space is
freed. While there is enough space, one check is enough for many writes.
"""

from __future__ import annotations

from lakebed.base.errors import NoSpace
from lakebed.base.files.protocol import Disk, PathLike
from lakebed.base.units import format_bytes

_GRANTED_PART = 16


class SpaceReserve:
    """Refuses writes that would leave less than `reserve_bytes` free in the folder's file system.

    After a check, up to a sixteenth of the reserve may be written before the next check. Not
    thread-safe.
    """

    def __init__(self, disk: Disk, folder: PathLike, *, reserve_bytes: int) -> None:
        self._disk = disk
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._granted_bytes = 0  # may be written before the next check

    def check(self, needed_bytes: int) -> None:
        """Raises `NoSpace` if less than the reserve would be free after a write of `needed_bytes`.
        While the previous check still covers the write, does not look at the disk.
        """
        if needed_bytes <= self._granted_bytes:
            self._granted_bytes -= needed_bytes
            return
        self._granted_bytes = 0
        free_bytes = self._disk.free_bytes(self._folder)
        if free_bytes - needed_bytes < self._reserve_bytes:
            raise NoSpace(
                f"{self._folder}: {format_bytes(free_bytes)} are free, a write needs "
                f"{format_bytes(needed_bytes)}, and {format_bytes(self._reserve_bytes)} are kept "
                "in reserve: writes are refused until space is freed"
            )
        self._granted_bytes = self._reserve_bytes // _GRANTED_PART
