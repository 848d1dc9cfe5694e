"""What a crash or a failed sync left in the write-ahead log is made durable before it is read.

SQLite takes every whole transaction it finds in the log as committed. One whose sync failed, or
was never run because the process died, may be in the page cache alone: it would be shown, later
transactions would be appended behind it, and a power cut would take it out of the middle, and
with it (its checksums are a chain) all that were acknowledged since. A repeated sync does not
help, the kernel counts those pages as clean. So the bytes are written once more, and synced; in
place, for readers in other processes have the file open.

Opening and closing this file is safe: SQLite's locks are on the other two.
"""

from __future__ import annotations

from lakebed.base.errors import NotFound
from lakebed.base.files import Disk
from lakebed.base.units import MIB


def wal_path(database_path: str) -> str:
    return f"{database_path}-wal"


def wal_bytes(disk: Disk, database_path: str) -> int:
    """How long the log is; 0 if there is none."""
    try:
        with disk.open(wal_path(database_path)) as file:
            return file.size()
    except NotFound:
        return 0


def settle_wal(disk: Disk, database_path: str) -> None:
    """To be called while no connection of this process writes."""
    path = wal_path(database_path)
    if not wal_bytes(disk, database_path):
        return
    with disk.open(path, writable=True) as file:
        size = file.size()
        for offset in range(0, size, MIB):
            file.pwrite(offset, file.pread(offset, min(MIB, size - offset)))
        file.truncate(size)  # the length may have been lost as well
        file.sync()
