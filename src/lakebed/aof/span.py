"""Plans which parts of which segments a read covers, without I/O.

A position is a `RecordId`. Positions with no record between them are equivalent: the end of a
segment's last record, offset 0 of the next segment, and the start of that segment's first record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from lakebed.aof.format import AOF_ALIGNMENT, FOOTER_BYTES, RECORDS_START
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import InputError, NotFound


class Span(NamedTuple):
    """The part of one segment that a read covers. `start` and the ends are segment offsets."""

    info: SegmentInfo
    start: int
    is_start_given: bool  # `start` comes from the caller, and may be inside a record
    end: int | None  # where the caller wants to stop; None: at the end of the records
    records_end: int | None  # where its durable records end, if known without opening the file
    is_after_gap: bool  # segments are missing before this one


def plan(
    segments: Sequence[SegmentInfo],
    durable_end: RecordId,
    *,
    start: RecordId | None,
    end: RecordId | None,
) -> list[Span]:
    """Returns the spans that cover `[start, end)`, in log order, up to the durable end at most.

    Raises `NotFound` if a read cannot begin at `start`: its segment is missing, it is after the
    durable end, or its offset cannot be the start of a record. A `start` of `RecordId(0)` means the
    beginning of the log. Raises `InputError` if `end` is before `start`.
    """
    if start is not None and end is not None and end < start:
        raise InputError(f"the end {end} is before the start {start}")
    if not start:
        start = None
    if start is not None and _is_at(durable_end, start):
        return []
    if start is not None:
        _check_start(segments, durable_end, start)
    stop = durable_end if end is None else min(end, durable_end)
    spans: list[Span] = []
    for index in range(0 if start is None else locate(segments, start), len(segments)):
        info = segments[index]
        if info.segment_id > stop.segment_index:
            break
        is_first = start is not None and info.segment_id == start.segment_index
        is_last = end is not None and info.segment_id == end.segment_index
        spans.append(
            Span(
                info,
                start=max(RECORDS_START, start.segment_offset if is_first and start else 0),
                is_start_given=is_first,
                end=end.segment_offset if is_last and end is not None else None,
                records_end=records_end(segments, index, durable_end),
                is_after_gap=bool(spans) and spans[-1].info.segment_id + 1 != info.segment_id,
            )
        )
    return spans


def locate(segments: Sequence[SegmentInfo], position: RecordId) -> int:
    """Returns the index in `segments` of the segment that contains `position`.

    Raises `NotFound` if that segment is missing or `segments` is empty.
    """
    if not segments:
        raise NotFound(f"position {position}: the log has no records")
    segment_id = position.segment_index
    index = segment_id - segments[0].segment_id  # correct if no segment is missing
    if 0 <= index < len(segments) and segments[index].segment_id == segment_id:
        return index
    index = bisect_left(segments, segment_id, key=lambda info: info.segment_id)
    if index < len(segments) and segments[index].segment_id == segment_id:
        return index
    if index == 0:
        raise NotFound(
            f"position {position}: segment {segment_id} was removed; "
            f"the oldest record is at {oldest(segments)}"
        )
    raise NotFound(f"position {position}: segment {segment_id} does not exist")


def oldest(segments: Sequence[SegmentInfo]) -> RecordId:
    """Returns the position of the oldest record: the start of the first segment's records."""
    return RecordId.from_parts(segments[0].segment_id, RECORDS_START)


def records_end(segments: Sequence[SegmentInfo], index: int, durable_end: RecordId) -> int | None:
    """Returns the offset where the durable records of `segments[index]` end.

    Returns 0 if the segment is after the durable end, and None if the segment's file must be opened
    to find the offset.
    """
    info = segments[index]
    if info.segment_id == durable_end.segment_index:
        return durable_end.segment_offset
    if info.segment_id > durable_end.segment_index:
        return 0
    if info.end is not None or info.is_sealed:
        return info.end
    following = segments[index + 1] if index + 1 < len(segments) else None
    if following is None or following.segment_id != info.segment_id + 1:
        return None
    # It is full but not sealed yet: the next segment's base offset gives its length.
    return following.base_offset - info.base_offset - FOOTER_BYTES


def check_alignment(position: RecordId) -> None:
    """Raises `NotFound` if no record can begin at `position`.

    Records begin after the segment's header, at multiples of `AOF_ALIGNMENT`.
    """
    offset = position.segment_offset
    if offset < RECORDS_START:
        raise NotFound(f"position {position}: it is inside the segment's header, not a record")
    if offset % AOF_ALIGNMENT:
        raise NotFound(f"position {position}: records begin at multiples of {AOF_ALIGNMENT} bytes")


def _is_at(durable_end: RecordId, start: RecordId) -> bool:
    """Returns whether `start` is at the durable end, so that there is nothing to read.

    The start of the next segment, which need not exist yet, is equivalent to the durable end.
    """
    if start <= durable_end or start.segment_offset > RECORDS_START:
        return start == durable_end
    return start.segment_index - durable_end.segment_index <= 1


def _check_start(segments: Sequence[SegmentInfo], durable_end: RecordId, start: RecordId) -> None:
    locate(segments, start)
    if start.segment_offset:
        check_alignment(start)
    if start > durable_end:
        raise NotFound(f"position {start}: the log's durable records end at {durable_end}")
