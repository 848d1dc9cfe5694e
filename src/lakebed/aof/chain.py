"""The chain of segments of a log that is open for writing, and the rollover from one to the next.

The chain holds the sealed segments, those waiting to be sealed, and the active segment. It is kept
in memory only and guarded by the log's mutex.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from lakebed.aof.format import next_base_offset
from lakebed.aof.paths import LogPaths, SegmentName
from lakebed.aof.recovery import Recovered
from lakebed.aof.rollover import Signal, State, after
from lakebed.aof.segment import Segment
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import Clock


class SegmentChain:
    """The segments of one log. Normally at most two are unsealed: `active`, and one in `to_seal`.

    After a crash, recovery may put more segments in `to_seal`; all of them are sealed before the
    next rollover.
    """

    def __init__(
        self, recovered: Recovered, *, paths: LogPaths, segment_bytes: int, clock: Clock
    ) -> None:
        self._paths = paths
        self._segment_bytes = segment_bytes
        self._clock = clock
        self.sealed: list[SegmentInfo] = list(recovered.sealed)
        self.to_seal: list[Segment] = list(recovered.to_seal)
        self.state = State.POST_ACK_CLEANUP if self.to_seal else State.ACTIVE
        self._next = (
            recovered.next_segment_id,
            recovered.next_base_offset,
            recovered.next_record_count,
        )
        self.active = recovered.tail or self._new_segment()
        self._readable: tuple[SegmentInfo, ...] | None = None  # computed when first needed

    @property
    def may_roll(self) -> bool:
        return self.state is State.ACTIVE

    @property
    def is_rollover_requested(self) -> bool:
        return self.state is State.ROLLOVER_REQUESTED

    @property
    def is_rollover_acknowledged(self) -> bool:
        return self.state is State.ACK_READY

    def request_rollover(self) -> None:
        self.state = after(self.state, Signal.REQUEST)

    def take_rollover(self) -> None:
        self.state = after(self.state, Signal.TAKE)

    def acknowledge_rollover(self) -> None:
        self.state = after(self.state, Signal.ACKNOWLEDGE)

    def fail_rollover(self) -> None:
        self.state = after(self.state, Signal.FAIL)

    def roll(self) -> Segment:
        """Starts the next segment. Moves the segment that was active to `to_seal`, and returns it.

        If no rollover was requested, this also requests and acknowledges the rollover. If a
        rollover was requested, it must have been acknowledged.
        """
        if self.may_roll:
            self.request_rollover()
            self.take_rollover()
            self.acknowledge_rollover()
        self.state = after(self.state, Signal.PROMOTE)
        full = self.active
        self.to_seal.append(full)
        self._next = (
            full.name.segment_id + 1,
            next_base_offset(full.name.base_offset, full.end),
            full.base_record_count + full.record_count,
        )
        self.active = self._new_segment()
        self._readable = None
        return full

    def finish(self, segment: Segment) -> SegmentInfo:
        """Moves `segment`, the first of `to_seal`, which now has its footer, to `sealed`."""
        assert self.to_seal[0] is segment
        self.to_seal.pop(0)
        info = self._info(segment, is_sealed=True)
        self.sealed.append(info)
        self._readable = None
        if not self.to_seal:
            self.state = after(self.state, Signal.RELEASE)
        return info

    @property
    def is_at_start(self) -> bool:
        """Whether no segment waits to be sealed and the active segment has no record."""
        return not self.to_seal and not self.active.record_count

    def follow(self, last: SegmentInfo, *, record_count: int) -> None:
        """Makes the active segment continue after `last`, a segment that is only in colder tiers.

        Used when the newest sealed segment has no local file. `record_count` is the number of
        records in the log up to the end of `last`. If the active segment has a file already, only
        its base record count changes.
        """
        assert self.is_at_start, "records were written already"
        assert last.end is not None, "the end of a segment in a colder tier is known"
        if self.active.is_on_disk:  # its file was created before a crash, and has no record
            self.active.base_record_count = record_count
            return
        segment_id = max(self.active.name.segment_id, last.segment_id + 1)
        self._next = (segment_id, next_base_offset(last.base_offset, last.end), record_count)
        self.active = self._new_segment()
        self._readable = None

    def find(self, segment_id: int) -> SegmentInfo | None:
        """Returns the sealed segment with that id, from any tier, or None if the log has none."""
        index = bisect_left(self.sealed, segment_id, key=lambda sealed: sealed.segment_id)
        info = self.sealed[index] if index < len(self.sealed) else None
        return info if info is not None and info.segment_id == segment_id else None

    def place(self, info: SegmentInfo) -> None:
        """Adds a sealed segment, or replaces its entry, for example because its tier changed."""
        index = bisect_left(self.sealed, info.segment_id, key=lambda sealed: sealed.segment_id)
        is_listed = index < len(self.sealed) and self.sealed[index].segment_id == info.segment_id
        self.sealed[index : index + is_listed] = [info]
        self._readable = None

    def last_written(self) -> Segment | None:
        """Returns the newest unsealed segment that has a record, or None."""
        for segment in (self.active, *reversed(self.to_seal)):
            if segment.record_count:
                return segment
        return None

    def note_durable(self, segment: Segment, end: int) -> None:
        """Stores that the segment's bytes up to file offset `end` were synced."""
        if not segment.durable:
            self._readable = None
        segment.durable = end

    def retire(self, gone: Sequence[SegmentInfo]) -> None:
        """Removes the sealed segments in `gone` from the chain."""
        self.sealed = [info for info in self.sealed if info not in gone]
        self._readable = None

    def readable(self) -> tuple[SegmentInfo, ...]:
        """Returns the sealed segments and the unsealed segments with durable records, oldest first.

        The tuple is cached until the segments change, so calls are cheap in logs of any size.
        """
        if self._readable is None:
            unsealed = [
                self._info(segment, is_sealed=False)
                for segment in (*self.to_seal, self.active)
                if segment.durable
            ]
            self._readable = (*self.sealed, *unsealed)
        return self._readable

    def _new_segment(self) -> Segment:
        segment_id, base_offset, record_count = self._next
        name = SegmentName(segment_id, base_offset, self._clock.wall_ns())
        return Segment(name, size=self._segment_bytes, base_record_count=record_count)

    def _info(self, segment: Segment, *, is_sealed: bool) -> SegmentInfo:
        return SegmentInfo(
            segment_id=segment.name.segment_id,
            base_offset=segment.name.base_offset,
            created_at=segment.name.created_at,
            path=self._paths.segment(segment.name),
            is_sealed=is_sealed,
            end=segment.end if is_sealed else None,
        )
