"""The binary layout of a manifest log: chunks, the records in them, and snapshots. Little-endian.

    chunk    := CHUNK_HEADER record* zero*       the header is rewritten at each commit
    record   := RECORD_HEADER payload zero*      on 8-byte boundaries; no payload is empty
    snapshot := SNAPSHOT_HEADER SNAPSHOT_ENTRY[entry_count] deletes SNAPSHOT_TOTALS heap
    deletes  := count:u64 SPAN[count]            keys of pending deletes, in the heap
    heap     := string*                          in the order of their spans, without gaps

A payload is a fixed part, which depends on the record's type, followed by the strings whose lengths
are in the fixed part.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.layout import Layout, u8, u16, u32, u64
from lakebed.kernels.format import AOF_ALIGNMENT


class ChunkHeader(NamedTuple):
    """The first 64 bytes of a chunk.

    They have no checksum: the fields are compared with the file's name and length, and with the
    chunks before and after.
    """

    magic: u64  # 0x414F46324D4C4F47, "AOF2MLOG"
    version: u32  # 1
    header_len: u32  # 64
    chunk_index: u64  # as in the file's name
    base_record: u64  # records in the manifest log before this chunk
    tail_offset: u64  # file offset of the first unwritten byte
    committed_len: u64  # file offset up to which the chunk is synced and replayed
    chunk_crc64: u64  # crc64-nvme over [header_len, committed_len)
    flags: u64  # bit 0: sealed; bit 1: uploaded to Tier 2; bit 2: a bundle


class RecordHeader(NamedTuple):
    """The header of every record in a chunk; the payload follows it."""

    record_type: u16
    flags: u16  # 0; other values are kept, counted and shown
    payload_len: u32  # without the padding; not 0
    segment_id: u64  # all ones if the record is about the manifest log itself
    logical_offset: u64  # its meaning depends on the record type
    timestamp_ms: u64  # since 1970; never decreases
    payload_crc64: u64  # crc64-nvme of the payload


class SegmentOpened(NamedTuple):
    """Payload of record type 0, `SegmentOpened`: the segment got its first record."""

    base_offset: u64  # the segment's offset in the log
    epoch: u32  # the writer's epoch


class SealSegment(NamedTuple):
    """Payload of record type 1, `SealSegment`: fields of the footer of a sealed segment."""

    durable_bytes: u64
    segment_crc64: u64
    ext_id: u64
    coordinator_watermark: u64
    flush_failure: u8


class ShortSeal(NamedTuple):
    """The old 16-byte payload of record type 1, `SealSegment`, which is only read, not written."""

    durable_bytes: u64
    segment_crc64: u64


class CompressionStarted(NamedTuple):
    """Payload of record type 2, `CompressionStarted`: compression into a warm file began."""

    job_id: u32


class CompressionDone(NamedTuple):
    """Payload of record type 3, `CompressionDone`: the warm file is durable."""

    compressed_bytes: u64
    dictionary_id: u32  # 0: none


class CompressionFailed(NamedTuple):
    """Payload of record type 4, `CompressionFailed`: compression ended without a warm file."""

    reason_code: u32


class KeyFields(NamedTuple):
    """Fixed part of record types 5 `UploadStarted`, 8 `Tier2DeleteQueued` and 9 `Tier2Deleted`.

    The object's key follows it.
    """

    key_len: u16


class UploadDoneFields(NamedTuple):
    """Fixed part of record type 6, `UploadDone`; the object's key and ETag follow it."""

    key_len: u16
    etag_len: u16


class UploadFailedFields(NamedTuple):
    """Fixed part of record type 7, `UploadFailed`; the object's key follows it."""

    key_len: u16
    reason_code: u32


class HydrationStarted(NamedTuple):
    """Payload of record type 10, `HydrationStarted`: restoring the segment to Tier 0 began."""

    source_tier: u64  # 1 or 2


class HydrationDone(NamedTuple):
    """Payload of record type 11, `HydrationDone`: the segment is in Tier 0 again."""

    resident_bytes: u64


class HydrationFailed(NamedTuple):
    """Payload of record type 12, `HydrationFailed`: restoring the segment to Tier 0 failed."""

    reason_code: u32


class LocalEvicted(NamedTuple):
    """Payload of record type 13, `LocalEvicted`: the segment was removed from Tier 0.

    If it was not in Tier 0, it was removed from Tier 1.
    """

    reclaimed_bytes: u64


class SnapshotMarker(NamedTuple):
    """Payload of record type 14, `SnapshotMarker`: a snapshot was taken.

    The snapshot covers all records before the position that `chunk_index` and `chunk_offset` give.
    """

    chunk_index: u64
    chunk_offset: u64
    snapshot_id: u64


class CustomFields(NamedTuple):
    """Fixed part of record type 15, `CustomEvent`; the application's bytes follow it."""

    schema_id: u32
    blob_len: u16


