"""Walks the records of a log for recovery, as long as they are whole and in order.

A walk stops at the end of the log, at a torn write or at damage. The caller decides which of the
three it is, because the caller knows how far the file is confirmed to be durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base.files import File
from lakebed.base.units import MIB
from lakebed.keratin.format import OFFSET_MAX
from lakebed.keratin.log_bytes import LogBytes
from lakebed.keratin.run import Run
from lakebed.kernels import Stop

WINDOW_BYTES = 4 * MIB
_ZERO_WINDOW_BYTES = 1 * MIB
_ZEROS = bytes(_ZERO_WINDOW_BYTES)


class LogWalk(NamedTuple):
    """Where and why a walk stopped."""

    end: int  # the end of the last good record, or the start of the walk
    next_offset: int  # the offset after the last message of that record
    stop: Stop


def walk(
    log: LogBytes, start: int, end: int, *, next_offset: int, on_run: Callable[[Run], None]
) -> LogWalk:
    """Calls `on_run` with the good records in bytes `[start, end)`; returns where the walk stopped.

    The walk stops before the first bad record. The offsets of good records rise, beginning at
    `next_offset` or later.
    """
    while start < end:
        scanned = log.scan(start, end, bytes_max=WINDOW_BYTES)
        if not isinstance(scanned, Run):
            return LogWalk(start, next_offset, scanned)
        good_count = scanned.in_order_count(next_offset, OFFSET_MAX)
        if good_count:
            run = scanned.part(0, good_count)
            on_run(run)
            start, next_offset = run.end, run.next_offset
        if good_count < len(scanned.positions):
            return LogWalk(start, next_offset, Stop.BAD_HEADER)
    return LogWalk(start, next_offset, Stop.END)


def last_byte(file: File, start: int, end: int) -> int:
    """Returns the position after the last nonzero byte in `[start, end)`.

    Returns `start` if all bytes are zero.
    """
    for window_end in range(end, start, -_ZERO_WINDOW_BYTES):
        window_start = max(start, window_end - _ZERO_WINDOW_BYTES)
        data = file.pread(window_start, window_end - window_start)
        if data != _ZEROS[: len(data)]:  # much faster than rstrip, which goes byte by byte
            return window_start + len(data.rstrip(b"\0"))
    return start
