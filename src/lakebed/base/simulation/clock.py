"""A simulated clock, whose time passes only when it is advanced."""

from __future__ import annotations

_START_WALL_NS = 1_700_000_000_000_000_000


class SimulatedClock:
    """A clock that the scheduler advances when all threads wait. A test may advance it too."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._skew_ns = 0

    def wall_ns(self) -> int:
        return _START_WALL_NS + self._now_ns + self._skew_ns

    def monotonic_ns(self) -> int:
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        self._now_ns += max(duration_ns, 0)

    def reboot(self) -> None:
        """Simulates a reboot: resets the monotonic clock to 0; the wall clock is not changed."""
        self._skew_ns += self._now_ns
        self._now_ns = 0

    def skew(self, difference_ns: int) -> None:
        """Sets the wall clock forward or back. The monotonic clock is not changed."""
        self._skew_ns += difference_ns
