"""Admits new segments to Tier 0 and acknowledges rollovers.

- A segment is admitted to Tier 0 if there is room for it, both in the log's budget and in the
  budget of all logs. Otherwise appends raise `WouldBlock` of kind admission until segments are
  evicted.
- A rollover is acknowledged once the record that the segment will be compressed is durable.

Usage counts sealed segments as of the last measurement of the manifest log, and unsealed segments
as they are now.
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
    """Decides on admission for one log with tiering on. Thread-safe."""

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
        """`wake` makes the coordinator look for segments to evict."""
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
        self._usage = Usage()  # guarded by the log's mutex, like the next field
        self._is_refused = False  # an append waits for admission
        self._is_rollover_failed = False  # used only by the maintenance step

    def may_admit(self) -> bool:
        """Returns whether Tier 0 has room for another segment. Called with the log's mutex held."""
        is_room = self._is_room()
        if not is_room:
            self._is_refused = True
            self._metrics.admissions_refused.add()
            self._wake()
        return is_room

    def announce(self) -> None:
        """Wakes appends that wait for admission if there is room now."""
        with self._state.mutex:
            is_admitted = self._is_refused and self._is_room()
            if is_admitted:
                self._is_refused = False
        if is_admitted:
            self._notifier.notify()

    def acknowledge(self) -> None:
        """Takes a requested rollover, records it, and acknowledges it once the record is durable.

        Raises a `RetryError` if that failed and must be retried. The next call then wakes the
        appends that wait for the rollover, so that they request it again.
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
            self._notifier.notify()  # the log has failed, and its callers get that error
            return
        with self._state.mutex:
            chain.acknowledge_rollover()
        self._rollover_failed.reset()
        self._notifier.notify()

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
        """Returns how many bytes must leave Tier 0, if `more_bytes` were added.

        Normally this keeps room for the next segment, freed while the active one fills, so that no
        append waits for it. In a pause, it keeps room for a burst of appends.
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
        """Returns how many bytes must leave Tier 1."""
        return self._budget.tier1_excess()

    def fills(self) -> tuple[Fill, ...]:
        """Returns how much of Tier 0 is held, in this log's budget and in that of all logs."""
        with self._state.mutex:
            held = self._used().held_bytes
        return (Fill(held, self._config.tier0_bytes_max), self._budget.fill())

    @property
    def is_refused(self) -> bool:
        """Whether an append waits for admission."""
        with self._state.mutex:
            return self._is_refused

    def close(self) -> None:
        self._budget.forget(self._state.name)

    # Called with the log's mutex held.

    def _is_room(self) -> bool:
        """Returns whether there is room for another segment."""
        needed = self._segment_bytes
        is_own_room = self._used().tier0_bytes + needed <= self._config.tier0_bytes_max
        return is_own_room and self._budget.tier0_excess(needed_bytes=needed) <= 0

    def _used(self) -> Usage:
        """Returns the usage including unsealed segments.

        Only the used part of those counts: many idle logs must not exhaust the budget of all logs.
        """
        chain, usage = self._state.chain, self._usage
        unsealed = sum(segment.end for segment in (*chain.to_seal, chain.active))
        return usage._replace(
            tier0_bytes=usage.tier0_bytes + unsealed, held_bytes=usage.held_bytes + unsealed
        )
