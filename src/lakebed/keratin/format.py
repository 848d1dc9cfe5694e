"""The bytes of a Keratin partition. Big-endian; every checksum is a crc32c.

    <base>.log   := LOG_HEADER record* zero*           zeros only while it is still written
    record       := KERATIN_RECORD headers payload KERATIN_TRAILER, see `kernels.format`
    <base>.idx   := INDEX_HEADER INDEX_ENTRY*          derived: rebuilt from the log at need
    <base>.tidx  := INDEX_HEADER TIME_ENTRY*           derived, too
    manifest.bin := MANIFEST_HEADER MANIFEST MANIFEST_SEGMENT* [start_offset u64]
    durable_end  := DURABLE_END
    <base>.producers := PRODUCERS_HEADER PRODUCER_RUN*
    checkpoint   := CHECKPOINT_HEADER INDEX_ENTRY* TIME_ENTRY* PRODUCER_RUN*
    commit.bin   := COMMIT_HEADER application batch*

The headers block of a record is laid out in `headers`.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Annotated, NamedTuple

from lakebed.base.layout import Layout, Raw, u16, u32, u64
from lakebed.kernels.format import (
    KERATIN_MAGIC,
    KERATIN_RECORD,
    KERATIN_TRAILER,
    KERATIN_VERSION,
    KeratinRecordHeader,
)

__all__ = [
    "KERATIN_MAGIC",
    "KERATIN_RECORD",
    "KERATIN_TRAILER",
    "KERATIN_VERSION",
    "KeratinRecordHeader",
]


class RecordFlags(IntFlag):
    """Of a record; bits that are not named here are kept and shown."""

    TOMBSTONE = 1  # the key was deleted
    CONTROL = 2  # not a message: readers of messages do not see it
    BATCH = 4  # the payload is one record batch, and `offset` that of its first message
    SCHEDULED = 8  # it has the header `lakebed-not-before-ms`


class ManifestHeader(NamedTuple):
    """Starts `manifest.bin`."""

    magic: Annotated[bytes, Raw(8)]  # "KERATIN", zero
    version: u16  # 1
    flags: u16  # bit 0: the start offset follows the segments
    header_length: u32  # 20
    crc32c: u32  # over everything after this field


class Manifest(NamedTuple):
    """What a partition is: replaced as a whole, never changed in place."""

    created_ms: u64  # since 1970, of the partition
    segment_bytes_max: u64
    index_stride_bytes: u32
    open_segments_max: u16
    reserved: u16  # 0
    active_base_offset: u64
    next_offset: u64  # of the next message, when this was written
    segment_count: u32  # sealed segments listed after this


class ManifestSegment(NamedTuple):
    """One sealed segment, in the manifest."""

    base_offset: u64
    last_offset: u64  # of its last message
    log_bytes: u64  # the size of its `.log`
    index_bytes: u64  # the size of its `.idx`


class StartOffset(NamedTuple):
    """Ends a manifest whose flags say so: messages before it were removed."""

    start_offset: u64


class LogHeader(NamedTuple):
    """Starts a `.log`."""

    magic: Annotated[bytes, Raw(8)]  # "KLOG", zeros
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 68
    base_offset: u64  # as in the file's name
    created_ms: u64  # since 1970
    reserved: Annotated[bytes, Raw(32)]  # zeros
    crc32c: u32  # over everything before this field


class IndexHeader(NamedTuple):
    """Starts an `.idx` or a `.tidx`."""

    magic: Annotated[bytes, Raw(8)]  # "KIDX" or "KTIX", zeros
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 72
    base_offset: u64  # as in the file's name
    created_ms: u64  # since 1970, as in the log's header
    entry_length: u16  # 16
    reserved: u16  # 0
    reserved_more: Annotated[bytes, Raw(32)]  # zeros
    crc32c: u32  # over everything before this field


class IndexEntry(NamedTuple):
    """Where one record begins."""

    relative_offset: u32  # its offset less the segment's base
    reserved: u32  # 0
    position: u64  # of the record's magic, in the `.log`


class TimeEntry(NamedTuple):
    """How late it was when one record had been written."""

    timestamp_ms: u64  # the largest of all records up to and with this one
    relative_offset: u32  # its offset less the segment's base
    reserved: u32  # 0


class DurableEnd(NamedTuple):
    """The file `durable_end`: how far readers in other processes may read.

    Written after each sync and not synced itself. With another boot id it is only a lower bound.
    """

    magic: Annotated[bytes, Raw(8)]  # "KDUREND", zero
    version: u16  # 1
    flags: u16  # 0
    boot_id: Annotated[bytes, Raw(16)]  # of the machine's boot that wrote it
    writer_epoch: u64  # counts the openings of the partition
    base_offset: u64  # of the segment that was written last
    position: u64  # the durable end in that segment's file
    next_offset: u64  # the high watermark: after the last durable message
    crc32c: u32  # over everything before this field


class ProducersHeader(NamedTuple):
    """Starts a `.producers`: what producers had written before `base_offset`."""

    magic: Annotated[bytes, Raw(8)]  # "KPROD", zeros
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 32
    base_offset: u64  # as in the file's name
    run_count: u32
    crc32c: u32  # over the runs, then over everything before this field


class ProducerRun(NamedTuple):
    """Messages of one producer that follow one another in both numbers."""

    producer_id: u64
    epoch: u16
    reserved: u16  # 0
    first_sequence: u32
    message_count: u64
    base_offset: u64  # of the first
    timestamp_ms: u64  # when the last was written, whatever its own timestamp


class CheckpointHeader(NamedTuple):
    """Starts `checkpoint`: what is known of the active segment's records before `position`."""

    magic: Annotated[bytes, Raw(8)]  # "KCHECKP", zero
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 88
    base_offset: u64  # of the segment
    created_ms: u64  # since 1970, as in the log's header
    position: u64  # after the last record that counts, durable
    last_position: u64  # of that record
    next_offset: u64  # after its last message
    timestamp_ms_max: u64  # of all records before `position`
    indexed_end: u64  # after the last record with an index entry
    entry_count: u32  # of each index
    run_count: u32
    reserved: u32  # 0
    crc32c: u32  # over everything after the header, then over everything before this field


