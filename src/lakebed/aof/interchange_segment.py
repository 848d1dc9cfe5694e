"""A segment in the interchange layout, open for reading.

Positions are the segment offsets that record ids contain: the offsets that the records have in a
runtime segment. They rise from record to record, but they are not offsets in this file, and they
have gaps where compaction left records out.

Opening a segment reads all its records once, in Python, and stores the position and file offset of
each good record (16 bytes per record). This is for tools, imports and compacted segments, and is
slow compared with reading a runtime segment.

A record's time is stored in milliseconds and returned in nanoseconds. Records have no ext_id of
their own and are returned with the segment's ext_id. Their flags are not returned.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from lakebed.aof.damage import SkippedRange
from lakebed.aof.format import AOF_ALIGNMENT, RECORDS_START, record_bytes
from lakebed.aof.interchange import (
    INTERCHANGE_FOOTER,
    INTERCHANGE_HEADER,
    INTERCHANGE_MAGIC,
    INTERCHANGE_RECORD,
    InterchangeFooter,
    InterchangeRecordHeader,
    decode_interchange_footer,
    decode_interchange_header,
    interchange_record_bytes,
)
from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import SEGMENT_OFFSET_MAX, RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Corrupt
from lakebed.base.files import File
from lakebed.kernels import Stop, crc64nvme, fold64
from lakebed.kernels.results import Column

_U64_MAX = (1 << 64) - 1


def is_interchange(head: memoryview) -> bool:
    """Returns whether a file that begins with `head` has the magic of the interchange layout."""
    if len(head) < INTERCHANGE_HEADER.size:
        return False
    return INTERCHANGE_HEADER.unpack(head).magic == INTERCHANGE_MAGIC


def is_interchange_file(file: File) -> bool:
    """Returns whether a file begins with the magic number of the interchange layout."""
    return is_interchange(memoryview(file.pread(0, INTERCHANGE_HEADER.size)))


def read_interchange_footer(file: File) -> InterchangeFooter | None:
    """Returns the footer of an interchange file, or None if it is missing or damaged.

    Raises `UnknownVersion` if the file has an unsupported version.
    """
    decode_interchange_header(file.pread(0, INTERCHANGE_HEADER.size))
    start = max(0, file.size() - INTERCHANGE_FOOTER.size)
    return decode_interchange_footer(file.pread(start, INTERCHANGE_FOOTER.size), offset=start)


class InterchangeSegment:
    """An interchange segment, open for reading. Its whole file is held in memory."""

    has_gaps = True
    records_end: int | None = None  # unknown: compaction may have left out the last record
    room_end = SEGMENT_OFFSET_MAX
    timestamp_max: int | None = None

    def __init__(self, info: SegmentInfo, buffer: memoryview) -> None:
        header = decode_interchange_header(buffer)
        footer = decode_interchange_footer(buffer)
        self._info = info
        self._buffer = buffer
        self._ext_id = 0 if footer is None else footer.ext_id
        self._defects: list[SkippedRange] = []
        if header.segment_id != info.segment_id:
            self._note(0, INTERCHANGE_HEADER.size, "the header belongs to another segment")
        if footer is None:
            start = max(0, len(buffer) - INTERCHANGE_FOOTER.size)
            self._note(start, len(buffer), "the segment's footer is missing or damaged")
        self._positions = array("Q")  # of the good records, as segment offsets
        self._offsets = array("Q")  # file offsets of the same records
        self._damaged: set[int] = set()  # indexes of records with damage right before them
        self._index(len(buffer) if footer is None else footer.durable_bytes)

    def defects(self) -> Sequence[SkippedRange]:
        return self._defects

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> RecordBatch | Stop:
        first = bisect_left(self._positions, position)
        is_exact = first < len(self._positions) and self._positions[first] == position
        if first in self._damaged and not is_exact:
            return Stop.BAD_CHECKSUM
        last, size = first, 0
        while last < len(self._positions) and self._positions[last] < end:
            if last > first and (last in self._damaged or size >= bytes_max):
                break
            if last - first == count_max:
                break
            length = self._header(last).payload_len
            if self._positions[last] + record_bytes(length) > end:
                return self._batch(first, last) if last > first else Stop.CUT
            size += interchange_record_bytes(length)
            last += 1
        return self._batch(first, last) if last > first else Stop.END

    def find(self, position: int, end: int) -> int | None:
        index = bisect_left(self._positions, position)
        if index == len(self._positions) or self._positions[index] >= end:
            return None
        return self._positions[index]

    def close(self) -> None:
        """Releases the file's bytes; batches that were returned stay valid."""
        self._buffer = memoryview(b"")

    def _index(self, limit: int) -> None:
        offset = INTERCHANGE_HEADER.size
        position_min = RECORDS_START
        while offset + INTERCHANGE_RECORD.size <= limit:
            position, size = self._record_at(offset, limit, position_min)
            if size == 0:
                self._damaged.add(len(self._positions))
                offset += AOF_ALIGNMENT
                continue
            self._positions.append(position)
            self._offsets.append(offset)
            position_min = position + record_bytes(self._header(-1).payload_len)
            offset += size

    def _record_at(self, offset: int, limit: int, position_min: int) -> tuple[int, int]:
        """Returns the segment offset of the record at that file offset, and its size in the file.

        Both are 0 if the record is damaged, extends beyond `limit`, or has a segment offset that is
        less than `position_min` or not aligned.
        """
        header: InterchangeRecordHeader = INTERCHANGE_RECORD.unpack(self._buffer, offset)
        size = interchange_record_bytes(header.payload_len)
        position = header.logical_offset - self._info.base_offset
        if not header.payload_len or offset + size > limit:
            return 0, 0
        if not position_min <= position <= SEGMENT_OFFSET_MAX or position % AOF_ALIGNMENT:
            return 0, 0
        start = offset + INTERCHANGE_RECORD.size
        crc64 = crc64nvme(self._buffer[start : start + header.payload_len])
        return (position, size) if fold64(crc64) == header.record_crc32 else (0, 0)

    def _header(self, index: int) -> InterchangeRecordHeader:
        return INTERCHANGE_RECORD.unpack(self._buffer, self._offsets[index])

    def _batch(self, first: int, last: int) -> RecordBatch:
        headers = [self._header(index) for index in range(first, last)]
        stamps = [min(header.append_ts_ms * NS_PER_MS, _U64_MAX) for header in headers]
        end = self._positions[last - 1] + record_bytes(headers[-1].payload_len)
        return RecordBatch(
            segment_id=self._info.segment_id,
            base_offset=self._info.base_offset,
            buffer=self._buffer,
            buffer_offset=0,
            header_bytes=INTERCHANGE_RECORD.size,
            offsets=_column("Q", self._offsets[first:last]),
            lengths=_column("I", [header.payload_len for header in headers]),
            timestamps=_column("Q", stamps),
            ext_ids=_column("Q", [self._ext_id] * len(headers)),
            end=RecordId.from_parts(self._info.segment_id, end),
            ids=_column("Q", self._positions[first:last]),
        )

    def _note(self, start: int, end: int, problem: str) -> None:
        error = Corrupt(problem, path=self._info.path, offset=start)
        skipped = SkippedRange(self._info.segment_id, self._info.path, start, end, error)
        self._defects.append(skipped)


def _column(code: str, values: Sequence[int]) -> Column:
    return memoryview(array(code, values)).toreadonly()
