"""Measures the load of a log, from which `tiering_policy` decides when segments may be moved.

A pause is measured from the log's last flush. A segment's waiting time begins when it first needs
to be compressed or uploaded, and begins again after a restart.
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

GIVE_WAY_NS = 10_000_000  # between two checks
GIVE_WAY_NS_MAX = 1_000_000_000  # in total for one job


class TieringThrottle:
    """Delays the compression and upload of one log's segments during appends. Thread-safe."""

    def __init__(self, context: LogContext, admission: Admission, pacing: TieringPolicy) -> None:
        self._clock = context.clock
        self._sleep_ns = context.runner.sleep_ns
        self._flushes = context.metrics.flush_operations
        self._admission = admission
        self._pacing = pacing
        self._mutex = context.runner.mutex()  # guards the fields below
        self._flushes_seen = -1
        self._busy_at_ns = 0
        self._ready_at_ns: dict[int, int] = {}  # by segment id

    def note(self, ready: Collection[int]) -> None:
        """Sets which segments wait to be compressed or uploaded."""
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
        """Returns whether the segment may be compressed or uploaded now."""
        return is_time(self._load(), self._pacing, waiting_since_ns=self._ready_at(segment_id))

    def time_due_ns(self, segment_id: int) -> int:
        """Returns the nanoseconds until the segment may be compressed or uploaded; 0 means now."""
        return time_due_ns(self._load(), self._pacing, waiting_since_ns=self._ready_at(segment_id))

    def give_way(self, segment_id: int, should_stop: Callable[[], bool]) -> Callable[[], None]:
        """Returns a function that the compression of a segment calls between its steps.

        The function waits while appends keep the log busy, until the segment may be compressed
        (`is_time`) or `should_stop` returns True. All its calls together wait for at most about
        `GIVE_WAY_NS_MAX`, because other logs need the worker too.
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
