"""One span of a segment, from record to record.

A walk ends in one of three ways: at the end of the span, with `NotFound` because the caller's
start or end is inside a record, or with `Corrupt` at damage. Where damage is skipped it goes on
with the next whole record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakebed.aof.damage import PROBLEMS, DamagePolicy, SkippedRange
from lakebed.aof.format import AOF_ALIGNMENT, RECORDS_START
from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment_reader import SegmentReader
from lakebed.aof.span import Span
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Corrupt, DiskError, LakebedError, NotFound
from lakebed.base.files.handles import Lease
from lakebed.kernels import Stop

Leases = Callable[[SegmentInfo], Lease[SegmentReader]]


class Walk:
    """Iterates over the batches of a span; the segment is leased for one batch at a time."""

    def __init__(
        self, span: Span, *, lease: Leases, policy: DamagePolicy, batch_bytes_max: int
    ) -> None:
        self._span = span
        self._info = span.info
        self._lease = lease
        self._policy = policy
        self._batch_bytes_max = batch_bytes_max

    def __iter__(self) -> Iterator[RecordBatch]:
        if self._span.is_after_gap:
            self._policy.report(self._gap())
        known_end = self._span.records_end
        if known_end is not None and known_end <= self._span.start:
            self._check_start(known_end)
            return
        try:
            lease = self._lease(self._info)
        except Corrupt as error:  # so short that it is no segment
            self._policy.report(self._skipped(0, known_end or 0, error))
            return
        with lease as reading:
            records_end, is_exact = _records_end(reading, known_end)
            defects = reading.defects() if records_end > RECORDS_START else ()
        for defect in defects:
            self._policy.report(defect)
        self._check_start(records_end)
        end = records_end if self._span.end is None else min(records_end, self._span.end)
        yield from self._batches(end, records_end, is_exact)

    def _batches(self, end: int, records_end: int, is_exact: bool) -> Iterator[RecordBatch]:
        position = self._span.start
        while position < end:
            with self._lease(self._info) as reading:
                try:
                    found = reading.scan(position, end, bytes_max=self._batch_bytes_max)
                except DiskError as error:
                    self._pass_unreadable(position, end, error)
                    return
                if isinstance(found, Stop):
                    if found is Stop.END and not is_exact:
                        return
                    position = self._pass_over(reading, position, end, records_end, found)
                    continue
            position = found.end.segment_offset
            yield found

    def _pass_unreadable(self, position: int, end: int, error: DiskError) -> None:
        """The device did not give the bytes there. Where good ones follow is not looked for."""
        if not self._policy.skips or error.operation != "read":
            raise error
        problem = Corrupt(f"cannot be read: {error}", path=self._info.path, offset=position)
        self._policy.report(self._skipped(position, end, problem))

    def _pass_over(
        self, reading: SegmentReader, position: int, end: int, records_end: int, stop: Stop
    ) -> int:
        """What follows the place where no good record is; raises unless damage is skipped."""
        if end < records_end and _has_record(reading, position, records_end):
            where = RecordId.from_parts(self._info.segment_id, end)
            raise NotFound(f"{where}: inside a record; a read can only end between two")
        if self._span.is_start_given and position == self._span.start:
            error = why_no_record(reading, self._info, position, records_end, stop)
        else:
            error = _corrupt(self._info, position, stop)
        if not isinstance(error, Corrupt) or not self._policy.skips:
            raise error
        following = reading.find(position + AOF_ALIGNMENT, end)
        behind = end if following is None else following
        self._policy.report(self._skipped(position, behind, error))
        return behind

    def _check_start(self, records_end: int) -> None:
        start = self._span.start
        if start > max(records_end, RECORDS_START):
            where = RecordId.from_parts(self._info.segment_id, start)
            raise NotFound(f"{where}: the segment's records end at {records_end}")

    def _gap(self) -> SkippedRange:
        error = Corrupt(
            f"the segment before segment {self._info.segment_id} is missing", path=self._info.path
        )
        return self._skipped(0, 0, error)

    def _skipped(self, start: int, end: int, error: Corrupt) -> SkippedRange:
        return SkippedRange(self._info.segment_id, self._info.path, start, end, error)


def why_no_record(
    reading: SegmentReader, info: SegmentInfo, position: int, records_end: int, stop: Stop
) -> LakebedError:
    """No good record is at `position`: because it is damaged, or because none begins there?

    Found by walking there from the segment's beginning: slow, but only needed for an error.
    """
    inside = NotFound(
        f"{RecordId.from_parts(info.segment_id, position)}: no record begins there, "
        "it is inside another one"
    )
    here = RECORDS_START
    while here < position:
        found = reading.scan(here, records_end, bytes_max=_WALK_BYTES)
        if isinstance(found, Stop):
            following = reading.find(here + AOF_ALIGNMENT, records_end)
            if following is None or following > position:
                return _corrupt(info, here, found)
            here = following
            continue
        here = found.end.segment_offset
        if here > position and position not in _starts(found):
            return inside
    return _corrupt(info, position, stop)


_WALK_BYTES = 1 << 20


def _starts(batch: RecordBatch) -> set[int]:
    return {record_id.segment_offset for record_id in batch.record_ids()}


def _records_end(reading: SegmentReader, known_end: int | None) -> tuple[int, bool]:
    """Where the records end, and whether zeros before that are damage."""
    for end in (known_end, reading.records_end):
        if end is not None:
            return end, not reading.has_gaps
    return reading.room_end, False


def _has_record(reading: SegmentReader, position: int, end: int) -> bool:
    return not isinstance(reading.scan(position, end, bytes_max=0, count_max=1), Stop)


def _corrupt(info: SegmentInfo, offset: int, stop: Stop) -> Corrupt:
    return Corrupt(PROBLEMS[stop], path=info.path, offset=offset)
