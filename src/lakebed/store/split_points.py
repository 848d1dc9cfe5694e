"""Split points of a partition or a log, from its segments and their indexes: no I/O.

Between two split points bytes are taken to be spread evenly. An index leads and is never believed:
what does not fit its segment is left out. Where there are many segments only those that are read in
part have their index looked at: the others are good enough as a whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lakebed.aof.format import FOOTER_BYTES
from lakebed.aof.format import RECORDS_START as LOG_RECORDS_START
from lakebed.aof.record_id import RecordId
from lakebed.aof.span import oldest, records_end
from lakebed.aof.view import SegmentInfo
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.view import PartitionSegment

INDEXES_MAX = 64


class Bounds(NamedTuple):
    """The readable range of a partition, `[start, end)`."""

    start: int
    end: int


class SplitPoint(NamedTuple):
    """A place that reading can begin at, and how many bytes are before it, counted from any place:
    a list of two numbers."""

    at: int
    bytes_before: int


Inner = Iterable[tuple[int, int]]
"""Places within a segment, rising: where a record begins, and its position in the file."""


def topic_bounds(start_offset: int, high_watermark: int) -> Bounds:
    """Of a partition; a start that retention moved past an older end is the end, too."""
    return Bounds(start_offset, max(start_offset, high_watermark))


def log_bounds(segments: Sequence[SegmentInfo], durable_end: RecordId) -> Bounds:
    """Where the oldest record begins, and the durable end."""
    start = oldest(segments) if segments else durable_end
    return Bounds(int(min(start, durable_end)), int(durable_end))


def topic_split_points(
    segments: Sequence[PartitionSegment],
    index_of: Callable[[PartitionSegment], Inner],
    *,
    start: int,
    end: int,
) -> list[SplitPoint]:
    """Offsets, and the bytes of their records. Indexes are asked for where they are needed."""
    known: list[SplitPoint] = []
    before = 0
    for info in segments:
        size = max(info.end - RECORDS_START, 0)
        if info.next_offset > start and info.base_offset < end:
            known.append(SplitPoint(info.base_offset, before))
            is_partial = start > info.base_offset or end < info.next_offset
            is_looked_at = is_partial or len(segments) <= INDEXES_MAX
            for offset, position in index_of(info) if is_looked_at else ():
                if known[-1].at < offset < info.next_offset and position < info.end:
                    known.append(SplitPoint(offset, before + position - RECORDS_START))
            known.append(SplitPoint(info.next_offset, before + size))
        before += size
    return _within(known, start, end)


def log_split_points(
    segments: Sequence[SegmentInfo],
    index_of: Callable[[SegmentInfo], Iterable[int]],
    *,
    durable_end: RecordId,
    start: int,
    end: int,
) -> list[SplitPoint]:
    """Record ids, and the bytes before them: those of colder tiers as if they were here."""
    known: list[SplitPoint] = []
    before = end_bytes = 0
    first_id, last_id = RecordId(start).segment_index, RecordId(end).segment_index
    for index, info in enumerate(segments):
        stop = records_end(segments, index, durable_end) or 0
        size = max((stop or _guessed_end(segments, index)) - LOG_RECORDS_START, 0)
        if info.segment_id < last_id:
            end_bytes = before + size
        elif info.segment_id == last_id:
            inside = RecordId(end).segment_offset - LOG_RECORDS_START
            end_bytes = before + min(max(inside, 0), size)
        if first_id <= info.segment_id <= last_id:
            known.append(SplitPoint(_position(info, LOG_RECORDS_START), before))
            is_looked_at = info.segment_id in (first_id, last_id) or len(segments) <= INDEXES_MAX
            for offset in index_of(info) if is_looked_at else ():
                if LOG_RECORDS_START < offset < LOG_RECORDS_START + size:
                    known.append(
                        SplitPoint(_position(info, offset), before + offset - LOG_RECORDS_START)
                    )
            if stop > LOG_RECORDS_START:
                known.append(SplitPoint(_position(info, stop), before + size))
        before += size
    known = [point for point in known if point.at < end]
    return _within([*known, SplitPoint(end, end_bytes)], start, end)


def _guessed_end(segments: Sequence[SegmentInfo], index: int) -> int:
    """By where the following segment begins in the log; 0 if nothing tells."""
    if index + 1 == len(segments):
        return 0
    return segments[index + 1].base_offset - segments[index].base_offset - FOOTER_BYTES


def _position(info: SegmentInfo, offset: int) -> int:
    return int(RecordId.from_parts(info.segment_id, offset))


def _within(known: Sequence[SplitPoint], start: int, end: int) -> list[SplitPoint]:
    """Both ends, and what is known between them."""
    if start >= end:
        return [SplitPoint(start, 0)]
    inner = [point for point in known if start < point.at < end]
    return _rising(
        [SplitPoint(start, bytes_at(known, start)), *inner, SplitPoint(end, bytes_at(known, end))]
    )


def _rising(points: Sequence[SplitPoint]) -> list[SplitPoint]:
    """Segments that follow each other say some places twice; each is wanted once."""
    found = [points[0]]
    for point in points[1:]:
        if point.at > found[-1].at:
            found.append(SplitPoint(point.at, max(point.bytes_before, found[-1].bytes_before)))
    return found


def bytes_at(points: Sequence[SplitPoint], at: int) -> int:
    """How many bytes are before a place, which need not be a split point."""
    if not points:
        return 0
    index = bisect_left(points, at, key=lambda point: point.at)
    if index in (0, len(points)):
        return points[0 if index == 0 else -1].bytes_before
    previous, point = points[index - 1], points[index]
    inside = (at - previous.at) * (point.bytes_before - previous.bytes_before)
    return previous.bytes_before + inside // (point.at - previous.at)
