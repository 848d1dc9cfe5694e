"""A group's two clocks.

Leases and delays run on the group's own: ms since 1970 as the wall clock had it at the opening,
counted by the monotonic clock. So a lease lasts as long as it was given for, whatever happens to
the wall clock. Schedules are compared with the wall clock itself, and follow its steps.

On disk, and for callers, a time is always the wall clock's: `ahead_ms` leads from one to the other.
"""

from __future__ import annotations

from lakebed.base.clock import NS_PER_MS, Clock


class GroupClock:
    """Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ns = clock.wall_ns() - clock.monotonic_ns()

    def now_ms(self) -> int:
        return max(0, self._clock.monotonic_ns() + self._ahead_ns) // NS_PER_MS

    def wall_ms(self) -> int:
        return max(0, self._clock.wall_ns()) // NS_PER_MS

    def ahead_ms(self) -> int:
        """How far the wall clock is ahead of the group's: by its steps since the opening."""
        return self.wall_ms() - self.now_ms()
