"""Clocks that are passed in: the wall clock, the monotonic clock and the hybrid logical clock.

Deadlines and delays use the monotonic clock. The wall clock stamps stored data and decides when a
scheduled message is due. The hybrid logical clock (HLC) stamps replicated data: it never goes back,
and a peer whose clock runs ahead can move it forward by at most the drift cap.
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
        """Returns nanoseconds since 1970. May jump in either direction."""

    def monotonic_ns(self) -> int:
        """Returns nanoseconds since an arbitrary moment. Never goes back; advances during
        suspend.
        """


class SystemClock:
    def wall_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class HybridTime(NamedTuple):
    """A moment of the hybrid clock. Its text form sorts in time order."""

    wall_ns: int
    logical: int

    def __str__(self) -> str:
        return f"{self.wall_ns:019d}-{self.logical:010d}"

    @classmethod
    def parse(cls, text: str) -> HybridTime:
        wall, dash, logical = text.partition("-")
        digits = wall + logical
        if not (dash and len(wall) == 19 and len(logical) == 10 and digits.isascii()):
            raise InputError(f"not a hybrid time: {text!r}")
        if not digits.isdigit():
            raise InputError(f"not a hybrid time: {text!r}")
        return cls(int(wall), int(logical))


class ClockDrift(InputError):
    """A peer's hybrid time is further ahead than the drift cap allows."""


LOGICAL_MAX = 9_999_999_999


class HybridClock:
    """Issues hybrid times, each larger than every one issued or observed before.

    Not thread-safe: its owner calls it under the lock that orders what it stamps.
    """

    def __init__(
        self, clock: Clock, *, drift_ms_max: int = 60_000, last: HybridTime | None = None
    ) -> None:
        self._clock = clock
        self._drift_ns_max = drift_ms_max * NS_PER_MS
        self._last = last or HybridTime(0, 0)

    @property
    def last(self) -> HybridTime:
        """The largest time issued or observed. It must be stored so that the clock continues
        from it after a restart.
        """
        return self._last

    def now(self) -> HybridTime:
        """Issues the next time."""
        wall = self._clock.wall_ns()
        self._last = HybridTime(wall, 0) if wall > self._last.wall_ns else _after(self._last)
        return self._last

    def wall_ns(self) -> int:
        """Returns the plain wall clock, for times that people read. It is correct again as soon
        as the clock is.
        """
        return self._clock.wall_ns()

    def observe(self, remote: HybridTime) -> HybridTime:
        """Records a peer's time and issues a later one. Raises `ClockDrift` if the peer is too
        far ahead.
        """
        ahead_ns = remote.wall_ns - self._clock.wall_ns()
        if ahead_ns > self._drift_ns_max:
            raise ClockDrift(
                f"a peer's clock is {ahead_ns // NS_PER_MS} ms ahead, "
                f"at most {self._drift_ns_max // NS_PER_MS} ms are accepted"
            )
        self._last = max(self._last, remote)
        return self.now()


def _after(moment: HybridTime) -> HybridTime:
    if moment.logical >= LOGICAL_MAX:
        return HybridTime(moment.wall_ns + 1, 0)
    return HybridTime(moment.wall_ns, moment.logical + 1)


def believable(moments: Sequence[int], *, now: int) -> list[int]:
    """Replaces each moment after `now` with the next one in the list that is not, or with `now`.

    The moments are of things that happened in this order: one stamped by a clock that ran ahead is
    at least as old as the next. A moment that is only too early is kept.
    """
    latest, result = now, []
    for moment in reversed(moments):
        if moment <= now:
            latest = moment
        result.append(moment if moment <= now else latest)
    return result[::-1]
