"""The results of the kernels, identical for the compiled loops and the reference.

Columns are flat, read-only memoryviews of natural widths (`Q` u64, `I` u32, `H` u16, `q` i64, `i`
i32), one item per record; `numpy.asarray` and `pyarrow.py_buffer` take them without a copy.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

Column = memoryview


class Stop(IntEnum):
    """Why a scan ended. The engine decides what that means for the file: end, torn or corrupt."""

    END = 0  # the data is used up, or zeros stand where the next record would begin
    COUNT = 1  # as many records as requested; what follows was not read
    CUT = 2  # the buffer ends inside a record (or its padding)
    BAD_HEADER = 3  # not a record: a length of 0 with other bytes set; a wrong magic or version
    BAD_CHECKSUM = 4  # a whole record whose checksum does not match


class BatchStop(IntEnum):
    """How the decoding of a record batch ended."""

    WHOLE = 0  # the expected records, and not a byte more
    CUT = 1  # the data ends before the last of them does
    BAD_NUMBER = 2  # a number of variable length that is longer than its width allows
    BAD_LENGTH = 3  # a length or a count that its record has no room for, or does not fill
    BAD_OFFSET = 4  # an offset that does not follow the one before
    BAD_TIMESTAMP = 5  # one that exceeds 64 bits
    LEFT_OVER = 6  # bytes after the last record


class BlockStop(IntEnum):
    """How the reading of headers blocks ended."""

    WHOLE = 0  # all of them were read
    CUT = 1  # a block ends before its contents do
    BAD_VERSION = 2  # a block of a later version
    LEFT_OVER = 3  # bytes after a block's last header
    TOO_LONG = 4  # a key or a value that has more bytes than a column's length can say


class AofEncoded(NamedTuple):
    """AOF2 records, ready to be written at an 8-byte boundary."""

    data: bytes
    offsets: Column  # u64, where each record begins in `data`
    crc64: int  # the running crc64-nvme, moved over `data`


class AofScan(NamedTuple):
    """The good AOF2 records of a buffer, and where and why the scan stopped."""

    offsets: Column  # u64, where each record begins in the buffer
    lengths: Column  # u32, payload bytes
    timestamps: Column  # u64
    ext_ids: Column  # u64
    end: int  # after the last good record
    stop: Stop


class KeratinEncoded(NamedTuple):
    """Keratin records, ready to be written."""

    data: bytes
    positions: Column  # u64, where each record begins in `data`


class KeratinScan(NamedTuple):
    """The good Keratin records of a buffer, and where and why the scan stopped."""

    positions: Column  # u64, where each record begins in the buffer
    offsets: Column  # u64, the message's number in its partition
    timestamps_ms: Column  # u64
    flags: Column  # u16
    header_lengths: Column  # u32
    payload_lengths: Column  # u32
    end: int  # after the last good record
    stop: Stop


class BatchEncoded(NamedTuple):
    """The records section of a record batch, not compressed."""

    data: bytes
    message_count: int  # how many were taken


class BatchRecords(NamedTuple):
    """The messages of a records section, up to the first error.

    Positions refer to the buffer. A length of -1 is a null.
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
    end: int  # after the last good record
    stop: BatchStop


class KeratinFields(NamedTuple):
    """The parts of plain Keratin records, up to the first invalid headers block.

    Positions refer to the buffer. A length of -1 is a null. The header columns have one item per
    header, for all messages one after another.
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
    """Runs of messages of one producer that are consecutive in sequence and in offset."""

    producer_ids: Column  # u64
    message_counts: Column  # u64
    base_offsets: Column  # u64, of the first message
    first_sequences: Column  # u32
    epochs: Column  # u16


class HeaderPlaces(NamedTuple):
    """The headers of messages of a record batch, up to the first invalid section.

    One item per header, for all messages one after another. A length of -1 is a null.
    """

    name_positions: Column  # u64
    name_lengths: Column  # i32, never -1
    header_value_positions: Column  # u64
    header_value_lengths: Column  # i32
    message_count: int  # messages whose headers these are
    stop: BatchStop


class Gathered(NamedTuple):
    """Slices of a buffer copied one after another: the buffers of an Arrow binary column."""

    data: bytes
    offsets: Column  # i32, where each slice begins in `data`, and where the last one ends
    validity: bytes | None  # one bit per slice, lowest first, 0 for a null; None: no nulls
    null_count: int
