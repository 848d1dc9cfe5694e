"""Checks the disk space for `meta.db-shm`, the memory-mapped file that SQLite processes share.

When SQLite extends the file, it writes one byte into each page of 4 KiB, so that a full disk causes
an error. On a file system with blocks smaller than that, the other blocks of the page are still
holes, and filling a hole on a full disk raises SIGBUS, which ends the process. On such file systems
the free space is checked before SQLite may extend the file: when a connection is opened, and before
each commit.
"""

from __future__ import annotations

import os
from functools import partial
from typing import NamedTuple

import apsw

from lakebed.base.units import KIB, MIB

PAGE_BYTES = 4 * KIB
_REGION_BYTES = 32 * KIB  # the file grows by this much …
_REGION_FRAMES = 4000  # … for about this many frames of the write-ahead log
_FRAME_BYTES = PAGE_BYTES + 24
_COMMIT_BYTES = 4 * MIB  # almost no commit adds more than this to the log


class Room(NamedTuple):
    """The sizes of the shared file and the WAL, and the free space of the file system."""

    shared_bytes: int  # the length of the shared file
    allocated_bytes: int  # the disk space that the shared file takes
    log_bytes: int  # the length of the write-ahead log
    free_bytes: int


def lacks_room_to_open(room: Room) -> bool:
    """Whether opening the database might need more space for the shared file than is free."""
    needed_bytes = _needed_bytes(room.log_bytes)
    return room.shared_bytes < needed_bytes and room.free_bytes < 2 * needed_bytes


def lacks_room_to_commit(room: Room) -> bool:
    """Whether a commit might need more space than is free, to fill or extend the shared file."""
    missing_bytes = _needed_bytes(room.log_bytes + _COMMIT_BYTES) - room.allocated_bytes
    return missing_bytes > 0 and room.free_bytes < 2 * missing_bytes


def guarded(path: str, connect: partial[apsw.Connection]) -> apsw.Connection:
    """Opens a connection with `connect`; a full disk then causes an error instead of SIGBUS.

    Raises `FullError` if the disk has too little space to open the database.
    """
    if not _has_small_blocks(path):
        return connect()
    if lacks_room_to_open(_room(path)):
        raise _full(path)
    connection = connect()
    connection.set_commit_hook(partial(_before_commit, path))
    return connection


def _has_small_blocks(path: str) -> bool:
    try:
        return os.statvfs(os.path.dirname(path) or ".").f_frsize < PAGE_BYTES
    except OSError:
        return False  # SQLite will report the error


def _before_commit(path: str) -> bool:
    if lacks_room_to_commit(_room(path)):
        raise _full(path)
    return False  # continue with the commit


def _full(path: str) -> apsw.FullError:
    return apsw.FullError(f"not enough disk space for {os.path.basename(path)}-shm")


def _needed_bytes(log_bytes: int) -> int:
    return (1 + log_bytes // (_REGION_FRAMES * _FRAME_BYTES)) * _REGION_BYTES


def _room(path: str) -> Room:
    shared_bytes, allocated_bytes = _sizes(f"{path}-shm")
    log_bytes, _ = _sizes(f"{path}-wal")
    status = os.statvfs(os.path.dirname(path) or ".")
    return Room(shared_bytes, allocated_bytes, log_bytes, status.f_bavail * status.f_frsize)


def _sizes(path: str) -> tuple[int, int]:
    """Returns the length of a file and the disk space that it takes.

    Does not open the file, because closing a descriptor of it would release SQLite's locks.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_size, status.st_blocks * 512
