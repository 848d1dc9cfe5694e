"""The record layouts that the compiled loops read and write; the engines re-export them.

Offsets and sizes are computed here, once: the compiled kernels are handed them at build time, as a
C header that `lakebed.kernels.build` writes, and the Python reference uses the layouts themselves.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from lakebed.base.layout import Layout, Raw, i16, i32, i64, u8, u16, u32, u64


class AofRecordHeader(NamedTuple):
    """Precedes every record of an AOF2 runtime segment; the payload follows."""

    length: u32  # payload bytes, never 0: an all-zero header is the end
    checksum: u32  # crc64-nvme of the payload, upper half XOR lower half
    timestamp: u64  # ns since 1970
    ext_id: u64  # the writer's own number, 0 if it has none


class KeratinRecordHeader(NamedTuple):
    """Precedes every record of a Keratin log; headers, payload and a crc32c follow."""

    magic: u16  # 0x4B52, "KR"; 0 here is the end of a log that is still written
    version: u16  # 1
    flags: u16  # bit 0 tombstone, bit 1 control record, bit 2 batch
    reserved: u16  # 0
    header_length: u32  # bytes of the headers block
    payload_length: u32  # bytes of the payload
    timestamp_ms: u64  # ms since 1970
    offset: u64  # the message's number in its partition


class KeratinRecordTrailer(NamedTuple):
    """Ends every record of a Keratin log."""

    crc32c: u32  # over version … payload: neither the magic nor this field


class BlockStart(NamedTuple):
    """Starts a headers block that is not empty."""

    version: u8  # 1
    flags: u8  # bit 0 a key, bit 1 a producer


class KeyLength(NamedTuple):
    """Precedes the key."""

    length: u32


class Producer(NamedTuple):
    """Identifies a message's producer and its sequence number in this partition."""

    producer_id: u64
    epoch: u16
    sequence: u32


class HeaderCount(NamedTuple):
    """How many headers follow."""

    header_count: u16


class NameLength(NamedTuple):
    """Precedes a header's name."""

    length: u16


class ValueLength(NamedTuple):
    """Precedes a header's value."""

    length: u32  # all ones: there is no value


class RecordBatchHeader(NamedTuple):
    """Starts a record batch (version 2) of the Kafka protocol; the records section follows."""

    first_offset: i64  # of its first message; the one field that the log rewrites
    length: i32  # of everything after this field
    leader_epoch: i32  # -1 if not set; not covered by the checksum
    magic: u8  # 2
    crc32c: u32  # over attributes … the end
    attributes: (
        i16  # bits 0-2 compression, 3 log-append time, 4 transactional, 5 control, 6 horizon
    )
    last_offset_delta: i32  # of the last message; count - 1 as clients send it
    first_timestamp_ms: i64  # what the messages' own are counted from
    max_timestamp_ms: i64  # with bit 3 that of every message
    producer_id: i64  # -1 if there is none
    producer_epoch: i16  # -1 if there is none
    base_sequence: i32  # of its first message, -1 if there is none
    message_count: i32


class XerialHeader(NamedTuple):
    """Starts snappy data as Java clients frame it; blocks follow."""

    magic: Annotated[bytes, Raw(8)]  # 0x82, "SNAPPY", zero
    version: i32  # 1
    compatible_version: i32  # 1, the oldest that can read it


class XerialBlock(NamedTuple):
    """Precedes each block of such data."""

    length: u32  # of the snappy data that follows


AOF_RECORD = Layout(AofRecordHeader, order="<", size=24)
AOF_ALIGNMENT = 8  # records start on such boundaries; the padding between them is zero

KERATIN_RECORD = Layout(KeratinRecordHeader, order=">", size=32)
KERATIN_TRAILER = Layout(KeratinRecordTrailer, order=">", size=4)
KERATIN_MAGIC = 0x4B52
KERATIN_VERSION = 1
KERATIN_BATCH = 4  # the flag of a record whose payload is a record batch
KERATIN_TOMBSTONE = 1  # the flag of a record whose value is null, whatever its payload

KERATIN_BLOCK = Layout(BlockStart, order=">", size=2)
KERATIN_KEY = Layout(KeyLength, order=">", size=4)
KERATIN_PRODUCER = Layout(Producer, order=">", size=14)
KERATIN_HEADERS = Layout(HeaderCount, order=">", size=2)
KERATIN_NAME = Layout(NameLength, order=">", size=2)
KERATIN_VALUE = Layout(ValueLength, order=">", size=4)
KERATIN_BLOCK_VERSION = 1
KERATIN_HAS_KEY = 1
KERATIN_HAS_PRODUCER = 2
KERATIN_NULL_LENGTH = (1 << 32) - 1
PRODUCER_SEQUENCE_COUNT = 1 << 31  # a producer's sequences start over there, as Kafka's do
PRODUCER_RUN_COUNT_MAX = (
    PRODUCER_SEQUENCE_COUNT // 2
)  # a longer run could not be distinguished from others

RECORD_BATCH = Layout(RecordBatchHeader, order=">", size=61)
RECORD_BATCH_MAGIC = 2
BATCH_HEADER_BYTES_MIN = 2  # the lengths of an empty name and of a value that is empty or null
BATCH_RECORD_BYTES_MIN = 7  # its length, attributes, two deltas, two null lengths, no headers
MURMUR2_MULTIPLIER = 0x5BD1E995  # of the hash by which keys find their partitions
MURMUR2_SEED = 0x9747B28C

XERIAL_HEADER = Layout(XerialHeader, order=">", size=16)
XERIAL_BLOCK = Layout(XerialBlock, order=">", size=4)
XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_VERSION = 1
