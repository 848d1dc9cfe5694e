"""A clock that stands still until it is moved."""

from __future__ import annotations

_START_WALL_NS = 1_700_000_000_000_000_000


class SimulatedClock:
    """Moved by the scheduler when all threads wait, or by a test. `skew` moves the wall clock
    alone.
    """

    def __init__(self) -> None:
        self._now_ns = 0
        self._skew_ns = 0

    def wall_ns(self) -> int:
        return _START_WALL_NS + self._now_ns + self._skew_ns

    def monotonic_ns(self) -> int:
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        self._now_ns += max(duration_ns, 0)

    def skew(self, difference_ns: int) -> None:
        """Steps the wall clock, forward or back."""
        self._skew_ns += difference_ns
