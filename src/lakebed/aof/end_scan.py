"""Finds the end of a log by scanning its last segments, if the `durable_end` file cannot be used.

The log ends before its first bad record. Sealed segments are trusted; one is scanned only if it is
the last of them and its footer does not give its end. Nothing is repaired.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.aof.envelope import check_header
from lakebed.aof.format import RECORDS_START, SEGMENT_HEADER
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment_reader import SegmentReader, open_segment
from lakebed.aof.span import records_end
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Corrupt
from lakebed.base.files import Disk
from lakebed.base.units import MIB
from lakebed.kernels import Stop

_WINDOW_BYTES = 1 * MIB
_BEYOND_ALL = RecordId.from_parts((1 << 32) - 1, 0)


def scan_end(
    disk: Disk, segments: Sequence[SegmentInfo], *, confirmed: RecordId | None
) -> RecordId:
    """Returns the end of the log: the position after its last record before any bad one.

    `confirmed` is a position up to which the log is known to be durable; records before it are not
    scanned. Returns 0 if there are no segments.
    """
    if not segments:
        return RecordId(0)
    unsealed = len(segments)
    while unsealed and not segments[unsealed - 1].is_sealed:
        unsealed -= 1
    end = RecordId.from_parts(segments[0].segment_id, RECORDS_START)
    if unsealed:
        # Segments are sealed in order: all before a sealed one are durable too.
        last = segments[unsealed - 1]
        end = RecordId.from_parts(last.segment_id, last.end or _last_end(disk, last))
    if confirmed is not None and confirmed.segment_index <= segments[-1].segment_id:
        end = max(end, confirmed)
    for index in range(unsealed, len(segments)):
        info = segments[index]
        if info.segment_id < end.segment_index:
            continue
        is_begun = info.segment_id == end.segment_index
        start = max(RECORDS_START, end.segment_offset if is_begun else 0)
        end = RecordId.from_parts(info.segment_id, _first_bad(disk, info, start))
        if end.segment_offset != records_end(segments, index, _BEYOND_ALL):
            break
    return end


def _last_end(disk: Disk, info: SegmentInfo) -> int:
    """Returns where the last good record of a sealed segment ends, by reading the segment.

    Used if the segment's footer does not give the end.
    """
    reader = open_segment(disk, info)
    try:
        end = _walk(reader, RECORDS_START)
        while (following := reader.find(end, reader.room_end)) is not None:
            end = _walk(reader, following)
        return end
    finally:
        reader.close()


def _first_bad(disk: Disk, info: SegmentInfo, start: int) -> int:
    if start == RECORDS_START and not _has_header(disk, info):
        return start
    reader = open_segment(disk, info)
    try:
        return _walk(reader, start)
    finally:
        reader.close()


def _has_header(disk: Disk, info: SegmentInfo) -> bool:
    """Returns whether the segment has a valid header; without one it has no records."""
    with disk.open(info.path) as file:
        try:
            data = file.pread(0, SEGMENT_HEADER.size)
            return check_header(data, info, size=file.size()) is not None
        except Corrupt:
            return False


def _walk(reader: SegmentReader, position: int) -> int:
    while position < reader.room_end:
        result = reader.scan(position, reader.room_end, bytes_max=_WINDOW_BYTES)
        if isinstance(result, Stop):
            break
        position = result.end.segment_offset
    return position
