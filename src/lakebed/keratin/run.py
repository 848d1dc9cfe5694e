"""A run: contiguous whole records of a log, with the records' fields as columns.

A run holds records, not messages: it includes control records, and a batch record counts once.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from lakebed.keratin.format import KERATIN_RECORD, RecordFlags, record_bytes
from lakebed.kernels.format import RECORD_BATCH
from lakebed.kernels.results import Column, KeratinScan

_BATCH = int(RecordFlags.BATCH)  # a plain number: operations on enum flags are slow


class Run(NamedTuple):
    """One or more contiguous records with verified checksums. Columns have one item per record.

    `buffer` is the part of the file that was read; views of it keep it alive.
    """

    buffer: memoryview
    origin: int  # the position of `buffer` in the file
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
        """The position in the file at which the first record of the run begins."""
        return self.origin + int(self.positions[0])

    @property
    def end(self) -> int:
        """The position in the file at which the last record of the run ends."""
        return self.origin + self._end_in_buffer()

    @property
    def next_offset(self) -> int:
        """The offset after the last message of the run."""
        return self.offset_after(self.record_count - 1)

    def offset_after(self, index: int) -> int:
        """Returns the offset after the last message of the record at `index`."""
        offset = int(self.offsets[index])
        if not self.flags[index] & _BATCH:
            return offset + 1
        payload = self.payload(index)
        if len(payload) < RECORD_BATCH.size:
            return offset + 1  # not a valid batch: decoding it raises the error
        return offset + max(RECORD_BATCH.unpack(payload).last_offset_delta, 0) + 1

    def index_for(self, offset: int) -> int:
        """Returns the index of the first record whose last offset is `offset` or later.

        Returns `record_count` if there is no such record.
        """
        index = bisect_left(self.offsets, offset)
        if index and self.flags[index - 1] & _BATCH:
            return index - 1 if self.offset_after(index - 1) > offset else index
        return index

    def in_order_count(self, least_offset: int, limit_offset: int) -> int:
        """Returns how many records, from the first on, have rising offsets in the given range.

        The range is `[least_offset, limit_offset)`.

        Checksums cover offsets, so only whole records in the wrong place can be out of order. If
        the first and the last offset show that there is no gap, the offsets between them are not
        checked.
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
        """Returns the headers block of the record at `index`."""
        start = self.positions[index] + KERATIN_RECORD.size
        return self.buffer[start : start + self.header_lengths[index]]

    def payload(self, index: int) -> memoryview:
        start = self.positions[index] + KERATIN_RECORD.size + self.header_lengths[index]
        return self.buffer[start : start + self.payload_lengths[index]]

    def raw(self) -> memoryview:
        """Returns the bytes of all records."""
        return self.buffer[self.positions[0] : self._end_in_buffer()]

    def part(self, first: int, last: int) -> Run:
        """Returns the records with indexes `[first, last)`, without copying.

        The range must not be empty.
        """
        assert 0 <= first < last <= self.record_count, "a part of a run must not be empty"
        if last - first == self.record_count:
            return self
        columns = (column[first:last] for column in self[2:])
        return Run(self.buffer, self.origin, *columns)

    def _end_in_buffer(self) -> int:
        return int(self.positions[-1]) + record_bytes(
            self.header_lengths[-1], self.payload_lengths[-1]
        )


def run_of(scan: KeratinScan, buffer: memoryview, origin: int) -> Run:
    """Makes a run from a kernel scan of `buffer` that found at least one record."""
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
