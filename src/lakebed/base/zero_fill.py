"""Decides when file space is filled with zeros before records are written there, and how much.

A log (`aof`) fills its spare segment files. A topic partition (`keratin`) fills its active segment
ahead of the records. Filling shortens every later sync of the space, but all bytes are written
twice. So only busy logs and partitions start to fill: immediately if their flushes are small,
because small flushes gain the most; otherwise only while they spend less than half of their time in
flushes, because the additional writes would slow down a saturated log. Below, "log" also means a
partition.

- `decide_fill`: decides whether a log fills space now;
- `FlushShare`: measures how busy a log is;
- `SpareBudget`: limits the bytes of spare segments and of zeros ahead of records, for all logs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.counters import Histogram
from lakebed.base.runner import Mutex
from lakebed.base.units import KIB, MIB

BUSY_BYTES_PER_S = 1 * MIB
BUSY_FLUSHES_PER_S = 100
SMALL_FLUSH_BYTES = 64 * KIB
SATURATED_SHARE = 0.5
WINDOW_NS = 50 * NS_PER_MS
_WINDOW_MAX_NS = 4 * WINDOW_NS  # older measurements are ignored


class Load(NamedTuple):
    """The write load of a log."""

    bytes_per_s: int  # average since the active segment was started
    flush_bytes: int  # average size of a flush since the log was opened
    flush_share: float | None  # share of recent time spent in flushes; None if unknown

    @property
    def is_busy(self) -> bool:
        flushes_per_s = self.bytes_per_s // max(1, self.flush_bytes)
        return self.bytes_per_s >= BUSY_BYTES_PER_S or flushes_per_s >= BUSY_FLUSHES_PER_S


class FillDecision(Enum):
    NO = "no"
    NOW = "now"
    LATER = "later"  # decide again soon


def decide_fill(load: Load, *, has_begun: bool) -> FillDecision:
    """Decides whether a log fills space now. If filling has begun, it continues even if the log is
    no longer busy.
    """
    if not load.is_busy and not has_begun:
        return FillDecision.NO
    if load.flush_bytes <= SMALL_FLUSH_BYTES:
        return FillDecision.NOW
    if load.flush_share is None or load.flush_share >= SATURATED_SHARE:
        return FillDecision.LATER
    return FillDecision.NOW


class FlushShare:
    """Measures the share of recent time that one log spent in flushes, from 0 to 1. Not
    thread-safe.

    The share is computed on demand from the flush durations that the barrier records anyway, so
    appends are not slowed down.
    """

    def __init__(self, durations_ns: Histogram, clock: Clock) -> None:
        self._durations_ns = durations_ns
        self._clock = clock
        self._share: float | None = None
        self._looked_at_ns = clock.monotonic_ns()
        self._flushed_ns = 0  # total time in flushes at the last measurement

    def measure(self) -> float | None:
        """Returns the share of time spent in flushes since the previous measurement.

        A call less than `WINDOW_NS` after a measurement returns the result of that measurement.
        Returns None if nothing was measured yet, or if the previous measurement was too long ago.
        """
        now_ns = self._clock.monotonic_ns()
        elapsed_ns = now_ns - self._looked_at_ns
        if elapsed_ns >= WINDOW_NS:
            flushed_ns = self._durations_ns.snapshot().total
            is_recent = elapsed_ns <= _WINDOW_MAX_NS
            self._share = (flushed_ns - self._flushed_ns) / elapsed_ns if is_recent else None
            self._looked_at_ns, self._flushed_ns = now_ns, flushed_ns
        return self._share


class SpareBudget:
    """Limits the bytes that several logs together use for spare segments and for zeros ahead of
    records.

    A spare counts with its full length from its creation until it is used as a segment or removed;
    zeros in an active segment count until records cover them or the segment is no longer filled.
    Busy logs have priority: after a busy log was refused, logs that are not busy create no spares
    and give up those they have, until a request of a busy log succeeds.
    """

    def __init__(
        self, *, bytes_max: int, mutex: Mutex, on_short: Callable[[], None] = lambda: None
    ) -> None:
        """Creates a budget of `bytes_max`. `on_short` is called when `is_short` becomes true, so
        that logs that are not busy can give up their spares.
        """
        self._bytes_max = bytes_max
        self._on_short = on_short
        self._mutex = mutex
        self._used_bytes = 0  # guarded by _mutex, like the next field
        self._is_short = False

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def is_short(self) -> bool:
        """Whether the last request of a busy log was refused because others use the bytes. Requests
        that are larger than the whole budget do not count.
        """
        return self._is_short

    def take(self, size: int, *, is_busy: bool) -> bool:
        """Reserves `size` bytes for a spare or for zeros if that many are free, and returns whether
        it did.

        A log that is not busy is also refused while `is_short`.
        """
        with self._mutex:
            has_room = self._used_bytes + size <= self._bytes_max
            was_short = self._is_short
            if is_busy and size <= self._bytes_max:
                self._is_short = not has_room
            is_granted = has_room and not self._is_short
            if is_granted:
                self._used_bytes += size
            is_newly_short = self._is_short and not was_short
        if is_newly_short:
            self._on_short()
        return is_granted

    def give_back(self, size: int) -> None:
        with self._mutex:
            self._used_bytes -= size
            assert self._used_bytes >= 0, "more bytes were given back than taken"
