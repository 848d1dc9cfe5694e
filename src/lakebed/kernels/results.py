"""What the kernels give back, the same from the compiled loops and from the reference.

Columns are flat, read-only memoryviews of natural widths (`Q` u64, `I` u32, `H` u16), one item a
record: `numpy.asarray` and `pyarrow.py_buffer` take them without a copy.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

Column = memoryview


class Stop(IntEnum):
    """Why a scan ended. What that means for the file (end, torn, corrupt) the engine decides."""

    END = 0  # the data is used up, or zeros stand where the next record would begin
    COUNT = 1  # as many records as were asked for; what follows was not looked at
    CUT = 2  # the buffer ends inside a record (or its padding)
    BAD_HEADER = 3  # not a record: a length of 0 with other bytes set; a wrong magic or version
    BAD_CHECKSUM = 4  # a whole record whose checksum does not match


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
    end: int  # behind the last good record
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
    end: int  # behind the last good record
    stop: Stop
