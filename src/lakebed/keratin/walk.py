"""Walks the records of a partition between two offsets, from segment to segment.

Invariants: each record is returned at most once and in order, even if segments are sealed, replaced
by smaller ones or removed in the meantime. No record that begins at or after the end offset is
returned. A walk stops at its end, raises `OffsetOutOfRange` if the next messages were removed, or
raises `Corrupt` at damage, or `DiskError` if a read fails. If damage is skipped, the walk continues
with the next whole record, and after a failed read with the next segment. Messages that are
recorded as lost count as damage until an operator acknowledges the loss. Other offsets without
records are not damage: compaction leaves such gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Corrupt, DiskError, NotFound, UnknownVersion
from lakebed.base.files.handles import Lease
from lakebed.base.units import KIB
from lakebed.keratin.damage import DamagePolicy, SkippedRange
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.format import LOG_HEADER
from lakebed.keratin.log_bytes import OUT_OF_ORDER, PROBLEMS
from lakebed.keratin.run import Run
from lakebed.keratin.segment_reader import SegmentReader
from lakebed.keratin.view import PartitionSegment, PartitionView
from lakebed.kernels import Stop

Leases = Callable[[PartitionSegment], Lease[SegmentReader]]
_LOOKS_MAX = 20  # how many times to list the segments again when a file does not match
_LOOK_NS = 1 * NS_PER_MS
_WANTED_BYTES_MIN = 4 * KIB


class Walk:
    """Iterates over the records with offsets in `[start, end)`, as runs.

    The walk leases the file of a segment only while it reads one run. The first record may be a
    batch that also has messages before `start`, and the last record a batch that also has messages
    at or after `end`.
    """

    def __init__(
        self,
        view: PartitionView,
        lease: Leases,
        *,
        start: int,
        end: int,
        policy: DamagePolicy,
        bytes_max: int,
    ) -> None:
        self._view = view
        self._lease = lease
        self._policy = policy
        self._bytes_max = bytes_max
        self._next = start  # the first offset not yet passed
        self._end = end
        self._segments = view.segments()
        self._reading: SegmentReader | None = None  # the reader that `_position` belongs to
        self._position = 0
        self._looks = 0
        lost = (loss for loss in view.lost_offsets() if (loss.next_offset or 0) > start)
        self._lost = [loss for loss in lost if (loss.first_offset or 0) < end]

    @property
    def path(self) -> str:
        """The path of the log that the walk is reading, which is that of the run just returned.

        Empty if the walk is not reading a log.
        """
        return str(self._reading.log.path) if self._reading else ""

    def __iter__(self) -> Iterator[Run]:
        while self._next < self._end:
            info = self._find()
            if info is None:
                break
            listed, limit = self._segments, min(self._end, info.next_offset)
            while self._next < limit:
                run = self._step(info)
                if run is not None:
                    yield from self._around_lost(run) if self._lost else (run,)
                if self._segments is not listed:
                    break

        while self._lost:
            self._report_lost()

    def _around_lost(self, run: Run) -> Iterator[Run]:
        """Yields the run, split where messages are recorded as lost, and reports those losses."""
        while self._lost and (self._lost[0].first_offset or 0) < run.next_offset:
            before = run.index_for(self._lost[0].first_offset or 0)
            if before:
                yield run.part(0, before)
            self._report_lost()
            if before == run.record_count:
                return
            run = run.part(before, run.record_count)
        yield run

    def _report_lost(self) -> None:
        lost = self._lost.pop(0)
        first, next_offset = lost.first_offset or 0, lost.next_offset or 0
        error = Corrupt(
            f"{self._view.name}: messages {first} to {next_offset - 1} are recorded as lost; run "
            f"'lakebed damage acknowledge {lost.id}' to let readers skip them",
            path=lost.path,
            offset=lost.start,
        )
        self._policy.report(
            SkippedRange(lost.path or "", lost.start or 0, lost.end or 0, first, next_offset, error)
        )

    def _find(self) -> PartitionSegment | None:
        """Returns the segment in which the walk continues, or None after the last segment."""
        index = bisect_right(self._segments, self._next, key=lambda info: info.next_offset)
        return self._segments[index] if index < len(self._segments) else None

    def _step(self, info: PartitionSegment) -> Run | None:
        """Returns the next run of the segment.

        Returns None if there is no run: the walk has then moved past some bytes or the segment, or
        has listed the segments again.
        """
        try:
            lease = self._lease(info)
        except NotFound:
            self._look_again(info, 0, Corrupt("the segment is missing", path=info.path))
            return None
        with lease as reading:
            try:
                return self._read(info, reading)
            except DiskError as error:
                self._pass_unreadable(info, error)
                return None

    def _read(self, info: PartitionSegment, reading: SegmentReader) -> Run | None:
        end = min(info.end, reading.log.size)
        if reading is not self._reading:
            if not info.is_sealed and self._was_sealed(info):
                return None
            self._begin(info, reading, end)
        if self._position >= end:
            if end < info.end:
                error = Corrupt("the segment is cut short", path=info.path, offset=end)
                self._look_again(info, end, error)
            else:
                self._next = info.next_offset
            return None
        return self._scan(info, reading, end)

    def _was_sealed(self, info: PartitionSegment) -> bool:
        """Returns whether the segment was sealed since it was listed.

        If so, lists all segments again. Compaction replaces only sealed segments. So if the segment
        is still the active one, the open file is the one that `info` describes; if it was sealed,
        the open file may be a smaller replacement.
        """
        segments = self._view.segments()
        if any(
            segment.base_offset == info.base_offset and not segment.is_sealed
            for segment in reversed(segments)
        ):
            return False
        self._segments = segments
        self._check_start()
        return True

    def _begin(self, info: PartitionSegment, reading: SegmentReader, end: int) -> None:
        error = reading.log.header_error()
        if isinstance(error, UnknownVersion):
            raise error
        if error is not None and info.end > LOG_HEADER.size:
            self._policy.report(
                SkippedRange(info.path, 0, LOG_HEADER.size, self._next, self._next, error)
            )
        self._position = reading.seek(self._next, end, limit_offset=info.next_offset)
        self._reading = reading

    def _scan(self, info: PartitionSegment, reading: SegmentReader, end: int) -> Run | None:
        least = max(self._next, info.base_offset)
        scanned = reading.log.scan(self._position, end, bytes_max=self._wanted_bytes(info))
        if isinstance(scanned, Stop):
            self._pass_over(info, reading, end, PROBLEMS[scanned])
            return None
        if scanned.offsets[0] < least and scanned.offset_after(0) > least:
            least = int(scanned.offsets[0])  # a batch that begins before the wanted offset
        good_count = scanned.in_order_count(least, info.next_offset)
        if not good_count:
            self._pass_over(info, reading, end, OUT_OF_ORDER)
            return None
        run = scanned.part(0, good_count)
        reading.learn(run)
        self._looks = 0
        self._position = run.end
        self._next = max(self._next, run.next_offset)
        return self._shortened(run)

    def _pass_unreadable(self, info: PartitionSegment, error: DiskError) -> None:
        """Skips the segment from the current position on after a failed read, or raises the error.

        Good records after the unreadable bytes are not searched for; `repair` does that.
        """
        if not self._policy.skips or error.operation != "read":
            raise error
        start = self._position if self._reading is not None else 0
        problem = Corrupt(f"the segment cannot be read: {error}", path=info.path, offset=start)
        self._policy.report(
            SkippedRange(info.path, start, info.end, self._next, info.next_offset, problem, error)
        )
        self._next = info.next_offset
        self._reading = None

    def _wanted_bytes(self, info: PartitionSegment) -> int:
        """Estimates the size of the remaining messages, so as not to read much more than that."""
        message_count = self._end - self._next
        average = info.end // max(1, info.next_offset - info.base_offset) + 1
        return min(self._bytes_max, max(_WANTED_BYTES_MIN, message_count * average * 9 // 8))

    def _shortened(self, run: Run) -> Run | None:
        """Cuts off the records after the end of the walk; returns None if no record is left."""
        last = run.index_for(self._end) if run.next_offset > self._end else run.record_count
        if last < run.record_count and run.offsets[last] < self._end:
            last += 1
        return run.part(0, last) if last else None

    def _pass_over(
        self, info: PartitionSegment, reading: SegmentReader, end: int, problem: str
    ) -> None:
        """Moves past the current position, at which there is no good record.

        Raises `Corrupt` unless damage is skipped.
        """
        start = self._position
        error = Corrupt(problem, path=info.path, offset=start)
        if not self._policy.skips:
            raise error
        following = reading.log.find(
            start + 1, end, least_offset=self._next, limit_offset=info.next_offset
        )
        skip_end, next_offset = end, info.next_offset
        if following is not None:
            skip_end, next_offset = following.start, int(following.offsets[0])
        self._policy.report(
            SkippedRange(info.path, start, skip_end, self._next, next_offset, error)
        )
        self._position = skip_end
        self._next = max(self._next, next_offset)

    def _look_again(self, info: PartitionSegment, end: int, error: Corrupt) -> None:
        """Lists the segments again, because a file does not match the list.

        If the file still does not match the list after several attempts, reports the bytes of the
        segment from position `end` on as damaged.
        """
        self._segments = self._view.segments()
        self._reading = None
        self._check_start()
        if info not in self._segments:
            return
        self._looks += 1
        if self._looks <= _LOOKS_MAX:
            self._view.runner.sleep_ns(_LOOK_NS)
            return
        self._looks = 0
        self._policy.report(
            SkippedRange(info.path, end, info.end, self._next, info.next_offset, error)
        )
        self._next = info.next_offset

    def _check_start(self) -> None:
        """Raises `OffsetOutOfRange` if the next messages were removed after the walk began."""
        start_offset = self._view.start_offset()
        if self._next < start_offset:
            raise OffsetOutOfRange(
                self._view.name,
                self._next,
                start_offset=start_offset,
                high_watermark=self._view.high_watermark(),
            )
