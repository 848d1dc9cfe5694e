"""The ways in which the chain of a log's segments changes once it is open.

    open     the active segment gets its first record
    roll     the active segment is handed over, the next one becomes active
    finish   a segment that was handed over has its footer, and is sealed
    retire   sealed segments leave the log

Each is called with the log's mutex held, and all that must change together changes within that
critical section, what the manifest log is told of it too: whoever looks at the log sees the chain
before a transition or after it. A journal that takes no more refuses it, and nothing changes. What
needs the disk comes before (a footer is durable before `finish`) or after (files are removed
behind `retire`). The first active segment of a log is no transition: it is there when it is opened.
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
    """Nobody else changes the chain. All methods: with the mutex of the state."""

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
        """Whether a `roll` would not succeed, but bring it about: the tiers wait to be asked."""
        if self.tiering is None or not self._state.chain.may_roll:
            return False
        return self.tiering.admission.may_admit()

    def open(self, segment: Segment) -> None:
        """The segment is about to get its first record. `WouldBlock` if that cannot be recorded."""
        try:
            self._recorder.opened(segment)
        except Busy as error:
            raise WouldBlock(BackpressureKind.ROLLOVER, f"{self._state.name}: {error}") from None

    def roll(self) -> Segment:
        """Hand the active segment over; the new active one.

        `WouldBlock` of kind rollover while one is unsealed, or the tiers have not acknowledged it
        yet; of kind admission if there is no room in Tier 0 for another.
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
        """Ask the tiers for a rollover if that is possible now; what to wait for."""
        state = self._state
        if not state.chain.may_roll:
            reason = "the segment before is not sealed yet, or this one is being handed over"
            return WouldBlock(BackpressureKind.ROLLOVER, f"{state.name}: {reason}")
        assert self.tiering is not None
        if not self.tiering.admission.may_admit():
            reason = "there is no room in Tier 0 for another segment"
            return WouldBlock(BackpressureKind.ADMISSION, f"{state.name}: {reason}")
        state.chain.request_rollover()
        self._wake_maintenance()
        return WouldBlock(BackpressureKind.ROLLOVER, f"{state.name}: not acknowledged yet")

    def finish(self, segment: Segment, *, coordinator_watermark: int) -> SegmentInfo:
        """The oldest segment that was handed over is sealed: its footer is durable."""
        self._recorder.sealed(segment, coordinator_watermark=coordinator_watermark)
        return self._state.chain.finish(segment)

    def retire(self, info: SegmentInfo, *, durable_bytes: int) -> None:
        """A sealed segment leaves the log; its file is removed after that."""
        self._recorder.evicted(info, durable_bytes=durable_bytes)
        self._state.chain.retire([info])
