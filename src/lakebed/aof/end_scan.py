"""Finds the end of a log by scanning its last segments, if the `durable_end` file does not give it.

The log ends before the first bad record in its unsealed segments. Sealed segments are trusted: only
the last of them is scanned, and only if the end of its records is not known. Nothing is repaired.
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
    """Returns the position where the good records of the log end; 0 if there are no segments.

    `confirmed` is a position up to which the log is known to be durable; unsealed segments are
    scanned only from there on. It is ignored if it is after the last of `segments`.
    """
    if not segments:
        return RecordId(0)
    unsealed = len(segments)
    while unsealed and not segments[unsealed - 1].is_sealed:
        unsealed -= 1
    end = RecordId.from_parts(segments[0].segment_id, RECORDS_START)
    if unsealed:
        # Segments are sealed in order: all before a sealed one are durable too.
        end = _sealed_end(disk, segments[unsealed - 1])
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


def _sealed_end(disk: Disk, info: SegmentInfo) -> RecordId:
    """Returns the position after the last good record of a sealed segment.

    Reads the whole segment if its end was not known when it was listed. If it has no good record,
    or if its file is too short for a segment, returns the start of the next segment: readers then
    reach the segment, and report its damage.
    """
    end = info.end or _last_end(disk, info)
    if end == RECORDS_START:
        return RecordId.from_parts(info.segment_id + 1, 0)
    return RecordId.from_parts(info.segment_id, end)


def _last_end(disk: Disk, info: SegmentInfo) -> int:
    try:
        reader = open_segment(disk, info)
    except Corrupt:  # the file is too short for a segment
        return RECORDS_START
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
    """Returns whether the segment has a valid header; without it the segment counts as empty.

    Raises `UnknownVersion` if the header has an unsupported version.
    """
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
