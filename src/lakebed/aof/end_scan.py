"""Where a log ends that nobody published the end of: behind the last record before a bad one.

Sealed segments are taken at their word. Nothing is repaired.
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
    """The position of the first bad record; what is before `confirmed` is not looked at."""
    if not segments:
        return RecordId(0)
    unsealed = len(segments)
    while unsealed and not segments[unsealed - 1].is_sealed:
        unsealed -= 1
    end = RecordId.from_parts(segments[0].segment_id, RECORDS_START)
    if unsealed:
        # Segments are sealed in order: whatever is before a sealed one was confirmed with it.
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
    """Behind the last good record of a sealed segment that does not say where that is."""
    reading = open_segment(disk, info)
    try:
        end = _walk(reading, RECORDS_START)
        while (following := reading.find(end, reading.room_end)) is not None:
            end = _walk(reading, following)
        return end
    finally:
        reading.close()


def _first_bad(disk: Disk, info: SegmentInfo, start: int) -> int:
    if start == RECORDS_START and not _has_header(disk, info):
        return start
    reading = open_segment(disk, info)
    try:
        return _walk(reading, start)
    finally:
        reading.close()


def _has_header(disk: Disk, info: SegmentInfo) -> bool:
    """Without its header, which is written with the first record, a segment has none."""
    with disk.open(info.path) as file:
        try:
            data = file.pread(0, SEGMENT_HEADER.size)
            return check_header(data, info, size=file.size()) is not None
        except Corrupt:
            return False


def _walk(reading: SegmentReader, position: int) -> int:
    while position < reading.room_end:
        found = reading.scan(position, reading.room_end, bytes_max=_WINDOW_BYTES)
        if isinstance(found, Stop):
            break
        position = found.end.segment_offset
    return position
