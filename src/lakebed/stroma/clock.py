"""A group's clock: ms since 1970 as the wall clock had it at the opening, counted by the monotonic.

So a lease lasts as long as it was given for, whatever happens to the wall clock, and one kind of
number serves in memory and on disk.
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
