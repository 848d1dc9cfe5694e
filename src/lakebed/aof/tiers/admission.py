"""Who may use Tier 0 next: room for another segment, and the handshake that leads to it.

- A segment is admitted to Tier 0 if there is room for it, in the log's budget and in that of all
  logs. Otherwise appends are told `WouldBlock` of kind admission until something was evicted.
- A rollover is acknowledged when the record that the segment will be compressed is durable.

Counts what is used: of sealed segments as the manifest log knew them when it was last measured, of
the others as they are.
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

_log = logging.getLogger(__name__)


class Admission:
    """Of one log whose tiering is on. Thread-safe."""

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
        """`wake` makes the coordinator look for something to evict."""
        self._state = context.state
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
        self._usage = Usage()  # guarded by the log's mutex, as is the next
        self._is_refused = False  # somebody waits for admission
        self._is_rollover_failed = False  # the maintenance's own

    def may_admit(self) -> bool:
        """Whether another segment fits into Tier 0. With the log's mutex."""
        is_room = self._is_room()
        if not is_room:
            self._is_refused = True
            self._metrics.admissions_refused.add()
            self._wake()
        return is_room

    def announce(self) -> None:
        """Tell who waits for admission that there is room now, whoever made it."""
        with self._state.mutex:
            is_news = self._is_refused and self._is_room()
            if is_news:
                self._is_refused = False
        if is_news:
            self._notifier.notify()

    def acknowledge(self) -> None:
        """Take a rollover that was asked for, record it; acknowledge it when that is durable.

        A `RetryError` if that is to be tried again: at the next call whoever waits for the
        rollover is told to ask for it once more.
        """
        chain, journal = self._state.chain, self._recorder.journal
        if self._is_rollover_failed:
            self._is_rollover_failed = False
            self._notifier.notify()
        with self._state.mutex:
            if not chain.is_rollover_requested:
                return
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
                raise
            self._notifier.notify()  # the log has failed, and tells it to whoever asks
            return
        with self._state.mutex:
            chain.acknowledge_rollover()
        self._rollover_failed.reset()
        self._notifier.notify()

    def measure(self, states: Sequence[SegmentState]) -> None:
        """How much is where, by the states of now; the budget of all logs is told."""
        usage = Usage(
            tier0_bytes=sum(s.durable_bytes for s in states if s.residency & Residency.TIER0),
            held_bytes=held_bytes(states),
            tier1_bytes=sum(s.compressed_bytes for s in states if s.residency & Residency.TIER1),
            tier2_bytes=sum(s.compressed_bytes for s in states if s.residency & Residency.TIER2),
        )
        with self._state.mutex:
            self._usage = usage
            used = self._used()
        self._budget.report(self._state.name, used)

    def tier0_excess(self, *, is_pause: bool, more_bytes: int = 0) -> int:
        """How much must go from Tier 0 if that much more came.

        So that the next segment finds room when this one is full: that is made while it fills, and
        no append waits for it. In a pause: so that a burst does.
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
        """How much must go from Tier 1."""
        return self._budget.tier1_excess()

    def fills(self) -> tuple[Fill, ...]:
        """How much of Tier 0 is held, of this log's and of that of all."""
        with self._state.mutex:
            held = self._used().held_bytes
        return (Fill(held, self._config.tier0_bytes_max), self._budget.fill())

    @property
    def is_refused(self) -> bool:
        """Whether somebody waits for admission."""
        with self._state.mutex:
            return self._is_refused

    def close(self) -> None:
        self._budget.forget(self._state.name)

    # With the log's mutex.

    def _is_room(self) -> bool:
        """For another segment."""
        needed = self._segment_bytes
        is_own_room = self._used().tier0_bytes + needed <= self._config.tier0_bytes_max
        return is_own_room and self._budget.tier0_excess(needed_bytes=needed) <= 0

    def _used(self) -> Usage:
        """With the unsealed segments, of which what is used counts: many logs that stand still must
        not use up the budget of all."""
        chain, usage = self._state.chain, self._usage
        unsealed = sum(segment.end for segment in (*chain.to_seal, chain.active))
        return usage._replace(
            tier0_bytes=usage.tier0_bytes + unsealed, held_bytes=usage.held_bytes + unsealed
        )
