"""Measures the share of recent time that a log spent in flushes; 1 means that it is saturated.

The share is computed on demand from the flush durations that the barrier records anyway, so appends
are not slowed down.
"""

from __future__ import annotations

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.counters import Histogram

WINDOW_NS = 50 * NS_PER_MS
_WINDOW_MAX_NS = 4 * WINDOW_NS  # older measurements are ignored


class FlushShare:
    """Measures the flush share of one log. Not thread-safe."""

    def __init__(self, durations_ns: Histogram, clock: Clock) -> None:
        self._durations_ns = durations_ns
        self._clock = clock
        self._share: float | None = None
        self._looked_at_ns = clock.monotonic_ns()
        self._flushed_ns = 0  # total time in flushes at the last measurement

    def measure(self) -> float | None:
        """Returns the share of time spent in flushes since the previous measurement.

        A call less than `WINDOW_NS` after a measurement returns that measurement's result. Returns
        None if nothing was measured yet, or if the previous measurement is too long ago.
        """
        now_ns = self._clock.monotonic_ns()
        elapsed_ns = now_ns - self._looked_at_ns
        if elapsed_ns >= WINDOW_NS:
            flushed_ns = self._durations_ns.snapshot().total
            is_recent = elapsed_ns <= _WINDOW_MAX_NS
            self._share = (flushed_ns - self._flushed_ns) / elapsed_ns if is_recent else None
            self._looked_at_ns, self._flushed_ns = now_ns, flushed_ns
        return self._share
