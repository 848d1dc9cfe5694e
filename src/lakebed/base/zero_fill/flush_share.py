"""Measures the share of recent time that a log spent in flushes: 1 means saturated.

It is computed on demand from the clock and the barrier's own flush timer, so an append pays nothing
for it.
"""

from __future__ import annotations

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.counters import Histogram

WINDOW_NS = 50 * NS_PER_MS
_WINDOW_MAX_NS = 4 * WINDOW_NS  # older measurements are not current


class FlushShare:
    """For one thread at a time."""

    def __init__(self, durations_ns: Histogram, clock: Clock) -> None:
        self._durations_ns = durations_ns
        self._clock = clock
        self._share: float | None = None
        self._looked_at_ns = clock.monotonic_ns()
        self._flushed_ns = 0  # in flushes, when it was looked at

    def measure(self) -> float | None:
        """Returns the share of the last window, or None if there was no measurement at its
        beginning.
        """
        now_ns = self._clock.monotonic_ns()
        elapsed_ns = now_ns - self._looked_at_ns
        if elapsed_ns >= WINDOW_NS:
            flushed_ns = self._durations_ns.snapshot().total
            is_recent = elapsed_ns <= _WINDOW_MAX_NS
            self._share = (flushed_ns - self._flushed_ns) / elapsed_ns if is_recent else None
            self._looked_at_ns, self._flushed_ns = now_ns, flushed_ns
        return self._share
