"""Walks the records of a log to see what is there: while they are whole and in order.

Where a walk stops is the end, something torn, or damage: what it is the caller decides, who knows
how far the file was confirmed.
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
    """Where a walk stopped."""

    end: int  # behind the last good record
    next_offset: int  # behind its last message
    stop: Stop


def walk(
    log: LogBytes, start: int, end: int, *, next_offset: int, on_run: Callable[[Run], None]
) -> LogWalk:
    """Good records of `[start, end)` whose offsets are `next_offset` at least, and rise."""
    while start < end:
        found = log.scan(start, end, bytes_max=WINDOW_BYTES)
        if not isinstance(found, Run):
            return LogWalk(start, next_offset, found)
        good = found.in_order_count(next_offset, OFFSET_MAX)
        if good:
            run = found.part(0, good)
            on_run(run)
            start, next_offset = run.end, run.next_offset
        if good < len(found.positions):
            return LogWalk(start, next_offset, Stop.BAD_HEADER)
    return LogWalk(start, next_offset, Stop.END)


def last_byte(file: File, start: int, end: int) -> int:
    """Behind the last byte in `[start, end)` that is not zero; `start` if all are."""
    for window_end in range(end, start, -_ZERO_WINDOW_BYTES):
        window_start = max(start, window_end - _ZERO_WINDOW_BYTES)
        data = file.pread(window_start, window_end - window_start)
        if data != _ZEROS[: len(data)]:  # at the speed of memory; stripping takes a byte at a time
            return window_start + len(data.rstrip(b"\0"))
    return start
