"""The records that readers return: single records, and columnar batches that copy no payloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakebed.aof.record_id import RecordId
from lakebed.kernels.results import Column


class Record(NamedTuple):
    """One record of a log, with a copy of its payload."""

    record_id: RecordId
    timestamp: int  # ns since 1970
    ext_id: int
    payload: bytes


class RecordBatch:
    """One or more consecutive records of one segment, with verified checksums, as columns.

    Each column has one item per record. `buffer` is the part of the file that was read; it stays
    valid after files are closed.

    - `offsets` (u64): where the record's header begins in `buffer`;
    - `lengths` (u32): the payload's length in bytes; the payload begins `header_bytes` after the
      record's offset;
    - `timestamps` (u64), in ns since 1970, and `ext_ids` (u64);
    - `ids` (u64): the segment offset in the record's id. The whole column is None if that is always
      the item of `offsets` plus `buffer_offset`, the offset of `buffer` in the file.
    """

    __slots__ = (
        "base_offset",
        "buffer",
        "buffer_offset",
        "end",
        "ext_ids",
        "header_bytes",
        "ids",
        "lengths",
        "offsets",
        "segment_id",
        "timestamps",
    )

    def __init__(
        self,
        *,
        segment_id: int,
        base_offset: int,
        buffer: memoryview,
        buffer_offset: int,
        header_bytes: int,
        offsets: Column,
        lengths: Column,
        timestamps: Column,
        ext_ids: Column,
        end: RecordId,
        ids: Column | None = None,
    ) -> None:
        self.segment_id = segment_id
        self.base_offset = base_offset  # the segment's offset in the log
        self.buffer = buffer
        self.buffer_offset = buffer_offset
        self.header_bytes = header_bytes
        self.offsets = offsets
        self.lengths = lengths
        self.timestamps = timestamps
        self.ext_ids = ext_ids
        self.end = end  # the position after the last record
        self.ids = ids

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Record]:
        """Yields the records. This is faster than calling `record` for each index."""
        return map(Record, self._ids(), self.timestamps, self.ext_ids, map(bytes, self.payloads()))

    @property
    def start(self) -> RecordId:
        return self.record_id(0)

    def record_id(self, index: int) -> RecordId:
        if self.ids is not None:
            return RecordId.from_parts(self.segment_id, self.ids[index])
        return RecordId.from_parts(self.segment_id, self.buffer_offset + self.offsets[index])

    def record_ids(self) -> list[RecordId]:
        return list(self._ids())

    def payload(self, index: int) -> memoryview:
        """Returns a view of the payload of the record at that index, without copying it."""
        start: int = self.offsets[index] + self.header_bytes
        return self.buffer[start : start + self.lengths[index]]

    def payloads(self) -> Iterator[memoryview]:
        """Yields views of all payloads, without copying them."""
        buffer, header_bytes = self.buffer, self.header_bytes
        for offset, length in zip(self.offsets, self.lengths, strict=True):
            start = offset + header_bytes
            yield buffer[start : start + length]

    def record(self, index: int) -> Record:
        return Record(
            self.record_id(index),
            self.timestamps[index],
            self.ext_ids[index],
            bytes(self.payload(index)),
        )

    def _ids(self) -> Iterator[RecordId]:
        """Yields the records' ids, each created only when it is needed."""
        first = int(RecordId.from_parts(self.segment_id, 0))
        if self.ids is None:
            first += self.buffer_offset
        for offset in self.offsets if self.ids is None else self.ids:
            yield RecordId(first + offset)

    def part(self, first: int, last: int) -> RecordBatch:
        """Returns the records with indexes `[first, last)` as a batch, without copying them.

        `last` must be greater than `first`, because a batch has at least one record.
        """
        assert 0 <= first < last <= len(self), "the part of a batch must not be empty"
        return RecordBatch(
            segment_id=self.segment_id,
            base_offset=self.base_offset,
            buffer=self.buffer,
            buffer_offset=self.buffer_offset,
            header_bytes=self.header_bytes,
            offsets=self.offsets[first:last],
            lengths=self.lengths[first:last],
            timestamps=self.timestamps[first:last],
            ext_ids=self.ext_ids[first:last],
            end=self.end if last == len(self) else self.record_id(last),
            ids=None if self.ids is None else self.ids[first:last],
        )
