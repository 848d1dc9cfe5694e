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
    """The start of a chunk.

    No checksum covers it: its fields are compared with the file and the neighbouring chunks.
    """

    magic: u64  # 0x414F46324D4C4F47, "AOF2MLOG"
    version: u32  # 1
    header_len: u32  # 64
    chunk_index: u64  # as in the file's name
    base_record: u64  # records in the manifest log before this chunk
    tail_offset: u64  # file offset of the first unwritten byte
    committed_len: u64  # file offset up to which the chunk is synced and replayed
    chunk_crc64: u64  # crc64-nvme over [header_len, committed_len)
    flags: u64  # bit 0 sealed, bit 1 uploaded to Tier 2, bit 2 a bundle


class RecordHeader(NamedTuple):
    """Precedes every record of a chunk."""

    record_type: u16
    flags: u16  # 0; other values are kept, counted and shown
    payload_len: u32  # without the padding; not 0
    segment_id: u64  # all ones if the record is about the manifest log itself
    logical_offset: u64  # its meaning depends on the record type
    timestamp_ms: u64  # since 1970; never decreases
    payload_crc64: u64  # crc64-nvme of the payload


class SegmentOpened(NamedTuple):
    """0 `SegmentOpened`: the segment got its first record."""

    base_offset: u64  # the segment's offset in the log
    epoch: u32  # the writer's epoch


class SealSegment(NamedTuple):
    """1 `SealSegment`: fields of the segment's footer."""

    durable_bytes: u64
    segment_crc64: u64
    ext_id: u64
    coordinator_watermark: u64
    flush_failure: u8


class ShortSeal(NamedTuple):
    """1 `SealSegment`, the old form of 16 bytes, which is read but not written."""

    durable_bytes: u64
    segment_crc64: u64


class CompressionStarted(NamedTuple):
    """2 `CompressionStarted`: compression into a warm file began."""

    job_id: u32


class CompressionDone(NamedTuple):
    """3 `CompressionDone`: the warm file is durable."""

    compressed_bytes: u64
    dictionary_id: u32  # 0: none


class CompressionFailed(NamedTuple):
    """4 `CompressionFailed`: compression ended without a warm file."""

    reason_code: u32


class KeyFields(NamedTuple):
    """5 `UploadStarted`, 8 `Tier2DeleteQueued`, 9 `Tier2Deleted`; the key follows."""

    key_len: u16


class UploadDoneFields(NamedTuple):
    """6 `UploadDone`; the key and the ETag follow."""

    key_len: u16
    etag_len: u16


class UploadFailedFields(NamedTuple):
    """7 `UploadFailed`; the key follows."""

    key_len: u16
    reason_code: u32


class HydrationStarted(NamedTuple):
    """10 `HydrationStarted`: restoring the segment to Tier 0 began."""

    source_tier: u64  # 1 or 2


class HydrationDone(NamedTuple):
    """11 `HydrationDone`: the segment is in Tier 0 again."""

    resident_bytes: u64


class HydrationFailed(NamedTuple):
    """12 `HydrationFailed`: the segment was not restored."""

    reason_code: u32


class LocalEvicted(NamedTuple):
    """13 `LocalEvicted`: the segment left Tier 0, or left Tier 1 if it was not in Tier 0."""

    reclaimed_bytes: u64


class SnapshotMarker(NamedTuple):
    """14 `SnapshotMarker`: all records before that position are in the snapshot."""

    chunk_index: u64
    chunk_offset: u64
    snapshot_id: u64


class CustomFields(NamedTuple):
    """15 `CustomEvent`; the blob follows."""

    schema_id: u32
    blob_len: u16


class SnapshotHeader(NamedTuple):
    """The start of a snapshot."""

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
    """A string in the heap of a snapshot."""

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
    """The number of pending deletes that follow, of segments without an entry."""

    delete_count: u64


class SnapshotTotals(NamedTuple):
    """Totals over all records in the snapshot, including those of removed segments."""

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
"""The segment id of records about the manifest log's own chunks."""


def record_bytes(payload_bytes: int) -> int:
    """Returns the size of a record in a chunk, including padding."""
    return -(-(RECORD_HEADER.size + payload_bytes) // AOF_ALIGNMENT) * AOF_ALIGNMENT
