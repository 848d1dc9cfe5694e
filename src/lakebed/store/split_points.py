"""Computes the positions at which a read of a partition or a log can be split. No I/O.

The split points come from the segments and their indexes. Between two split points the bytes are
assumed to be spread evenly. Indexes are not trusted: entries that do not fit their segment are
ignored. If there are more than `INDEXES_MAX` segments, only the indexes of segments that are read
in part are used; the other segments are not split further.
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
    """A position at which a read can begin, and the number of bytes of records before it.

    A read from one split point to another has as many bytes as their `bytes_before` differ. In JSON
    a split point is a list of two numbers.
    """

    at: int
    bytes_before: int


Inner = Iterable[tuple[int, int]]
"""Some records of a segment, in order: the offset of each, and its byte position in the file."""


def topic_bounds(start_offset: int, high_watermark: int) -> Bounds:
    """Returns the bounds of a partition; an empty range if `start_offset` is after the end."""
    return Bounds(start_offset, max(start_offset, high_watermark))


def log_bounds(segments: Sequence[SegmentInfo], durable_end: RecordId) -> Bounds:
    """Returns the bounds of a log: from its oldest record to its durable end, as record ids."""
    start = oldest(segments) if segments else durable_end
    return Bounds(int(min(start, durable_end)), int(durable_end))


def topic_split_points(
    segments: Sequence[PartitionSegment],
    index_of: Callable[[PartitionSegment], Inner],
    *,
    start: int,
    end: int,
) -> list[SplitPoint]:
    """Returns the split points of a partition: offsets, and the bytes of records before them.

    `index_of` is called only for segments whose index is needed.
    """
    points: list[SplitPoint] = []
    before = 0
    for info in segments:
        size = max(info.end - RECORDS_START, 0)
        if info.next_offset > start and info.base_offset < end:
            points.append(SplitPoint(info.base_offset, before))
            is_partial = start > info.base_offset or end < info.next_offset
            uses_index = is_partial or len(segments) <= INDEXES_MAX
            for offset, position in index_of(info) if uses_index else ():
                if points[-1].at < offset < info.next_offset and position < info.end:
                    points.append(SplitPoint(offset, before + position - RECORDS_START))
            points.append(SplitPoint(info.next_offset, before + size))
        before += size
    return _within(points, start, end)


def log_split_points(
    segments: Sequence[SegmentInfo],
    index_of: Callable[[SegmentInfo], Iterable[int]],
    *,
    durable_end: RecordId,
    start: int,
    end: int,
) -> list[SplitPoint]:
    """Returns the split points of a log: record ids, and the bytes of records before them.

    Segments in colder tiers count with their uncompressed size. `index_of` is called only for
    segments whose index is needed.
    """
    points: list[SplitPoint] = []
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
            points.append(SplitPoint(_position(info, LOG_RECORDS_START), before))
            uses_index = info.segment_id in (first_id, last_id) or len(segments) <= INDEXES_MAX
            for offset in index_of(info) if uses_index else ():
                if LOG_RECORDS_START < offset < LOG_RECORDS_START + size:
                    points.append(
                        SplitPoint(_position(info, offset), before + offset - LOG_RECORDS_START)
                    )
            if stop > LOG_RECORDS_START:
                points.append(SplitPoint(_position(info, stop), before + size))
        before += size
    points = [point for point in points if point.at < end]
    return _within([*points, SplitPoint(end, end_bytes)], start, end)


def _guessed_end(segments: Sequence[SegmentInfo], index: int) -> int:
    """Estimates a segment's end from the base offset of the next segment; 0 if it is the last."""
    if index + 1 == len(segments):
        return 0
    return segments[index + 1].base_offset - segments[index].base_offset - FOOTER_BYTES


def _position(info: SegmentInfo, offset: int) -> int:
    return int(RecordId.from_parts(info.segment_id, offset))


def _within(points: Sequence[SplitPoint], start: int, end: int) -> list[SplitPoint]:
    """Returns the points between `start` and `end`, with points at both ends added.

    Returns only a point at `start` if the range is empty.
    """
    if start >= end:
        return [SplitPoint(start, 0)]
    inner = [point for point in points if start < point.at < end]
    return _rising(
        [SplitPoint(start, bytes_at(points, start)), *inner, SplitPoint(end, bytes_at(points, end))]
    )


def _rising(points: Sequence[SplitPoint]) -> list[SplitPoint]:
    """Removes points that repeat a position, and keeps `bytes_before` from decreasing.

    Positions are repeated because the end of a segment is the beginning of the next.
    """
    rising = [points[0]]
    for point in points[1:]:
        if point.at > rising[-1].at:
            rising.append(SplitPoint(point.at, max(point.bytes_before, rising[-1].bytes_before)))
    return rising


def bytes_at(points: Sequence[SplitPoint], at: int) -> int:
    """Returns how many bytes are before the position `at`; interpolates between two split points.

    Before the first point or after the last, returns the bytes before that point.
    """
    if not points:
        return 0
    index = bisect_left(points, at, key=lambda point: point.at)
    if index in (0, len(points)):
        return points[0 if index == 0 else -1].bytes_before
    previous, point = points[index - 1], points[index]
    inside = (at - previous.at) * (point.bytes_before - previous.bytes_before)
    return previous.bytes_before + inside // (point.at - previous.at)
