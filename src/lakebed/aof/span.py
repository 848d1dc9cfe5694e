"""Plans which parts of which segments a read covers, without I/O.

Positions are those of `RecordId`. The end of one segment's last record and the start of the next
segment are the same place in the log, and so is every offset within a segment's header.
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
    """The part `[start, end)` of one segment."""

    info: SegmentInfo
    start: int
    is_start_given: bool  # the caller gave it, so a record may not begin there
    end: int | None  # given by the caller; None: to the end of the records
    records_end: int | None  # the end of its durable records, if known without opening it
    is_after_gap: bool  # segments are missing before this one


def plan(
    segments: Sequence[SegmentInfo],
    durable_end: RecordId,
    *,
    start: RecordId | None,
    end: RecordId | None,
) -> list[Span]:
    """Returns the spans of `[start, end)`, in order. `end` is lowered to the durable end.

    Raises `NotFound` if no read can begin at `start`: its segment is gone, it is beyond the durable
    end, or no record can begin there. `RecordId(0)` is the beginning of any log; it is the durable
    end of a log without segments.
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
    """Returns the index of the segment that contains `position`; raises `NotFound` if it is
    missing."""
    if not segments:
        raise NotFound(f"position {position}: the log has no records")
    segment_id = position.segment_index
    index = segment_id - segments[0].segment_id  # right unless segments are missing
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
    """Returns where the first segment's records begin."""
    return RecordId.from_parts(segments[0].segment_id, RECORDS_START)


def records_end(segments: Sequence[SegmentInfo], index: int, durable_end: RecordId) -> int | None:
    """Returns where a segment's durable records end, or None if that needs the file opened."""
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
    """Raises `NotFound` unless a record could begin there: after the header, and aligned."""
    offset = position.segment_offset
    if offset < RECORDS_START:
        raise NotFound(f"position {position}: no record begins in a segment's header")
    if offset % AOF_ALIGNMENT:
        raise NotFound(f"position {position}: records begin at multiples of {AOF_ALIGNMENT} bytes")


def _is_at(durable_end: RecordId, start: RecordId) -> bool:
    """Returns whether `start` is the durable end, or the start of the next segment: the same place.

    The next segment need not exist yet.
    """
    if start <= durable_end or start.segment_offset > RECORDS_START:
        return start == durable_end
    return start.segment_index - durable_end.segment_index <= 1


def _check_start(segments: Sequence[SegmentInfo], durable_end: RecordId, start: RecordId) -> None:
    locate(segments, start)
    if start.segment_offset:
        check_alignment(start)
    if start > durable_end:
        raise NotFound(f"position {start}: beyond the durable end, {durable_end}")
