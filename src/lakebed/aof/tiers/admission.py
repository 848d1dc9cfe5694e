"""Admits new segments to Tier 0 and acknowledges rollovers.

- A new segment is admitted to Tier 0 if it fits both in the log's budget and in the budget of all
  logs together. Otherwise appends that need a new segment raise `WouldBlock` of kind admission
  until segments are evicted.
- A rollover is acknowledged once the manifest log has durably recorded that the full segment will
  be compressed, or at once if the manifest log is off.

The bytes of sealed segments are counted when `measure` is called; those of unsealed segments are
always current.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from lakebed.aof.context import LogContext
from lakebed.aof.manifest.format import CompressionStarted
from lakebed.aof.manifest.state import Residency, SegmentState
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.tiers.budget import TierBudget, Usage
from lakebed.aof.tiers.config import TierConfig
from lakebed.aof.tiers.metrics import TierMetrics
from lakebed.aof.tiers.tier_plan import held_bytes
from lakebed.aof.tiers.tiering_policy import Fill
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import LakebedError, RetryError
from lakebed.base.events import RareEvent

_RETRY_NS = NS_PER_S // 10  # after a rollover could not be recorded
_log = logging.getLogger(__name__)


class Admission:
    """Admits the segments of one log, with tiering on, to Tier 0. Thread-safe."""

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        *,
        config: TierConfig,
        budget: TierBudget,
        metrics: TierMetrics,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called to make the coordinator look for segments to evict."""
        self._state = context.state
        self._clock = context.clock
        self._notifier = context.notifier
        self._segment_bytes = context.config.segment_bytes
        self._recorder = recorder
        self._config = config
        self._pacing = config.pacing()
        self._budget = budget
        self._metrics = metrics
        self._wake = wake
        self._rollover_failed = RareEvent(
            _log,
            "rollover_failed",
            level=logging.ERROR,
            clock=context.clock,
            every_ns=60 * NS_PER_S,
        )
        self._usage = Usage()  # guarded by the log's mutex, like the next field
        self._is_refused = False  # an append was refused, and there was no room since
        self._is_rollover_failed = False  # used only by the maintenance step, like the next field
        self._retry_at_ns = 0

    def may_admit(self) -> bool:
        """Returns whether Tier 0 has room for another segment; if not, wakes the coordinator.

        The caller must hold the log's mutex.
        """
        is_room = self._is_room()
        if not is_room:
            self._is_refused = True
            self._metrics.admissions_refused.add()
            self._wake()
        return is_room

    def announce(self) -> None:
        """Wakes the appends that wait for admission, if Tier 0 now has room."""
        with self._state.mutex:
            is_admitted = self._is_refused and self._is_room()
            if is_admitted:
                self._is_refused = False
        if is_admitted:
            self._notifier.notify()

    def acknowledge(self) -> int | None:
        """Records a requested rollover durably and acknowledges it; does nothing without a request.

        Raises a `RetryError` if the rollover cannot be recorded now. For a short time after that,
        calls do nothing and return the nanoseconds that remain of this time. The first call after
        it wakes the appends that wait for the rollover, so that they request it again. In all other
        cases, returns None.
        """
        chain, journal = self._state.chain, self._recorder.journal
        if self._is_rollover_failed:
            wait_ns = self._retry_at_ns - self._clock.monotonic_ns()
            if wait_ns > 0:
                return wait_ns
            self._is_rollover_failed = False
            self._notifier.notify()
        with self._state.mutex:
            if not chain.is_rollover_requested:
                return None
            chain.take_rollover()
            name = chain.active.name
        try:
            if journal is not None:
                journal.append(
                    CompressionStarted(name.segment_id),
                    segment_id=name.segment_id,
                    logical_offset=name.base_offset,
                )
                journal.commit()
        except LakebedError as error:
            with self._state.mutex:
                chain.fail_rollover()
            self._rollover_failed.note(log=self._state.name, error=error)
            if isinstance(error, RetryError):
                self._is_rollover_failed = True
                self._retry_at_ns = self._clock.monotonic_ns() + _RETRY_NS
                raise
            self._notifier.notify()  # the log has failed, and its callers get that error
            return None
        with self._state.mutex:
            chain.acknowledge_rollover()
        self._rollover_failed.reset()
        self._notifier.notify()
        return None

    def measure(self, states: Sequence[SegmentState]) -> None:
        """Computes the usage of each tier and reports it to the budget of all logs."""
        usage = Usage(
            tier0_bytes=sum(
                state.durable_bytes for state in states if state.residency & Residency.TIER0
            ),
            held_bytes=held_bytes(states),
            tier1_bytes=sum(
                state.compressed_bytes for state in states if state.residency & Residency.TIER1
            ),
            tier2_bytes=sum(
                state.compressed_bytes for state in states if state.residency & Residency.TIER2
            ),
        )
        with self._state.mutex:
            self._usage = usage
            used = self._used()
        self._budget.report(self._state.name, used)

    def tier0_excess(self, *, is_pause: bool, more_bytes: int = 0) -> int:
        """Returns how many bytes must be evicted from Tier 0 before `more_bytes` can be added.

        A result of 0 or less means none. The result includes the space that must stay free for the
        active and the next segment or, with `is_pause`, for a burst of appends if that is more.
        """
        with self._state.mutex:
            active, used = self._state.chain.active, self._used()
        next_bytes = max(0, active.size - active.end) + self._segment_bytes
        excesses = []
        for used_bytes, bytes_max in (
            (used.tier0_bytes, self._config.tier0_bytes_max),
            (self._budget.total().tier0_bytes, self._budget.tier0_bytes_max),
        ):
            burst_bytes = self._pacing.burst_bytes(bytes_max) if is_pause else 0
            needed_bytes = max(next_bytes, burst_bytes) + more_bytes
            excesses.append(used_bytes + needed_bytes - bytes_max)
        return max(excesses)

    def tier1_excess(self) -> int:
        """Returns by how many bytes Tier 1 exceeds its budget; 0 or less if it does not."""
        return self._budget.tier1_excess()

    def fills(self) -> tuple[Fill, ...]:
        """Returns how many bytes in Tier 0 cannot be evicted yet, of this log and of all logs."""
        with self._state.mutex:
            held = self._used().held_bytes
        return (Fill(held, self._config.tier0_bytes_max), self._budget.fill())

    @property
    def is_refused(self) -> bool:
        """Whether a segment was refused for lack of room, and `announce` found no room since."""
        with self._state.mutex:
            return self._is_refused

    def close(self) -> None:
        self._budget.forget(self._state.name)

    # The caller of these methods must hold the log's mutex.

    def _is_room(self) -> bool:
        """Returns whether another segment fits in both budgets of Tier 0."""
        needed = self._segment_bytes
        is_own_room = self._used().tier0_bytes + needed <= self._config.tier0_bytes_max
        return is_own_room and self._budget.tier0_excess(needed_bytes=needed) <= 0

    def _used(self) -> Usage:
        """Returns the log's usage of each tier, including unsealed segments.

        Only the written part of an unsealed segment counts, so that many idle logs do not exhaust
        the budget of all logs.
        """
        chain, usage = self._state.chain, self._usage
        unsealed = sum(segment.end for segment in (*chain.to_seal, chain.active))
        return usage._replace(
            tier0_bytes=usage.tier0_bytes + unsealed, held_bytes=usage.held_bytes + unsealed
        )
