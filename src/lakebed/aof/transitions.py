"""The transitions of an open log's chain of segments.

    open     the active segment gets its first record
    roll     the active segment waits to be sealed, and a new segment becomes active
    finish   a segment that waited to be sealed is sealed
    retire   a sealed segment is removed from the log

Each method must be called with the log's mutex held. Everything that must change together,
including the record in the manifest log, changes in that critical section: other threads see the
chain either before a transition or after it. If the queue of the manifest log is full, a transition
that the manifest log must record is refused and the chain does not change. Disk I/O happens before
a transition (a footer is durable before `finish`) or after it (files are removed after `retire`).
The segment that is active when the log is opened needs no `roll`.
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
    """Starts, seals and retires the segments of one log; no other code may.

    Callers must hold the log's mutex.
    """

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
        """Whether calling `roll` now would request a rollover, which the tiers must acknowledge.

        That call raises `WouldBlock`; a call after the acknowledgement succeeds.
        """
        if self.tiering is None or not self._state.chain.may_roll:
            return False
        return self.tiering.admission.may_admit()

    def open(self, segment: Segment) -> None:
        """Records in the manifest log that the segment gets its first record.

        Raises `WouldBlock` if the queue of the manifest log is full.
        """
        try:
            self._recorder.opened(segment)
        except Busy as error:
            raise WouldBlock(BackpressureKind.ROLLOVER, f"{self._state.name}: {error}") from None

    def roll(self) -> Segment:
        """Starts a new active segment and returns it; the previous segment waits to be sealed.

        Raises `WouldBlock` of kind rollover while a previous segment is not sealed or, with tiering
        on, the rollover is not acknowledged; and of kind admission if Tier 0 has no room for
        another segment.
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
        """Requests a rollover from the tiers if possible.

        Returns the error to raise, which names what the caller must wait for.
        """
        state = self._state
        if not state.chain.may_roll:
            reason = "the previous segment is not sealed yet, or a rollover is in progress"
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
        """Marks the oldest unsealed segment as sealed, after its footer was made durable.

        Raises `Busy` if the queue of the manifest log is full.
        """
        self._recorder.sealed(segment, coordinator_watermark=coordinator_watermark)
        return self._state.chain.finish(segment)

    def retire(self, info: SegmentInfo, *, durable_bytes: int) -> None:
        """Removes a sealed segment from the log; the caller must remove its file afterwards.

        Raises `Busy` if the queue of the manifest log is full; the segment then stays in the log.
        """
        self._recorder.evicted(info, durable_bytes=durable_bytes)
        self._state.chain.retire([info])
