"""The in-memory state of a segment that is being written, and how records are added to it.

This module does no I/O: it returns the bytes to write and their offset, and a later flush writes
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, cast

from lakebed.aof.footer import encode_footer
from lakebed.aof.format import (
    AOF_RECORD,
    FOOTER_BYTES,
    FOOTER_MAGIC,
    FOOTER_VERSION,
    RECORDS_START,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    SegmentFooter,
    SegmentHeader,
    record_bytes,
    records_end_max,
)
from lakebed.aof.paths import SegmentName
from lakebed.aof.record_id import RecordId
from lakebed.base.layout import Buffer
from lakebed.kernels import AofBatch, aof_batch, crc64_combine

Numbers = int | Sequence[int]
"""One number that applies to all records, or one number for each record."""


class RecordIds(Sequence[RecordId]):
    """The ids of records that were appended together.

    Each id is created when it is accessed, because creating all of them may take as long as a sync.
    """

    __slots__ = ("_base", "_offsets")

    def __init__(self, base: RecordId, offsets: Sequence[int] | memoryview) -> None:
        self._base = base
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return [RecordId(self._base + offset) for offset in self._offsets[index]]
        return RecordId(self._base + self._offsets[index])


class Chunk(NamedTuple):
    """Consecutive records, or none, that are queued to be written to a segment at `offset`."""

    segment: Segment
    offset: int
    header: bytes  # the segment's header, only with its first records
    records: AofBatch | None
    size: int

    def buffers(self) -> list[Buffer]:
        records = [] if self.records is None else [cast("Buffer", self.records)]
        return [self.header, *records] if self.header else records


class FirstRecord(NamedTuple):
    """The fields of a segment's header that come from its first record."""

    timestamp: int
    ext_id: int


class Segment:
    """A segment that accepts records or waits to be sealed. The log's mutex guards its fields."""

    __slots__ = (
        "base_record_count",
        "base_timestamp",
        "crc64",
        "durable",
        "end",
        "ext_id",
        "flush_failure",
        "is_announced",
        "is_on_disk",
        "last_record_id",
        "max_timestamp",
        "name",
        "record_count",
        "size",
    )

    def __init__(self, name: SegmentName, *, size: int, base_record_count: int) -> None:
        self.name = name
        self.size = size
        self.base_record_count = base_record_count
        self.record_count = 0
        self.end = RECORDS_START  # the end of the last appended record
        self.durable = 0  # the end of the synced bytes
        self.base_timestamp = 0
        self.max_timestamp = 0
        self.ext_id = 0
        self.last_record_id = 0
        self.crc64 = 0  # over the records written so far
        self.flush_failure = False
        self.is_on_disk = False
        self.is_announced = False  # recorded as opened in the manifest log

    @property
    def room(self) -> int:
        return records_end_max(self.size) - self.end

    def position(self, offset: int) -> RecordId:
        return RecordId.from_parts(self.name.segment_id, offset)

    def encode(
        self,
        payloads: Sequence[Buffer],
        *,
        timestamps: Numbers,
        ext_ids: Numbers,
        limit: int | None = None,
    ) -> AofBatch:
        """Encodes the leading payloads that fit in the segment, up to `limit` bytes.

        Does not change the segment.
        """
        return aof_batch(
            payloads,
            timestamps=timestamps,
            ext_ids=ext_ids,
            capacity=self.room if limit is None else min(self.room, limit),
        )

    def chunk(self, batch: AofBatch, first: FirstRecord) -> Chunk:
        """Returns the chunk that writes these records at the end of the segment.

        If they are the segment's first records, the chunk also writes the header.
        """
        if self.record_count:
            return Chunk(self, self.end, b"", batch, batch.size)
        header = self.header(first)
        return Chunk(self, 0, header, batch, len(header) + batch.size)

    def accept(self, batch: AofBatch, first: FirstRecord, *, max_timestamp: int) -> RecordIds:
        """Adds the records to the segment's totals and returns their ids. Does not raise errors."""
        count = len(batch.offsets)
        if not self.record_count:
            self.base_timestamp, self.ext_id = first
        base = self.position(self.end)
        self.record_count += count
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
        self.last_record_id = base + batch.offsets[count - 1]
        self.end += batch.size
        return RecordIds(base, batch.offsets)

    def note_written(self, batch: AofBatch) -> None:
        """Adds a batch to the segment's checksum; must be called in the order of the batches."""
        self.crc64 = crc64_combine(self.crc64, batch.crc64, batch.size)

    def footer(self, *, sealed_at: int, coordinator_watermark: int) -> bytes:
        """Returns the bytes of the footer for the segment's current state."""
        return encode_footer(
            SegmentFooter(
                magic=FOOTER_MAGIC,
                version=FOOTER_VERSION,
                reserved=0,
                segment_index=self.name.segment_id,
                checksum=0,
                base_record_count=self.base_record_count,
                record_count=self.record_count,
                durable_bytes=self.end,
                last_record_id=self.last_record_id,
                last_timestamp=self.max_timestamp,
                sealed_at=sealed_at,
                payload_checksum=self.crc64,
                ext_id=self.ext_id,
                coordinator_watermark=coordinator_watermark,
                flush_failure=self.flush_failure,
            )
        )

    def header(self, first: FirstRecord | None = None) -> bytes:
        """Returns the bytes of the segment's header.

        `first` gives the fields of the first record; by default they are taken from the segment.
        """
        timestamp, ext_id = first or (self.base_timestamp, self.ext_id)
        return SEGMENT_HEADER.pack(
            SegmentHeader(
                magic=SEGMENT_MAGIC,
                version=SEGMENT_VERSION,
                header_length=SEGMENT_HEADER.size,
                segment_index=self.name.segment_id,
                base_record_count=self.base_record_count,
                base_offset=self.name.base_offset,
                max_size=self.size,
                created_at=self.name.created_at,
                base_timestamp=timestamp,
                ext_id=ext_id,
            )
        )


def payload_bytes_max(segment_bytes: int) -> int:
    """Returns the size of the largest payload that fits in an empty segment of that size."""
    return segment_bytes - RECORDS_START - FOOTER_BYTES - AOF_RECORD.size


def fits_empty_segment(payload_bytes: int, segment_bytes: int) -> bool:
    return record_bytes(payload_bytes) <= records_end_max(segment_bytes) - RECORDS_START


def largest(numbers: Numbers, count: int) -> int:
    """Returns the largest of the first `count` numbers; if `numbers` is one integer, returns it."""
    return numbers if isinstance(numbers, int) else max(islice(numbers, count))
