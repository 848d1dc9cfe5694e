"""How long items that no caller waits for are held back so that a batch can form.

The delay is fixed at the maximum, or adaptive. An adaptive delay is zero while the sink is idle, so
that a lone item does not wait for others, and about one commit's duration under load, so that the
next commit finds a batch. It never exceeds the maximum.
"""

from __future__ import annotations

from lakebed.base.clock import NS_PER_MS

_WEIGHT = 4  # a new duration counts for a quarter of the average


class Linger:
    """Computes how long items that no caller waits for are held back. The leader of the barrier
    calls `note` after each successful commit; `delay_ns` may be called without a lock.
    """

    def __init__(self, *, delay_ms_max: int, is_adaptive: bool = True) -> None:
        self._delay_ns_max = delay_ms_max * NS_PER_MS
        self._is_adaptive = is_adaptive
        self._ended_ns: int | None = None  # when the last commit ended
        self._usual_ns = 0  # the average duration of a commit

    def note(self, *, ended_ns: int, duration_ns: int) -> None:
        self._ended_ns = ended_ns
        self._usual_ns += (duration_ns - self._usual_ns) // _WEIGHT

    def delay_ns(self, now_ns: int) -> int:
        """Returns how long items are currently held back, in ns."""
        if not self._is_adaptive:
            return self._delay_ns_max
        if self._ended_ns is None or now_ns - self._ended_ns > self._delay_ns_max:
            return 0
        return min(self._usual_ns, self._delay_ns_max)
