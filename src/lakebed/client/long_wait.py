"""Divides a long wait into waits that are short enough for one call each."""

from __future__ import annotations

from lakebed.base.clock import NS_PER_MS, NS_PER_S, Clock

SLICE_MS = 20_000


class LongWait:
    """A wait of `timeout` seconds, or without a limit if that is None."""

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        self._clock = clock
        self._until_ns = (
            None if timeout is None else clock.monotonic_ns() + round(timeout * NS_PER_S)
        )

    def next_ms(self) -> int:
        """Returns how long the next call may wait, in ms: at most `SLICE_MS`, and 0 if the time is
        over."""
        if self._until_ns is None:
            return SLICE_MS
        left_ns = self._until_ns - self._clock.monotonic_ns()
        return min(max(0, -(-left_ns // NS_PER_MS)), SLICE_MS)
