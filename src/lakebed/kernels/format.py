"""The record layouts that the compiled loops read and write; the engines re-export them.

Offsets and sizes are computed here, once: the compiled kernels are handed them at build time, as a
C header that `lakebed.kernels.build` writes, and the Python reference uses the layouts themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.layout import Layout, u16, u32, u64


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


AOF_RECORD = Layout(AofRecordHeader, order="<", size=24)
AOF_ALIGNMENT = 8  # records start on such boundaries; the padding between them is zero

KERATIN_RECORD = Layout(KeratinRecordHeader, order=">", size=32)
KERATIN_TRAILER = Layout(KeratinRecordTrailer, order=">", size=4)
KERATIN_MAGIC = 0x4B52
KERATIN_VERSION = 1
