"""Room for `meta.db-shm`, the file that SQLite shares between processes, and maps.

When SQLite makes it longer it writes one byte into each page of 4 KiB, so that a full disk is an
error then. On a file system with smaller blocks the rest of such a page is still a hole, and
filling a hole on a full disk is SIGBUS, which ends the process. There, room for all of it is looked
for before SQLite may make it longer: when a connection is opened, and before each commit.
"""

from __future__ import annotations

import os
from functools import partial
from typing import NamedTuple

import apsw

from lakebed.base.units import KIB, MIB

PAGE_BYTES = 4 * KIB
_REGION_BYTES = 32 * KIB  # the file grows by so much …
_REGION_FRAMES = 4000  # … for so many frames of the write-ahead log, or a few more
_FRAME_BYTES = PAGE_BYTES + 24
_COMMIT_BYTES = 4 * MIB  # what a commit adds to the log, at most, but for rare ones


class Room(NamedTuple):
    """The file, and what is left on its file system."""

    shared_bytes: int  # its length
    allocated_bytes: int  # of that, what is no hole
    log_bytes: int  # of the write-ahead log
    free_bytes: int


def lacks_room_to_open(room: Room) -> bool:
    """Whether opening would make the file longer than there is room for."""
    needed_bytes = _needed_bytes(room.log_bytes)
    return room.shared_bytes < needed_bytes and room.free_bytes < 2 * needed_bytes


def lacks_room_to_commit(room: Room) -> bool:
    """Whether a commit might fill holes, or make the file longer, beyond the room there is."""
    missing_bytes = _needed_bytes(room.log_bytes + _COMMIT_BYTES) - room.allocated_bytes
    return missing_bytes > 0 and room.free_bytes < 2 * missing_bytes


def guarded(path: str, connect: partial[apsw.Connection]) -> apsw.Connection:
    """A new connection; a full disk is an error and no signal. `FullError` if it is full now."""
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
        return False  # SQLite finds out what is wrong there


def _before_commit(path: str) -> bool:
    if lacks_room_to_commit(_room(path)):
        raise _full(path)
    return False  # it goes on


def _full(path: str) -> apsw.FullError:
    return apsw.FullError(f"there is no room for {os.path.basename(path)}-shm")


def _needed_bytes(log_bytes: int) -> int:
    return (1 + log_bytes // (_REGION_FRAMES * _FRAME_BYTES)) * _REGION_BYTES


def _room(path: str) -> Room:
    shared_bytes, allocated_bytes = _sizes(f"{path}-shm")
    log_bytes, _ = _sizes(f"{path}-wal")
    facts = os.statvfs(os.path.dirname(path) or ".")
    return Room(shared_bytes, allocated_bytes, log_bytes, facts.f_bavail * facts.f_frsize)


def _sizes(path: str) -> tuple[int, int]:
    """How long a file is, and what it takes on the disk; not opened, for SQLite's locks."""
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return facts.st_size, facts.st_blocks * 512
