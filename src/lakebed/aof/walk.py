"""Reads one span of a segment, batch by batch.

A walk ends at the end of the span, or with an error: `NotFound` if the caller's start or end is
inside a record, if the start is after the segment's last record, or if the segment was removed;
`Corrupt` at damage; or the error of a failed read. If damage is skipped, the walk continues at the
next good record instead of raising `Corrupt`.
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
    """Iterates over the batches of a span. Leases the file only while a batch is read."""

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
        except Corrupt as error:  # the file is too short for a segment
            self._policy.report(self._skipped(0, known_end or 0, error))
            return
        with lease as reader:
            records_end, is_exact = _records_end(reader, known_end)
            defects = reader.defects() if records_end > RECORDS_START else ()
        for defect in defects:
            self._policy.report(defect)
        self._check_start(records_end)
        end = records_end if self._span.end is None else min(records_end, self._span.end)
        yield from self._batches(end, records_end, is_exact)

    def _batches(self, end: int, records_end: int, is_exact: bool) -> Iterator[RecordBatch]:
        position = self._span.start
        while position < end:
            with self._lease(self._info) as reader:
                try:
                    result = reader.scan(position, end, bytes_max=self._batch_bytes_max)
                except DiskError as error:
                    self._pass_unreadable(position, end, error)
                    return
                if isinstance(result, Stop):
                    if result is Stop.END and not is_exact:
                        return
                    position = self._pass_over(reader, position, end, records_end, result)
                    continue
            position = result.end.segment_offset
            yield result

    def _pass_unreadable(self, position: int, end: int, error: DiskError) -> None:
        """Reports `[position, end)` as damaged, because some of these bytes cannot be read.

        Does not search that range for good records. Raises `error` instead if damage is not skipped
        or if the operation that failed is not a read.
        """
        if not self._policy.skips or error.operation != "read":
            raise error
        problem = Corrupt(
            f"the bytes cannot be read: {error}", path=self._info.path, offset=position
        )
        self._policy.report(self._skipped(position, end, problem))

    def _pass_over(
        self, reader: SegmentReader, position: int, end: int, records_end: int, stop: Stop
    ) -> int:
        """Reports the damage at `position` and returns where the walk continues after it.

        Raises `NotFound` if the caller's start or end is inside a record, and `Corrupt` if damage
        is not skipped.
        """
        if end < records_end and _has_record(reader, position, records_end):
            position_id = RecordId.from_parts(self._info.segment_id, end)
            raise NotFound(
                f"position {position_id}: it is inside a record; a read must end between records"
            )
        if self._span.is_start_given and position == self._span.start:
            error = why_no_record(reader, self._info, position, records_end, stop)
        else:
            error = _corrupt(self._info, position, stop)
        if not isinstance(error, Corrupt) or not self._policy.skips:
            raise error
        following = reader.find(position + AOF_ALIGNMENT, end)
        resume_at = end if following is None else following
        self._policy.report(self._skipped(position, resume_at, error))
        return resume_at

    def _check_start(self, records_end: int) -> None:
        start = self._span.start
        if start > max(records_end, RECORDS_START):
            position_id = RecordId.from_parts(self._info.segment_id, start)
            raise NotFound(
                f"record {position_id}: its segment's records end at offset {records_end}"
            )

    def _gap(self) -> SkippedRange:
        error = Corrupt(
            f"the segment before segment {self._info.segment_id} is missing", path=self._info.path
        )
        return self._skipped(0, 0, error)

    def _skipped(self, start: int, end: int, error: Corrupt) -> SkippedRange:
        return SkippedRange(self._info.segment_id, self._info.path, start, end, error)


def why_no_record(
    reader: SegmentReader, info: SegmentInfo, position: int, records_end: int, stop: Stop
) -> LakebedError:
    """Returns the error to raise for a position without a good record.

    This is `NotFound` if the position is inside another record, and `Corrupt` if the record there
    is damaged. To find out, the segment is read from its beginning, which is slow.
    """
    inside = NotFound(
        f"record {RecordId.from_parts(info.segment_id, position)}: no record begins there; "
        "the position is inside another record"
    )
    walked_to = RECORDS_START
    while walked_to < position:
        result = reader.scan(walked_to, records_end, bytes_max=_WALK_BYTES)
        if isinstance(result, Stop):
            following = reader.find(walked_to + AOF_ALIGNMENT, records_end)
            if following is None or following > position:
                return _corrupt(info, walked_to, result)
            walked_to = following
            continue
        walked_to = result.end.segment_offset
        if walked_to > position and position not in _starts(result):
            return inside
    return _corrupt(info, position, stop)


_WALK_BYTES = 1 << 20


def _starts(batch: RecordBatch) -> set[int]:
    return {record_id.segment_offset for record_id in batch.record_ids()}


def _records_end(reader: SegmentReader, known_end: int | None) -> tuple[int, bool]:
    """Returns the offset where the records end, and whether zeros before that offset are damage.

    The zeros are not damage if compaction may have left gaps, or if the offset is only an upper
    bound.
    """
    for end in (known_end, reader.records_end):
        if end is not None:
            return end, not reader.has_gaps
    return reader.room_end, False


def _has_record(reader: SegmentReader, position: int, end: int) -> bool:
    return not isinstance(reader.scan(position, end, bytes_max=0, count_max=1), Stop)


def _corrupt(info: SegmentInfo, offset: int, stop: Stop) -> Corrupt:
    return Corrupt(PROBLEMS[stop], path=info.path, offset=offset)
