"""The record layouts that the compiled functions read and write. The engines re-export them.

Offsets and sizes are computed only here. The compiled kernels get them at build time from a C
header that `lakebed.kernels.build` writes, and the Python reference uses the layouts directly.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from lakebed.base.layout import Layout, Raw, i16, i32, i64, u8, u16, u32, u64


class AofRecordHeader(NamedTuple):
    """The header of every record in an AOF2 segment; the payload follows."""

    length: u32  # payload bytes, never 0: an all-zero header is the end
    checksum: u32  # crc64-nvme of the payload, upper half XOR lower half
    timestamp: u64  # ns since 1970
    ext_id: u64  # the writer's own number, 0 if it has none


class KeratinRecordHeader(NamedTuple):
    """The header of every record in a Keratin log; headers block, payload and trailer follow."""

    magic: u16  # 0x4B52, "KR"; 0 after the last record of a segment that is still written
    version: u16  # 1
    flags: u16  # bit 0 tombstone, bit 1 control record, bit 2 batch
    reserved: u16  # 0
    header_length: u32  # bytes of the headers block
    payload_length: u32  # bytes of the payload
    timestamp_ms: u64  # ms since 1970
    offset: u64  # the message's number in its partition


class KeratinRecordTrailer(NamedTuple):
    """The end of every record in a Keratin log."""

    crc32c: u32  # of the bytes from `version` to the end of the payload


class BlockStart(NamedTuple):
    """The first bytes of a headers block that is not empty."""

    version: u8  # 1
    flags: u8  # bit 0 a key, bit 1 a producer


class KeyLength(NamedTuple):
    """The length of the key in a headers block; the key follows."""

    length: u32


class Producer(NamedTuple):
    """The producer of a message, and the sequence number that the producer gave to the message."""

    producer_id: u64
    epoch: u16
    sequence: u32


class HeaderCount(NamedTuple):
    """The number of headers in a headers block; the headers follow."""

    header_count: u16


class NameLength(NamedTuple):
    """The length of the name of a header; the name follows."""

    length: u16


class ValueLength(NamedTuple):
    """The length of the value of a header; the value follows."""

    length: u32  # all ones: there is no value


class RecordBatchHeader(NamedTuple):
    """The header of a record batch (version 2) of the Kafka protocol; the records section
    follows.
    """

    first_offset: i64  # of the first message; the only field that the log changes
    length: i32  # of everything after this field
    leader_epoch: i32  # -1 if not set; not covered by the checksum
    magic: u8  # 2
    crc32c: u32  # of the bytes from `attributes` to the end of the batch
    attributes: (
        i16  # bits 0-2 compression, 3 log-append time, 4 transactional, 5 control, 6 horizon
    )
    last_offset_delta: i32  # of the last message; `message_count` - 1 as clients send it
    first_timestamp_ms: i64  # added to the timestamp delta of each message
    max_timestamp_ms: i64  # with attribute bit 3, the timestamp of every message
    producer_id: i64  # -1 if there is none
    producer_epoch: i16  # -1 if there is none
    base_sequence: i32  # of the first message, -1 if there is none
    message_count: i32


class XerialHeader(NamedTuple):
    """The header of snappy data in the xerial framing of Java clients; blocks follow."""

    magic: Annotated[bytes, Raw(8)]  # 0x82, "SNAPPY", zero
    version: i32  # 1
    compatible_version: i32  # 1, the oldest that can read it


class XerialBlock(NamedTuple):
    """The header of each block in xerial-framed snappy data; the block follows."""

    length: u32  # of the snappy data that follows


AOF_RECORD = Layout(AofRecordHeader, order="<", size=24)
AOF_ALIGNMENT = 8  # records start at multiples of it; the padding between them is zero

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
PRODUCER_SEQUENCE_COUNT = 1 << 31  # sequence numbers wrap around to 0 there, as in Kafka
PRODUCER_RUN_COUNT_MAX = (
    PRODUCER_SEQUENCE_COUNT // 2
)  # a longer run could not be distinguished from others

RECORD_BATCH = Layout(RecordBatchHeader, order=">", size=61)
RECORD_BATCH_MAGIC = 2
BATCH_HEADER_BYTES_MIN = 2  # the lengths of an empty name and of a value that is empty or null
BATCH_RECORD_BYTES_MIN = 7  # its length, attributes, two deltas, two null lengths, no headers
MURMUR2_MULTIPLIER = 0x5BD1E995  # of the hash that assigns keys to partitions
MURMUR2_SEED = 0x9747B28C

XERIAL_HEADER = Layout(XerialHeader, order=">", size=16)
XERIAL_BLOCK = Layout(XerialBlock, order=">", size=4)
XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_VERSION = 1
