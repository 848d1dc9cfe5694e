"""The transitions of an open log's chain of segments.

    open     the active segment gets its first record
    roll     the active segment is handed over, the next one becomes active
    finish   a segment that was handed over has its footer, and is sealed
    retire   a sealed segment leaves the log

Each is called with the log's mutex held. Everything that must change together, including the record
in the manifest log, changes in that critical section: an observer sees the chain either before a
transition or after it. If the journal's queue is full the transition is refused and nothing
changes. Disk I/O comes before (a footer is durable before `finish`) or afterwards (files are
removed after `retire`). The first active segment exists when the log is opened, without a
transition.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebed.aof.context import LogContext
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.segment import Segment
from lakebed.aof.tiers.tier_scheduler import TierScheduler
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Busy


class Transitions:
    """The only code that changes the chain. Call every method with the state's mutex held."""

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        *,
        wake_maintenance: Callable[[], None],
    ) -> None:
        self._state = context.state
        self._recorder = recorder
        self._metrics = context.metrics
        self._wake_maintenance = wake_maintenance
        self.tiering: TierScheduler | None = None  # set once, before the log is used

    @property
    def may_roll(self) -> bool:
        """Whether `roll` would succeed now."""
        chain = self._state.chain
        if self.tiering is None:
            return chain.may_roll
        return chain.is_rollover_acknowledged

    @property
    def is_asking_useful(self) -> bool:
        """Whether a `roll` that fails now would request the rollover from the tiers."""
        if self.tiering is None or not self._state.chain.may_roll:
            return False
        return self.tiering.admission.may_admit()

    def open(self, segment: Segment) -> None:
        """Records that the segment is about to get its first record.

        Raises `WouldBlock` if the journal cannot record that now.
        """
        try:
            self._recorder.opened(segment)
        except Busy as error:
            raise WouldBlock(BackpressureKind.ROLLOVER, f"{self._state.name}: {error}") from None

    def roll(self) -> Segment:
        """Hands the active segment over and returns the new active one.

        Raises `WouldBlock` of kind rollover while another segment is unsealed or the tiers have not
        acknowledged the rollover, and of kind admission if Tier 0 has no room for another segment.
        """
        state = self._state
        if not self.may_roll:
            state.is_tail_full = True
            raise self._request()
        state.chain.roll()
        state.is_tail_full = False
        self._metrics.segment_rollovers.add()
        self._wake_maintenance()
        return state.chain.active

    def _request(self) -> WouldBlock:
        """Requests a rollover from the tiers if possible; returns what the caller must wait for."""
        state = self._state
        if not state.chain.may_roll:
            reason = "the segment before is not sealed yet, or a rollover is in progress"
            return WouldBlock(BackpressureKind.ROLLOVER, f"{state.name}: {reason}")
        assert self.tiering is not None
        if not self.tiering.admission.may_admit():
            reason = "Tier 0 has no room for another segment"
            return WouldBlock(BackpressureKind.ADMISSION, f"{state.name}: {reason}")
        state.chain.request_rollover()
        self._wake_maintenance()
        return WouldBlock(
            BackpressureKind.ROLLOVER, f"{state.name}: the rollover is not acknowledged yet"
        )

    def finish(self, segment: Segment, *, coordinator_watermark: int) -> SegmentInfo:
        """Seals the oldest handed-over segment, whose footer is durable."""
        self._recorder.sealed(segment, coordinator_watermark=coordinator_watermark)
        return self._state.chain.finish(segment)

    def retire(self, info: SegmentInfo, *, durable_bytes: int) -> None:
        """Removes a sealed segment from the log; its file is deleted afterwards."""
        self._recorder.evicted(info, durable_bytes=durable_bytes)
        self._state.chain.retire([info])
