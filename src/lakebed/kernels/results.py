"""The result types of the kernels, used by both the compiled functions and the reference.

Columns are flat, read-only memoryviews with one item per record (`Q` u64, `I` u32, `H` u16, `q`
i64, `i` i32). `numpy.asarray` and `pyarrow.py_buffer` accept them without a copy.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

Column = memoryview


class Stop(IntEnum):
    """Why a scan stopped. The engine decides whether the file ends there, is torn, or is
    corrupt.
    """

    END = 0  # the buffer ends, or has zeros in place of the next record
    COUNT = 1  # as many records as requested were found
    CUT = 2  # the buffer ends inside a record (or its padding)
    BAD_HEADER = 3  # not a record: a length of 0 with other bytes set; a wrong magic or version
    BAD_CHECKSUM = 4  # a whole record whose checksum does not match


class BatchStop(IntEnum):
    """Why the decoding of a record batch stopped."""

    WHOLE = 0  # all expected records were decoded, and no bytes are left
    CUT = 1  # the data ends inside a record
    BAD_NUMBER = 2  # a variable-length number is longer than its width allows
    BAD_LENGTH = 3  # a length or count does not match the size of its record
    BAD_OFFSET = 4  # an offset is not larger than the one before
    BAD_TIMESTAMP = 5  # a timestamp exceeds 64 bits
    LEFT_OVER = 6  # there are bytes after the last record


class BlockStop(IntEnum):
    """Why the decoding of headers blocks stopped."""

    WHOLE = 0  # all blocks were decoded
    CUT = 1  # a block ends inside one of its fields
    BAD_VERSION = 2  # a block has a newer version
    LEFT_OVER = 3  # there are bytes after the last header of a block
    TOO_LONG = 4  # a key or value is longer than an i32 allows


class AofEncoded(NamedTuple):
    """Encoded AOF2 records, which must be written at a multiple of 8 bytes."""

    data: bytes
    offsets: Column  # u64, where each record begins in `data`
    crc64: int  # the crc64-nvme of the segment including `data`


class AofScan(NamedTuple):
    """The valid AOF2 records at the start of a buffer, and where and why the scan stopped."""

    offsets: Column  # u64, where each record begins in the buffer
    lengths: Column  # u32, payload bytes
    timestamps: Column  # u64
    ext_ids: Column  # u64
    end: int  # after the last valid record
    stop: Stop


class KeratinEncoded(NamedTuple):
    """Encoded Keratin records."""

    data: bytes
    positions: Column  # u64, where each record begins in `data`


class KeratinScan(NamedTuple):
    """The valid Keratin records at the start of a buffer, and where and why the scan stopped."""

    positions: Column  # u64, where each record begins in the buffer
    offsets: Column  # u64, the message's number in its partition
    timestamps_ms: Column  # u64
    flags: Column  # u16
    header_lengths: Column  # u32
    payload_lengths: Column  # u32
    end: int  # after the last valid record
    stop: Stop


class BatchEncoded(NamedTuple):
    """The encoded, uncompressed records section of a record batch."""

    data: bytes
    message_count: int  # how many messages it contains


class BatchRecords(NamedTuple):
    """The decoded messages of a records section, up to the first error.

    Positions are offsets in the buffer. A length of -1 means a null.
    """

    offsets: Column  # u64
    timestamps_ms: Column  # i64
    key_positions: Column  # u32
    key_lengths: Column  # i32
    value_positions: Column  # u32
    value_lengths: Column  # i32
    header_positions: Column  # u32, of the first header, after their count
    header_lengths: Column  # u32, of all headers
    header_counts: Column  # u32
    end: int  # after the last valid record
    stop: BatchStop


class KeratinFields(NamedTuple):
    """Where the keys, values and headers of Keratin records are, up to the first invalid headers
    block.

    Positions are offsets in the buffer. A length of -1 means a null. The columns of header names
    and values have one item per header, for all messages one after another.
    """

    key_positions: Column  # u64
    key_lengths: Column  # i32
    value_positions: Column  # u64
    value_lengths: Column  # i32
    header_counts: Column  # u32
    name_positions: Column  # u64
    name_lengths: Column  # i32, never -1
    header_value_positions: Column  # u64
    header_value_lengths: Column  # i32
    stop: BlockStop


class KeratinProducers(NamedTuple):
    """Runs of messages, as columns with one item per run.

    A run has messages of one producer with consecutive sequence numbers and offsets.
    """

    producer_ids: Column  # u64
    message_counts: Column  # u64
    base_offsets: Column  # u64, of the first message
    first_sequences: Column  # u32
    epochs: Column  # u16


class HeaderPlaces(NamedTuple):
    """Where the headers of messages in a record batch are, up to the first message whose headers
    are not valid.

    The columns have one item per header, for all messages one after another. A length of -1 means a
    null.
    """

    name_positions: Column  # u64
    name_lengths: Column  # i32, never -1
    header_value_positions: Column  # u64
    header_value_lengths: Column  # i32
    message_count: int  # the number of messages whose headers were decoded
    stop: BatchStop


class Gathered(NamedTuple):
    """Slices copied into one buffer, in the form of the buffers of an Arrow binary column."""

    data: bytes
    offsets: Column  # i32, where each slice begins in `data`, and where the last one ends
    validity: (
        bytes | None
    )  # one bit per slice, lowest first, 0 for a null; None if there are no nulls
    null_count: int
