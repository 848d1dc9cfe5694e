"""The reserve of free disk space, kept so that a full disk is met by us and not by SQLite.

Below it writes are refused; as it is looked up again whenever they are, they come back by
themselves. While there is plenty, one look serves for a small part of the reserve.
"""

from __future__ import annotations

from lakebed.base.errors import NoSpace
from lakebed.base.files.protocol import Disk, PathLike
from lakebed.base.units import format_bytes

_GRANTED_PART = 16


class SpaceReserve:
    """`reserve_bytes` of the folder's file system that ordinary writes leave alone.

    But for a sixteenth of it, which may be used without looking. For one thread at a time.
    """

    def __init__(self, disk: Disk, folder: PathLike, *, reserve_bytes: int) -> None:
        self._disk = disk
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._granted_bytes = 0  # may be written before the next look

    def check(self, needed_bytes: int) -> None:
        """`NoSpace` if writing that much would go below the reserve."""
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
