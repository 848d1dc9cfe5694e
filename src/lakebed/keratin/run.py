"""Whole records that stand one behind the other, as the scan found them: columns over bytes.

Records, not messages: a control record is here as itself, and a batch record as one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from lakebed.keratin.format import KERATIN_RECORD, RecordFlags, record_bytes
from lakebed.kernels.format import RECORD_BATCH
from lakebed.kernels.results import Column, KeratinScan

_BATCH = int(RecordFlags.BATCH)  # a plain number: flags of an enumeration are slow


class Run(NamedTuple):
    """At least one record, checksums verified. A column has one item a record.

    `buffer` is the part of the file that was read; views of it keep it alive.
    """

    buffer: memoryview
    origin: int  # of `buffer` in the file
    positions: Column  # u64, in `buffer`
    offsets: Column  # u64, of the record's first message
    timestamps_ms: Column  # u64
    flags: Column  # u16
    header_lengths: Column  # u32
    payload_lengths: Column  # u32

    @property
    def record_count(self) -> int:
        return len(self.positions)

    @property
    def start(self) -> int:
        """Where the first record begins in the file."""
        return self.origin + int(self.positions[0])

    @property
    def end(self) -> int:
        """Behind the last record, in the file."""
        return self.origin + self._end_in_buffer()

    @property
    def next_offset(self) -> int:
        """Behind the last message."""
        return self.offset_after(self.record_count - 1)

    def offset_after(self, index: int) -> int:
        """Behind the messages of that record."""
        offset = int(self.offsets[index])
        if not self.flags[index] & _BATCH:
            return offset + 1
        payload = self.payload(index)
        if len(payload) < RECORD_BATCH.size:
            return offset + 1  # not a batch: whoever opens it says so
        return offset + max(RECORD_BATCH.unpack(payload).last_offset_delta, 0) + 1

    def index_for(self, offset: int) -> int:
        """The first record with messages at or behind `offset`; `record_count` if there is none."""
        index = bisect_left(self.offsets, offset)
        if index and self.flags[index - 1] & _BATCH:
            return index - 1 if self.offset_after(index - 1) > offset else index
        return index

    def in_order_count(self, least_offset: int, limit_offset: int) -> int:
        """How many of the records have offsets that rise, within those limits.

        Checksums cover offsets, so only whole records in the wrong place can be out of order. Where
        first and last tell that there is no gap, those between are not looked at.
        """
        first, last = self.offsets[0], self.offsets[-1]
        is_inside = least_offset <= first and last < limit_offset
        if is_inside and last - first == self.record_count - 1:
            return self.record_count
        for index, offset in enumerate(self.offsets):
            if not least_offset <= offset < limit_offset:
                return index
            least_offset = offset + 1
        return self.record_count

    def headers(self, index: int) -> memoryview:
        """The headers block."""
        start = self.positions[index] + KERATIN_RECORD.size
        return self.buffer[start : start + self.header_lengths[index]]

    def payload(self, index: int) -> memoryview:
        start = self.positions[index] + KERATIN_RECORD.size + self.header_lengths[index]
        return self.buffer[start : start + self.payload_lengths[index]]

    def raw(self) -> memoryview:
        """All the records' bytes."""
        return self.buffer[self.positions[0] : self._end_in_buffer()]

    def part(self, first: int, last: int) -> Run:
        """The records `[first, last)`, of which there must be one; no copy."""
        assert 0 <= first < last <= self.record_count, "an empty part of a run"
        if last - first == self.record_count:
            return self
        columns = (column[first:last] for column in self[2:])
        return Run(self.buffer, self.origin, *columns)

    def _end_in_buffer(self) -> int:
        return int(self.positions[-1]) + record_bytes(
            self.header_lengths[-1], self.payload_lengths[-1]
        )


def run_of(scan: KeratinScan, buffer: memoryview, origin: int) -> Run:
    """The records of a scan that found some."""
    return Run(
        buffer,
        origin,
        scan.positions,
        scan.offsets,
        scan.timestamps_ms,
        scan.flags,
        scan.header_lengths,
        scan.payload_lengths,
    )
