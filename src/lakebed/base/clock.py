"""The wall clock, the monotonic clock and the hybrid logical clock.

Deadlines and delays use the monotonic clock. The wall clock stamps stored data and decides when a
scheduled message is due. The hybrid logical clock (HLC) stamps the changes of the object store: it
never goes back, and a time observed from a peer can move it at most the drift cap ahead of the wall
clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lakebed.base.errors import InputError

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class Clock(Protocol):
    def wall_ns(self) -> int:
        """Returns the nanoseconds since 1970. May jump forward or back."""

    def monotonic_ns(self) -> int:
        """Returns the nanoseconds since an arbitrary moment. Never goes back, and also advances
        while the machine is suspended.
        """


class SystemClock:
    def wall_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class HybridTime(NamedTuple):
    """A timestamp of the hybrid clock. Its text form sorts in time order."""

    wall_ns: int
    logical: int

    def __str__(self) -> str:
        return f"{self.wall_ns:019d}-{self.logical:010d}"

    @classmethod
    def parse(cls, text: str) -> HybridTime:
        wall, dash, logical = text.partition("-")
        digits = wall + logical
        if not (dash and len(wall) == 19 and len(logical) == 10 and digits.isascii()):
            raise InputError(f"not a hybrid time: {text!r}, expected 19 digits, a dash, 10 digits")
        if not digits.isdigit():
            raise InputError(f"not a hybrid time: {text!r}, expected 19 digits, a dash, 10 digits")
        return cls(int(wall), int(logical))


class ClockDrift(InputError):
    """A peer's hybrid time is further ahead of the local wall clock than the drift cap allows."""


LOGICAL_MAX = 9_999_999_999


class HybridClock:
    """Issues hybrid times, each later than all times that it issued or observed before.

    Not thread-safe: callers must hold the lock that orders the data they stamp.
    """

    def __init__(
        self, clock: Clock, *, drift_ms_max: int = 60_000, last: HybridTime | None = None
    ) -> None:
        self._clock = clock
        self._drift_ns_max = drift_ms_max * NS_PER_MS
        self._last = last or HybridTime(0, 0)

    @property
    def last(self) -> HybridTime:
        """The latest time issued or observed. The owner must store it, and pass it as `last` to the
        new clock after a restart.
        """
        return self._last

    def now(self) -> HybridTime:
        """Returns a new time, later than all that were issued or observed before."""
        wall = self._clock.wall_ns()
        self._last = HybridTime(wall, 0) if wall > self._last.wall_ns else _after(self._last)
        return self._last

    def wall_ns(self) -> int:
        """Returns the time of the wall clock, for times that people read. Unlike hybrid times, it
        also goes back when the clock is set back.
        """
        return self._clock.wall_ns()

    def observe(self, remote: HybridTime) -> HybridTime:
        """Takes a peer's time into account, and returns a new time that is later than `remote` and
        than all times issued or observed before. Raises `ClockDrift` if `remote` is more than
        `drift_ms_max` ahead of the wall clock.
        """
        ahead_ns = remote.wall_ns - self._clock.wall_ns()
        if ahead_ns > self._drift_ns_max:
            raise ClockDrift(
                f"a peer's clock is {ahead_ns // NS_PER_MS} ms ahead of the local clock, "
                f"the maximum is {self._drift_ns_max // NS_PER_MS} ms: correct the wrong clock"
            )
        self._last = max(self._last, remote)
        return self.now()


def _after(moment: HybridTime) -> HybridTime:
    if moment.logical >= LOGICAL_MAX:
        return HybridTime(moment.wall_ns + 1, 0)
    return HybridTime(moment.wall_ns, moment.logical + 1)


def believable(moments: Sequence[int], *, now: int) -> list[int]:
    """Corrects timestamps that lie after `now`, because a clock ran ahead.

    `moments` are the timestamps of events in the order the events happened. A timestamp after
    `now` is replaced with the next timestamp in the list that is not after `now`, or with `now` if
    no such timestamp follows. Timestamps up to `now` are not changed.
    """
    latest, result = now, []
    for moment in reversed(moments):
        if moment <= now:
            latest = moment
        result.append(moment if moment <= now else latest)
    return result[::-1]
