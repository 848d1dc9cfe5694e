"""The file formats of a Keratin partition. Numbers are big-endian; every checksum is a crc32c.

    <base>.log   := LOG_HEADER record* zero*           zeros only in the active segment
    record       := KERATIN_RECORD headers payload KERATIN_TRAILER, see `kernels.format`
    <base>.idx   := INDEX_HEADER INDEX_ENTRY*          derived: rebuilt from the log when needed
    <base>.tidx  := INDEX_HEADER TIME_ENTRY*           derived as well
    manifest.bin := MANIFEST_HEADER MANIFEST MANIFEST_SEGMENT* [start_offset u64]
    durable_end  := DURABLE_END
    <base>.producers := PRODUCERS_HEADER PRODUCER_RUN*
    checkpoint   := CHECKPOINT_HEADER INDEX_ENTRY* TIME_ENTRY* PRODUCER_RUN*
    commit.bin   := COMMIT_HEADER application batch*

The module `headers` describes the headers block of a record.
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
    """The flags of a record. Unknown bits are preserved and passed to readers."""

    TOMBSTONE = 1  # the key was deleted
    CONTROL = 2  # not a message: hidden from readers of messages
    BATCH = 4  # the payload is one record batch, and `offset` is that of its first message
    SCHEDULED = 8  # the message has the header `lakebed-not-before-ms`


class ManifestHeader(NamedTuple):
    """The header of `manifest.bin`."""

    magic: Annotated[bytes, Raw(8)]  # "KERATIN", zero
    version: u16  # 1
    flags: u16  # bit 0: the start offset follows the segments
    header_length: u32  # 20
    crc32c: u32  # over everything after this field


class Manifest(NamedTuple):
    """The fields of `manifest.bin` that describe the partition.

    The file is replaced as a whole, never changed in place.
    """

    created_ms: u64  # when the partition was created, since 1970
    segment_bytes_max: u64
    index_stride_bytes: u32
    open_segments_max: u16
    reserved: u16  # 0
    active_base_offset: u64
    next_offset: u64  # the offset after the last durable message, when this was written
    segment_count: u32  # the number of sealed segments that follow


class ManifestSegment(NamedTuple):
    """The entry of one sealed segment in `manifest.bin`."""

    base_offset: u64
    last_offset: u64  # the last of its offsets, even if there is no message left at it
    log_bytes: u64  # the size of its `.log`
    index_bytes: u64  # the size of its `.idx`


class StartOffset(NamedTuple):
    """The last field of `manifest.bin`, present if bit 0 of the flags is set.

    Messages before this offset were removed.
    """

    start_offset: u64


class LogHeader(NamedTuple):
    """The header of a `.log` file."""

    magic: Annotated[bytes, Raw(8)]  # "KLOG", zeros
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 68
    base_offset: u64  # as in the file's name
    created_ms: u64  # since 1970
    reserved: Annotated[bytes, Raw(32)]  # zeros
    crc32c: u32  # over everything before this field


class IndexHeader(NamedTuple):
    """The header of an `.idx` or a `.tidx` file."""

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
    """An entry of an `.idx` file: the position of one record in the `.log` file."""

    relative_offset: u32  # the record's offset minus the segment's base offset
    reserved: u32  # 0
    position: u64  # of the record's magic, in the `.log`


class TimeEntry(NamedTuple):
    """An entry of a `.tidx` file: the largest timestamp in the segment up to one record.

    The last entry of a sealed segment has the last offset of the segment, and so the largest
    timestamp of the segment.
    """

    timestamp_ms: u64  # the largest of all records up to and including this one
    relative_offset: u32  # the record's offset minus the segment's base offset
    reserved: u32  # 0


class DurableEnd(NamedTuple):
    """The file `durable_end`: how far readers in other processes may read.

    It is written after each sync of the log, and is itself synced only when the partition is opened
    and closed. If its boot id is not the current one, it is only a lower bound.
    """

    magic: Annotated[bytes, Raw(8)]  # "KDUREND", zero
    version: u16  # 1
    flags: u16  # 0
    boot_id: Annotated[bytes, Raw(16)]  # the machine's boot id when this was written
    writer_epoch: u64  # how many times the partition was opened for writing
    base_offset: u64  # of the active segment
    position: u64  # the durable end in that segment's file
    next_offset: u64  # the high watermark: the offset after the last durable message
    crc32c: u32  # over everything before this field


class ProducersHeader(NamedTuple):
    """The header of a `.producers` file, which holds the producers' runs before `base_offset`."""

    magic: Annotated[bytes, Raw(8)]  # "KPROD", zeros
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 32
    base_offset: u64  # as in the file's name
    run_count: u32
    crc32c: u32  # over the runs, then over everything before this field


class ProducerRun(NamedTuple):
    """A run: messages of one producer with consecutive sequences and consecutive offsets."""

    producer_id: u64
    epoch: u16
    reserved: u16  # 0
    first_sequence: u32
    message_count: u64
    base_offset: u64  # the offset of the first message
    timestamp_ms: u64  # when the last message was written, not the message's own timestamp


class CheckpointHeader(NamedTuple):
    """The header of `checkpoint`, which covers the active segment's records before `position`."""

    magic: Annotated[bytes, Raw(8)]  # "KCHECKP", zero
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 88
    base_offset: u64  # of the segment
    created_ms: u64  # since 1970, as in the log's header
    position: u64  # the end of the last record covered; everything before it is durable
    last_position: u64  # the start of that record
    next_offset: u64  # the offset after that record's last message
    timestamp_ms_max: u64  # of all records before `position`
    indexed_end: u64  # the end of the last record with an index entry
    entry_count: u32  # of each index
    run_count: u32
    reserved: u32  # 0
    crc32c: u32  # over everything after the header, then over everything before this field


class CommitHeader(NamedTuple):
    """The header of `commit.bin`, which holds the batches of a commit until all are in the log."""

    magic: Annotated[bytes, Raw(8)]  # "KCOMMIT", zero
    version: u16  # 1
    flags: u16  # 0
    header_length: u32  # 72
    producer_id: u64  # the producer of all its batches and of no others; their epoch is 0
    application_version: u64  # chosen by the application, rising with each commit
    created_ms: u64  # since 1970
    application_bytes: u32  # the length of the application's name, UTF-8, which follows
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
RECORDS_START = LOG_HEADER.size  # in logs of this version; see `LogBytes.records_start`
HEADER_BYTES_MAX = 4096  # of a file header that has additional, unknown fields
RECORD_OVERHEAD = KERATIN_RECORD.size + KERATIN_TRAILER.size
RELATIVE_OFFSET_MAX = (1 << 32) - 1
OFFSET_MAX = (1 << 63) - 1  # the largest signed 64-bit integer, as in Kafka's protocol


def record_bytes(headers_bytes: int, payload_bytes: int) -> int:
    """Returns the size in a log of a record whose headers and payload have these sizes."""
    return RECORD_OVERHEAD + headers_bytes + payload_bytes
