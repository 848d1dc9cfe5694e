"""The binary layout of an AOF2 log: segments, sealed pointer and durable end. Little-endian.

    segment  := header record* zero* footer      header at 0, footer in the last 96 bytes
    record   := AOF_RECORD payload zero*         on 8-byte boundaries, see `kernels.format`
    header   := SEGMENT_HEADER | zero[64]        all zero if the segment has no record yet
    footer   := SEGMENT_FOOTER | zero[96]        all zero if the segment is not sealed

A segment file has its full length from its creation. The file `current.sealed` is one
SEALED_POINTER, and the file `durable_end` is one DURABLE_END.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from lakebed.base.layout import Layout, PadAfter, Raw, i64, u8, u16, u32, u64
from lakebed.kernels.format import AOF_ALIGNMENT, AOF_RECORD, AofRecordHeader

__all__ = ["AOF_ALIGNMENT", "AOF_RECORD", "AofRecordHeader"]


class SegmentHeader(NamedTuple):
    """The first 64 bytes of a runtime segment, written with the segment's first records."""

    magic: u32  # 0x414F4632, "AOF2"
    version: u16  # 2
    header_length: u16  # 64
    segment_index: u32  # as in the file's name
    base_record_count: u64  # records in the log before this segment
    base_offset: u64  # bytes in the log before this segment: headers, records and footers
    max_size: u32  # the file's length
    created_at: i64  # ns since 1970, as in the file's name
    base_timestamp: u64  # the first record's timestamp, ns
    ext_id: Annotated[u64, PadAfter(8)]  # the first record's ext_id


class SegmentFooter(NamedTuple):
    """The last 96 bytes of a sealed runtime segment."""

    magic: u32  # 0x464F4F54, "FOOT"
    version: u16  # 2
    reserved: u16  # 0
    segment_index: u32  # as in the header
    checksum: u32  # folded crc64-nvme of the footer with this field zero
    base_record_count: u64  # as in the header
    record_count: u64  # records in this segment
    durable_bytes: u64  # file offset after the last record and its padding
    last_record_id: u64  # packed; 0 if there is no record
    last_timestamp: u64  # the largest timestamp in the segment, ns
    sealed_at: i64  # ns since 1970
    payload_checksum: u64  # crc64-nvme over [64, durable_bytes)
    ext_id: u64  # as in the header
    coordinator_watermark: u64  # the caller's watermark when the segment was sealed
    flush_failure: Annotated[u8, PadAfter(7)]  # 1 if a flush failed, or if recovery found damage


class SealedPointer(NamedTuple):
    """The content of the file `current.sealed`: the last segment whose footer is durable."""

    magic: u32  # 0x43505332, "CPS2"
    version: u16  # 1
    reserved: u16  # 0
    segment_id: u64
    durable_bytes: u64  # as in that segment's footer
    coordinator_watermark: u64  # as in that segment's footer
    crc64: u64  # crc64-nvme over the 32 bytes before


class DurableEnd(NamedTuple):
    """The content of the file `durable_end`: the position up to which other processes may read.

    The writer overwrites the file after each sync of the log, and syncs the file itself only when
    it opens and closes the log. If the machine has restarted since (`boot_id` differs), the real
    durable end may be later.
    """

    magic: u32  # 0x41454E44, "AEND"
    version: u16  # 1
    reserved: u16  # 0
    boot_id: Annotated[bytes, Raw(16)]  # identifies the machine's boot in which it was written
    writer_epoch: u64  # how many times the log was opened for writing
    segment_id: u64  # the segment that was written last
    offset: u64  # the durable end in that segment's file
    coordinator_watermark: u64  # the caller's watermark at that time
    crc64: u64  # crc64-nvme over the 56 bytes before


class SparseIndexHeader(NamedTuple):
    """The header of a segment's optional `.idx` file; the entries follow it."""

    magic: u32  # 0x41494458, "AIDX"
    version: u16  # 1
    reserved: u16  # 0
    segment_index: u32  # the number of the segment it belongs to
    stride_bytes: u32  # approximate distance between entries, in bytes
    entry_count: u64
    crc64: u64  # crc64-nvme over the entries


class SparseIndexEntry(NamedTuple):
    """An entry of a segment's `.idx` file, for one of the segment's records.

    `timestamp_before` is the largest timestamp of the records before that record.
    """

    offset: u64  # file offset in the segment
    timestamp_before: u64  # the largest timestamp before that offset, ns


SPARSE_INDEX_HEADER = Layout(SparseIndexHeader, order="<", size=32)
SPARSE_INDEX_ENTRY = Layout(SparseIndexEntry, order="<", size=16)
SPARSE_INDEX_MAGIC = 0x41494458
SPARSE_INDEX_VERSION = 1

SEGMENT_HEADER = Layout(SegmentHeader, order="<", size=64)
SEGMENT_FOOTER = Layout(SegmentFooter, order="<", size=96)
SEALED_POINTER = Layout(SealedPointer, order="<", size=40)
DURABLE_END = Layout(DurableEnd, order="<", size=64)

SEGMENT_MAGIC = 0x414F4632
SEGMENT_VERSION = 2
FOOTER_MAGIC = 0x464F4F54
FOOTER_VERSION = 2
POINTER_MAGIC = 0x43505332
POINTER_VERSION = 1
DURABLE_END_MAGIC = 0x41454E44
DURABLE_END_VERSION = 1

RECORDS_START = SEGMENT_HEADER.size
FOOTER_BYTES = SEGMENT_FOOTER.size


def record_bytes(payload_bytes: int) -> int:
    """Returns the size in bytes of a record in a segment, including its header and padding."""
    return -(-(AOF_RECORD.size + payload_bytes) // AOF_ALIGNMENT) * AOF_ALIGNMENT


def records_end_max(segment_bytes: int) -> int:
    """Returns the offset that no record may extend beyond in a segment file of that length."""
    return segment_bytes - FOOTER_BYTES


def next_base_offset(base_offset: int, durable_bytes: int) -> int:
    """Returns the base offset of the segment that follows the given one.

    The given segment begins at `base_offset` in the log, and its records end at file offset
    `durable_bytes`.
    """
    return base_offset + durable_bytes + FOOTER_BYTES
