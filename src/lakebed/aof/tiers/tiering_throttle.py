"""How a log stands between its appends and its tiers: `tiering_policy` decides by what is seen
here.

Appends are seen by the flushes they lead to. A segment waits from the moment it is seen to be
ready; after a restart it begins to wait anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from lakebed.aof.context import LogContext
from lakebed.aof.tiers.admission import Admission
from lakebed.aof.tiers.tiering_policy import (
    Load,
    TieringPolicy,
    is_pause,
    is_time,
    pause_due_ns,
    time_due_ns,
)

GIVE_WAY_NS = 10_000_000  # between two looks
GIVE_WAY_NS_MAX = 1_000_000_000  # of one job in all


class TieringThrottle:
    """Of one log. Thread-safe."""

    def __init__(self, context: LogContext, admission: Admission, pacing: TieringPolicy) -> None:
        self._clock = context.clock
        self._sleep_ns = context.runner.sleep_ns
        self._flushes = context.metrics.flush_operations
        self._admission = admission
        self._pacing = pacing
        self._mutex = context.runner.mutex()  # guards the rest
        self._flushes_seen = -1
        self._busy_at_ns = 0
        self._ready_at_ns: dict[int, int] = {}  # by segment

    def note(self, ready: Collection[int]) -> None:
        """These segments are to be compressed or uploaded, and no others."""
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            before = self._ready_at_ns
            self._ready_at_ns = {number: before.get(number, now_ns) for number in ready}

    @property
    def is_pause(self) -> bool:
        return is_pause(self._load(), self._pacing)

    def pause_due_ns(self) -> int:
        return pause_due_ns(self._load(), self._pacing)

    def is_time(self, segment_id: int) -> bool:
        """To compress or upload the segment."""
        return is_time(self._load(), self._pacing, waiting_since_ns=self._ready_at(segment_id))

    def time_due_ns(self, segment_id: int) -> int:
        """How long until it may be time for that; 0: it is."""
        return time_due_ns(self._load(), self._pacing, waiting_since_ns=self._ready_at(segment_id))

    def give_way(self, segment_id: int, should_stop: Callable[[], bool]) -> Callable[[], None]:
        """For a job to call now and then: lets a burst that began meanwhile go first, for a while.

        Not to its end, which may be far: the worker is wanted by other logs too.
        """
        left_ns = GIVE_WAY_NS_MAX

        def wait() -> None:
            nonlocal left_ns
            while left_ns > 0 and not should_stop() and not self.is_time(segment_id):
                self._sleep_ns(GIVE_WAY_NS)
                left_ns -= GIVE_WAY_NS

        return wait

    def _load(self) -> Load:
        flushes, now_ns = self._flushes.value, self._clock.monotonic_ns()
        with self._mutex:
            if flushes != self._flushes_seen:
                self._flushes_seen, self._busy_at_ns = flushes, now_ns
            busy_at_ns = self._busy_at_ns
        return Load(now_ns, busy_at_ns, self._admission.fills(), self._admission.is_refused)

    def _ready_at(self, segment_id: int) -> int:
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            return self._ready_at_ns.get(segment_id, now_ns)
