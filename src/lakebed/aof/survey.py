"""Finds all good records of a segment and all damage between them.

There is one walker for each segment layout. `walk` returns the good records from an offset up to
the first bad bytes, and `find` returns where the next good record begins. `survey` calls these two
in turn until the end of the segment. If the header of a record is damaged, bytes in its payload
that look like records are taken for records.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lakebed.aof.format import AOF_ALIGNMENT
from lakebed.aof.interchange import INTERCHANGE_RECORD, interchange_record_bytes
from lakebed.base.damage import end_of_bytes
from lakebed.kernels import Stop, aof_find, aof_scan, crc64nvme, fold64

DAMAGES_COUNT_MAX = 1000
"""The number of damaged ranges after which a survey stops, because the search for the next record
after each range may read the rest of the file."""

_SCAN_COUNT = 1 << 16  # records per scan, which keeps the columns small
_NS_PER_MS = 1_000_000
_OFFSET_SPAN_MAX = 1 << 32  # the logical offsets of one segment differ by less

_PROBLEMS = {
    Stop.END: "zeros where a record should be",
    Stop.CUT: "a record that extends past the end",
    Stop.BAD_HEADER: "not a valid record header",
    Stop.BAD_CHECKSUM: "a record with a wrong checksum",
}


class Damage(NamedTuple):
    """A damaged range of a file, `[offset, offset + length)`, and what is wrong with it."""

    offset: int
    length: int
    problem: str


class GoodRange(NamedTuple):
    """The range `[start, end)` of a file that contains only good records."""

    start: int
    end: int
    record_count: int
    last_offset: int  # where the last record begins
    last_timestamp_ns: int
    max_timestamp_ns: int


class Survey(NamedTuple):
    """The good and damaged ranges between two offsets of a file."""

    good_ranges: tuple[GoodRange, ...]
    damages: tuple[Damage, ...]  # each is followed by good records
    tail: Damage | None  # non-zero bytes after the last good record


class Walker(Protocol):
    """The interface for scanning the records of one segment layout."""

    def walk(self, data: memoryview, start: int, end: int) -> tuple[GoodRange, Stop]:
        """Returns the range of good records that begins at `start`, and why it ends.

        The range is empty if no good record begins at `start`.
        """

    def find(self, data: memoryview, start: int, end: int) -> int:
        """Returns the offset of the first good record at or after `start`, or -1."""


def survey(walker: Walker, data: memoryview, start: int, end: int) -> Survey:
    """Returns the good and damaged ranges of `data[start:end]`.

    A record should begin at `start`; if not, the range from there to the next record is damaged.
    """
    ranges: list[GoodRange] = []
    damages: list[Damage] = []
    used_end = end_of_bytes(data, start, end)
    while True:
        good, stop = walker.walk(data, start, end)
        if good.record_count:
            ranges.append(good)
        if used_end <= good.end:
            return Survey(tuple(ranges), tuple(damages), None)
        problem = _PROBLEMS[stop]
        start = -1
        if len(damages) < DAMAGES_COUNT_MAX:
            start = walker.find(data, good.end + AOF_ALIGNMENT, end)
        else:
            problem += "; the file has too much damage, so the bytes after it were not checked"
        if start < 0:
            tail = Damage(good.end, used_end - good.end, problem)
            return Survey(tuple(ranges), tuple(damages), tail)
        damages.append(Damage(good.end, start - good.end, problem))


class RuntimeWalker:
    """Scans the records of a runtime segment, with the functions of `lakebed.kernels`."""

    def walk(self, data: memoryview, start: int, end: int) -> tuple[GoodRange, Stop]:
        count = last_offset = last_timestamp = max_timestamp = 0
        position = start
        while True:
            scan = aof_scan(data, position, end, count_max=_SCAN_COUNT)
            if len(scan.offsets):
                count += len(scan.offsets)
                last_offset, last_timestamp = scan.offsets[-1], scan.timestamps[-1]
                newest = max(scan.timestamps)
                max_timestamp = max(max_timestamp, newest)
            position = scan.end
            if scan.stop is not Stop.COUNT:
                break
        good = GoodRange(start, position, count, last_offset, last_timestamp, max_timestamp)
        return good, scan.stop

    def find(self, data: memoryview, start: int, end: int) -> int:
        return aof_find(data, start, end) if start < end else -1


class InterchangeWalker:
    """Scans the records of an interchange segment, in Python, which is slow.

    A good record has a logical offset that is possible for this segment, zero padding in its
    header, and a matching checksum. Logical offsets must also rise. If they do not, it is unknown
    which of two records is wrong, so both count as good; `unordered_at` is then the file offset of
    the first record with too low a logical offset. It is None if all logical offsets rise.
    """

    def __init__(self, *, base_offset: int | None) -> None:
        self._allowed = range(1 << 64)
        if base_offset is not None:
            self._allowed = range(base_offset, base_offset + _OFFSET_SPAN_MAX, AOF_ALIGNMENT)
        self._least = 0  # the lowest valid next logical offset
        self.unordered_at: int | None = None

    def walk(self, data: memoryview, start: int, end: int) -> tuple[GoodRange, Stop]:
        count = last_offset = last_timestamp = max_timestamp = 0
        position = start
        while (stop := self._stop(data, position, end)) is None:
            header = INTERCHANGE_RECORD.unpack(data, position)
            if header.logical_offset < self._least and self.unordered_at is None:
                self.unordered_at = position
            self._least = header.logical_offset + 1
            count, last_offset = count + 1, position
            last_timestamp = header.append_ts_ms * _NS_PER_MS
            max_timestamp = max(max_timestamp, last_timestamp)
            position += interchange_record_bytes(header.payload_len)
        good = GoodRange(start, position, count, last_offset, last_timestamp, max_timestamp)
        return good, stop

    def find(self, data: memoryview, start: int, end: int) -> int:
        for offset in range(start, end - INTERCHANGE_RECORD.size + 1, AOF_ALIGNMENT):
            if self._stop(data, offset, end) is None:
                return offset
        return -1

    def _stop(self, data: memoryview, offset: int, end: int) -> Stop | None:
        """Returns why there is no good record at `offset`, or None if there is one."""
        if end - offset < INTERCHANGE_RECORD.size:
            return Stop.CUT if any(data[offset:end]) else Stop.END
        header = INTERCHANGE_RECORD.unpack(data, offset)
        if header.payload_len == 0:
            is_zero = not any(data[offset : offset + INTERCHANGE_RECORD.size])
            return Stop.END if is_zero else Stop.BAD_HEADER
        is_padded = INTERCHANGE_RECORD.padding_is_zero(data, offset)
        if header.logical_offset not in self._allowed or not is_padded:
            return Stop.BAD_HEADER
        if interchange_record_bytes(header.payload_len) > end - offset:
            return Stop.CUT
        first = offset + INTERCHANGE_RECORD.size
        crc = crc64nvme(data[first : first + header.payload_len])
        return None if fold64(crc) == header.record_crc32 else Stop.BAD_CHECKSUM
