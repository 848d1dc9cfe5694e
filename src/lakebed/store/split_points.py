"""Marks of a partition or a log, from its segments and their indexes: no I/O.

Between two marks bytes are taken to be spread evenly. An index leads and is never believed: what
does not fit its segment is left out. Where there are many segments only those that are read in part
have theirs looked at: the others are good enough as a whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lakebed.aof.format import FOOTER_BYTES
from lakebed.aof.format import RECORDS_START as LOG_RECORDS_START
from lakebed.aof.record_id import RecordId
from lakebed.aof.span import oldest, records_end
from lakebed.aof.view import SegmentInfo as LogSegmentInfo
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.view import SegmentInfo

INDEXES_MAX = 64


class Bounds(NamedTuple):
    """What can be read now, `[start, end)`: a list of two numbers."""

    start: int
    end: int


class Mark(NamedTuple):
    """A place that reading can begin at, and how many bytes are before it, counted from any place:
    a list of two numbers."""

    at: int
    bytes_before: int


Inner = Iterable[tuple[int, int]]
"""Places within a segment, rising: where a record begins, and its position in the file."""


def topic_bounds(start_offset: int, high_watermark: int) -> Bounds:
    """Of a partition; a start that retention moved past an older end is the end, too."""
    return Bounds(start_offset, max(start_offset, high_watermark))


def log_bounds(segments: Sequence[LogSegmentInfo], durable_end: RecordId) -> Bounds:
    """Where the oldest record begins, and the durable end."""
    start = oldest(segments) if segments else durable_end
    return Bounds(int(min(start, durable_end)), int(durable_end))


def topic_marks(
    segments: Sequence[SegmentInfo],
    index_of: Callable[[SegmentInfo], Inner],
    *,
    start: int,
    end: int,
) -> list[Mark]:
    """Offsets, and the bytes of their records. Indexes are asked for where they are needed."""
    known: list[Mark] = []
    before = 0
    for info in segments:
        size = max(info.end - RECORDS_START, 0)
        if info.next_offset > start and info.base_offset < end:
            known.append(Mark(info.base_offset, before))
            is_partial = start > info.base_offset or end < info.next_offset
            is_looked_at = is_partial or len(segments) <= INDEXES_MAX
            for offset, position in index_of(info) if is_looked_at else ():
                if known[-1].at < offset < info.next_offset and position < info.end:
                    known.append(Mark(offset, before + position - RECORDS_START))
            known.append(Mark(info.next_offset, before + size))
        before += size
    return _within(known, start, end)


def log_marks(
    segments: Sequence[LogSegmentInfo],
    index_of: Callable[[LogSegmentInfo], Iterable[int]],
    *,
    durable_end: RecordId,
    start: int,
    end: int,
) -> list[Mark]:
    """Record ids, and the bytes before them: those of colder tiers as if they were here."""
    known: list[Mark] = []
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
            known.append(Mark(_position(info, LOG_RECORDS_START), before))
            is_looked_at = info.segment_id in (first_id, last_id) or len(segments) <= INDEXES_MAX
            for offset in index_of(info) if is_looked_at else ():
                if LOG_RECORDS_START < offset < LOG_RECORDS_START + size:
                    known.append(Mark(_position(info, offset), before + offset - LOG_RECORDS_START))
            if stop > LOG_RECORDS_START:
                known.append(Mark(_position(info, stop), before + size))
        before += size
    known = [mark for mark in known if mark.at < end]
    return _within([*known, Mark(end, end_bytes)], start, end)


def _guessed_end(segments: Sequence[LogSegmentInfo], index: int) -> int:
    """By where the following segment begins in the log; 0 if nothing tells."""
    if index + 1 == len(segments):
        return 0
    return segments[index + 1].base_offset - segments[index].base_offset - FOOTER_BYTES


def _position(info: LogSegmentInfo, offset: int) -> int:
    return int(RecordId.from_parts(info.segment_id, offset))


def _within(known: Sequence[Mark], start: int, end: int) -> list[Mark]:
    """Both ends, and what is known between them."""
    if start >= end:
        return [Mark(start, 0)]
    inner = [mark for mark in known if start < mark.at < end]
    return _rising([Mark(start, bytes_at(known, start)), *inner, Mark(end, bytes_at(known, end))])


def _rising(marks: Sequence[Mark]) -> list[Mark]:
    """Segments that follow each other say some places twice; each is wanted once."""
    found = [marks[0]]
    for mark in marks[1:]:
        if mark.at > found[-1].at:
            found.append(Mark(mark.at, max(mark.bytes_before, found[-1].bytes_before)))
    return found


def bytes_at(marks: Sequence[Mark], at: int) -> int:
    """How many bytes are before a place, which need not be a mark."""
    if not marks:
        return 0
    index = bisect_left(marks, at, key=lambda mark: mark.at)
    if index in (0, len(marks)):
        return marks[0 if index == 0 else -1].bytes_before
    previous, mark = marks[index - 1], marks[index]
    inside = (at - previous.at) * (mark.bytes_before - previous.bytes_before)
    return previous.bytes_before + inside // (mark.at - previous.at)