class SnapshotHeader(NamedTuple):
    """The first 64 bytes of a snapshot file."""

    magic: u64  # 0x414F4632534E4150, "AOF2SNAP"
    version: u32  # 3
    header_len: u32  # 64
    snapshot_id: u64  # as in the file's name
    entry_count: u64
    chunk_index: u64  # the chunk of the first record that is not in the snapshot
    chunk_offset: u64  # the byte offset of that record in the chunk
    heap_bytes: u64  # size of the strings at the end
    crc64: u64  # crc64-nvme over the whole file with this field zero


class Span(NamedTuple):
    """Where a string is in the heap, the area for strings at the end of a snapshot."""

    offset: u64  # from the start of the heap
    length: u64


class SnapshotEntry(NamedTuple):
    """The state of one segment in a snapshot; entries are ordered by `segment_id`."""

    segment_id: u64
    base_offset: u64
    durable_bytes: u64
    segment_crc64: u64
    ext_id: u64
    coordinator_watermark: u64
    opened_at_ms: u64
    sealed_at_ms: u64
    changed_at_ms: u64  # time of the last record about the segment
    resident_bytes: u64  # in Tier 0
    compressed_bytes: u64  # size of the warm file
    key_offset: u64  # key of the Tier 2 object, in the heap
    key_len: u64
    etag_offset: u64
    etag_len: u64
    upload_key_offset: u64  # key of the running upload, or of the last one that failed
    upload_key_len: u64
    epoch: u32
    dictionary_id: u32
    job_id: u32  # job of the last compression
    residency: u32  # bit 0 Tier 0, bit 1 Tier 1, bit 2 Tier 2
    pending: u32  # bit 0 compression, 1 upload, 2 hydration, 3 delete of the Tier 2 object
    condition: u32  # bit 0 opened, 1 sealed, 2 flush failure, 3 needs repair
    hydration_source: u32  # tier of the last hydration
    failures: u32  # bit 0 compression, 1 upload, 2 hydration: the last attempt failed
    compression_reason: u32  # reason code of the last failure
    upload_reason: u32
    hydration_reason: u32
    reserved: u32  # 0


class DeleteCount(NamedTuple):
    """The number of objects to delete that belong to no entry; the spans of their keys follow."""

    delete_count: u64


class SnapshotTotals(NamedTuple):
    """Totals over all records that the snapshot covers, including those of removed segments."""

    coordinator_watermark: u64  # the highest watermark
    last_timestamp_ms: u64
    record_count: u64
    marker_chunk_index: u64  # fields of the last `SnapshotMarker`, or zeros
    marker_chunk_offset: u64
    marker_snapshot_id: u64


CHUNK_HEADER = Layout(ChunkHeader, order="<", size=64)
RECORD_HEADER = Layout(RecordHeader, order="<", size=40)

OPENED = Layout(SegmentOpened, order="<", size=12)
SEAL = Layout(SealSegment, order="<", size=33)
SHORT_SEAL = Layout(ShortSeal, order="<", size=16)
COMPRESSION_STARTED = Layout(CompressionStarted, order="<", size=4)
COMPRESSION_DONE = Layout(CompressionDone, order="<", size=12)
COMPRESSION_FAILED = Layout(CompressionFailed, order="<", size=4)
KEY = Layout(KeyFields, order="<", size=2)
UPLOAD_DONE = Layout(UploadDoneFields, order="<", size=4)
UPLOAD_FAILED = Layout(UploadFailedFields, order="<", size=6)
HYDRATION_STARTED = Layout(HydrationStarted, order="<", size=8)
HYDRATION_DONE = Layout(HydrationDone, order="<", size=8)
HYDRATION_FAILED = Layout(HydrationFailed, order="<", size=4)
EVICTED = Layout(LocalEvicted, order="<", size=8)
MARKER = Layout(SnapshotMarker, order="<", size=24)
CUSTOM = Layout(CustomFields, order="<", size=6)

SNAPSHOT_HEADER = Layout(SnapshotHeader, order="<", size=64)
SNAPSHOT_ENTRY = Layout(SnapshotEntry, order="<", size=184)
SPAN = Layout(Span, order="<", size=16)
DELETE_COUNT = Layout(DeleteCount, order="<", size=8)
SNAPSHOT_TOTALS = Layout(SnapshotTotals, order="<", size=48)

CHUNK_MAGIC = 0x414F46324D4C4F47
CHUNK_VERSION = 1
FLAG_SEALED = 1
FLAG_UPLOADED = 2
FLAG_BUNDLE = 4
RECORDS_START = CHUNK_HEADER.size

SNAPSHOT_MAGIC = 0x414F4632534E4150
SNAPSHOT_VERSION = 3

MANIFEST_ITSELF = (1 << 64) - 1
"""The segment id in records that are about no segment, for example about the manifest log's own
chunks."""


def record_bytes(payload_bytes: int) -> int:
    """Returns the size in bytes of a record in a chunk, including its header and padding."""
    return -(-(RECORD_HEADER.size + payload_bytes) // AOF_ALIGNMENT) * AOF_ALIGNMENT
