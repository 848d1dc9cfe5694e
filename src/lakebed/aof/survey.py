"""Surveys the records of a segment, continuing after damage, so that all good records are found.

Two walkers, one per layout, return how far good records reach from an offset and where the next
ones begin. `survey` alternates between the two and collects good ranges and damages. If the header
of a record is damaged, records inside its payload cannot be distinguished from real ones.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lakebed.aof.format import AOF_ALIGNMENT
from lakebed.aof.interchange import INTERCHANGE_RECORD, interchange_record_bytes
from lakebed.base.damage import end_of_bytes
from lakebed.kernels import Stop, aof_find, aof_scan, crc64nvme, fold64

DAMAGES_COUNT_MAX = 1000
"""How many damages are skipped at most: each search for the next record may read the whole file."""

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
    """Bytes `[offset, offset + length)` that are wrong, and how."""

    offset: int
    length: int
    problem: str


class GoodRange(NamedTuple):
    """Consecutive whole records in `[start, end)` of the file."""

    start: int
    end: int
    record_count: int
    last_offset: int  # where the last record begins
    last_timestamp_ns: int
    max_timestamp_ns: int


class Survey(NamedTuple):
    """The good and bad ranges between two offsets of a file."""

    good_ranges: tuple[GoodRange, ...]
    damages: tuple[Damage, ...]  # each is followed by good records
    tail: Damage | None  # non-zero bytes after the last good record


class Walker(Protocol):
    """Scans the records of one layout."""

    def walk(self, data: memoryview, start: int, end: int) -> tuple[GoodRange, Stop]:
        """Returns the good records from `start` on, perhaps none, and why they end."""

    def find(self, data: memoryview, start: int, end: int) -> int:
        """Returns the offset of the next good record from `start` on, or -1."""


def survey(walker: Walker, data: memoryview, start: int, end: int) -> Survey:
    """Surveys all of `data[start:end]`, which should begin with a record."""
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
            problem += "; there is too much damage, so the bytes after it were not searched"
        if start < 0:
            tail = Damage(good.end, used_end - good.end, problem)
            return Survey(tuple(ranges), tuple(damages), tail)
        damages.append(Damage(good.end, start - good.end, problem))


class RuntimeWalker:
    """Scans the records of a runtime segment, with the kernels."""

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
    """Scans the records of an interchange segment, in Python: only tools need it.

    A logical offset must be within one segment's span of the base offset, and the header's padding
    must be zero. Both distinguish records from other bytes before any checksum is computed. Offsets
    must also rise; as it is unknown which of two unordered records is wrong, `unordered_at` only
    notes the first such place.
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
