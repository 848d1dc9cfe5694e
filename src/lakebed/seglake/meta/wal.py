"""Makes the write-ahead log durable after a crash or a failed sync, before it is read.

SQLite treats every complete transaction in the log as committed. A transaction whose sync failed,
or did not run because the process died, may exist only in the page cache. It would be visible, and
later transactions would be appended after it. A power failure would then remove it from the middle
of the log and, because the log's checksums are chained, also all acknowledged transactions after
it. Repeating the sync does not help, because the kernel considers those pages clean. So the bytes
are written again and synced. That is done in place, because readers in other processes have the
file open.

Opening and closing the log's file does not release SQLite's locks, which are on `meta.db` and
`meta.db-shm`.
"""

from __future__ import annotations

from lakebed.base.errors import NotFound
from lakebed.base.files import Disk
from lakebed.base.units import MIB


def wal_path(database_path: str) -> str:
    return f"{database_path}-wal"


def wal_bytes(disk: Disk, database_path: str) -> int:
    """Returns the length of the database's write-ahead log, or 0 if there is none."""
    try:
        with disk.open(wal_path(database_path)) as file:
            return file.size()
    except NotFound:
        return 0


def settle_wal(disk: Disk, database_path: str) -> None:
    """Writes the whole write-ahead log again, in place, and syncs it. Does nothing without a log.

    No connection of this process may be writing at the same time.
    """
    path = wal_path(database_path)
    if not wal_bytes(disk, database_path):
        return
    with disk.open(path, writable=True) as file:
        size = file.size()
        for offset in range(0, size, MIB):
            file.pwrite(offset, file.pread(offset, min(MIB, size - offset)))
        file.truncate(size)  # the file's length may not be durable either
        file.sync()