class CommitHeader(NamedTuple):
    """Starts `commit.bin`: batches that were handed over, and may not all be in the log yet."""

    magic: Annotated[bytes, Raw(8)]  # "KCOMMIT", zero
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 72
    producer_id: u64  # of all its batches, and of nothing else; their epoch is 0
    application_version: u64  # what the application counts
    created_ms: u64  # since 1970
    application_bytes: u32  # of its name, UTF-8, which follows
    batch_count: u32
    message_count: u64
    batches_bytes: u64
    body_crc32c: u32  # over everything after this header
    crc32c: u32  # over everything before this field


MANIFEST_HEADER = Layout(ManifestHeader, order=">", size=20)
MANIFEST = Layout(Manifest, order=">", size=44)
MANIFEST_SEGMENT = Layout(ManifestSegment, order=">", size=32)
START_OFFSET = Layout(StartOffset, order=">", size=8)
LOG_HEADER = Layout(LogHeader, order=">", size=68)
INDEX_HEADER = Layout(IndexHeader, order=">", size=72)
INDEX_ENTRY = Layout(IndexEntry, order=">", size=16)
TIME_ENTRY = Layout(TimeEntry, order=">", size=16)
DURABLE_END = Layout(DurableEnd, order=">", size=64)
PRODUCERS_HEADER = Layout(ProducersHeader, order=">", size=32)
PRODUCER_RUN = Layout(ProducerRun, order=">", size=40)
CHECKPOINT_HEADER = Layout(CheckpointHeader, order=">", size=88)
COMMIT_HEADER = Layout(CommitHeader, order=">", size=72)

MANIFEST_MAGIC = b"KERATIN\0"
LOG_MAGIC = b"KLOG\0\0\0\0"
INDEX_MAGIC = b"KIDX\0\0\0\0"
TIME_INDEX_MAGIC = b"KTIX\0\0\0\0"
DURABLE_END_MAGIC = b"KDUREND\0"
PRODUCERS_MAGIC = b"KPROD\0\0\0"
CHECKPOINT_MAGIC = b"KCHECKP\0"
COMMIT_MAGIC = b"KCOMMIT\0"
VERSION = 1  # of all of these

HAS_START_OFFSET = 1  # in a manifest's flags
RECORDS_START = LOG_HEADER.size  # of a log that is written here; see `LogBytes.records_start`
HEADER_BYTES_MAX = 4096  # of a file's header that has more fields than are known
RECORD_OVERHEAD = KERATIN_RECORD.size + KERATIN_TRAILER.size
RELATIVE_OFFSET_MAX = (1 << 32) - 1
OFFSET_MAX = (1 << 63) - 1  # what clients of the wire can count to


def record_bytes(headers_bytes: int, payload_bytes: int) -> int:
    """What a record takes in a log."""
    return RECORD_OVERHEAD + headers_bytes + payload_bytes
