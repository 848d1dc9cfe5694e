"""The two clocks of a group.

Leases and delays use the group's own clock: it starts at the wall clock's time when the group is
opened, and then advances with the monotonic clock. So a lease lasts as long as it was granted for,
even if the wall clock is changed. Schedules use the wall clock itself and follow its changes.

Times on disk, and times passed to callers, are always wall clock times. Add `ahead_ms` to convert a
time of the group's clock to a wall clock time.
"""

from __future__ import annotations

from lakebed.base.clock import NS_PER_MS, Clock


class GroupClock:
    """The group's clock and the wall clock, in ms since 1970. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ns = clock.wall_ns() - clock.monotonic_ns()

    def now_ms(self) -> int:
        return max(0, self._clock.monotonic_ns() + self._ahead_ns) // NS_PER_MS

    def wall_ms(self) -> int:
        return max(0, self._clock.wall_ns()) // NS_PER_MS

    def ahead_ms(self) -> int:
        """Returns how far the wall clock is ahead of the group's clock.

        This is how much the wall clock has been changed since the group was opened.
        """
        return self.wall_ms() - self.now_ms()
