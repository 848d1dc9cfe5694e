"""The interchange layout of a segment: for export, import and compacted segments. Little-endian.

    segment := header record* footer             nothing preallocated: the footer ends the file
    record  := INTERCHANGE_RECORD payload zero*  on 8-byte boundaries

Each record stores its logical offset. Compaction can therefore leave records out, and the ids of
the other records stay valid: the offset in an id is `logical_offset` minus the segment's base
offset, which is in the file's name. The footer has no checksum of its own: it is recognised when
its `durable_bytes` equals its own offset. No checksum covers its flags and its ext_id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntFlag
from typing import Annotated, NamedTuple

from lakebed.aof.format import AOF_ALIGNMENT, record_bytes
from lakebed.base.errors import InputError, UnknownVersion
from lakebed.base.layout import Buffer, Layout, PadAfter, Raw, u32, u64
from lakebed.kernels import crc64nvme, fold64


class InterchangeHeader(NamedTuple):
    """The header at the start of an interchange segment."""

    magic: u64  # 0x414F46325345474D, "AOF2SEGM"
    version: Annotated[u32, PadAfter(4)]  # 2
    stream_id: u64  # the log's stream id
    segment_id: u64  # as in the file's name
    creation_ts_ms: u64  # ms since 1970; the file's name has it in ns
    reserved: Annotated[bytes, Raw(16)]  # 0


class InterchangeRecordHeader(NamedTuple):
    """The header of every record in an interchange segment; the payload follows it."""

    payload_len: u32  # payload bytes, never 0
    record_crc32: u32  # crc64-nvme of the payload, upper half XOR lower half
    logical_offset: u64  # the segment's base offset + the record's offset in the runtime file
    append_ts_ms: u64  # ms since 1970
    flags: Annotated[u32, PadAfter(4)]  # bit 0 snapshot boundary, bit 1 control frame


class InterchangeFooter(NamedTuple):
    """The last 40 bytes of an interchange segment."""

    record_count: u64  # records in this segment
    durable_bytes: u64  # file offset after the last record: where this footer begins
    segment_crc64: u64  # crc64-nvme over header and records, [0, durable_bytes)
    ext_id: u64  # as in the runtime segment's footer
    flags: u64  # bit 0 sealed, bit 1 compacted, bit 2 partial


class RecordFlags(IntFlag):
    """Flags of an interchange record."""

    SNAPSHOT_BOUNDARY = 1
    CONTROL_FRAME = 2


class FooterFlags(IntFlag):
    """Flags of an interchange segment."""

    SEALED = 1
    COMPACTED = 2
    PARTIAL = 4


INTERCHANGE_HEADER = Layout(InterchangeHeader, order="<", size=56)
INTERCHANGE_RECORD = Layout(InterchangeRecordHeader, order="<", size=32)
INTERCHANGE_FOOTER = Layout(InterchangeFooter, order="<", size=40)

INTERCHANGE_MAGIC = 0x414F46325345474D
INTERCHANGE_VERSION = 2


class InterchangeRecord(NamedTuple):
    """A record to encode, or a decoded record, whose payload is a view of the file's bytes."""

    payload: Buffer
    logical_offset: int
    append_ts_ms: int
    flags: int = 0


class InterchangeEncoder:
    """Encodes one segment piece by piece, in file order: header, records, footer."""

    def __init__(self, *, stream_id: int, segment_id: int, creation_ts_ms: int) -> None:
        self._header = InterchangeHeader(
            magic=INTERCHANGE_MAGIC,
            version=INTERCHANGE_VERSION,
            stream_id=stream_id,
            segment_id=segment_id,
            creation_ts_ms=creation_ts_ms,
            reserved=bytes(INTERCHANGE_HEADER.field("reserved").size),
        )
        self._size = 0
        self._crc64 = 0
        self._record_count = 0
        self._next_logical_offset = 0

    def header(self) -> bytes:
        """Returns the header's bytes. Must be called once, before `records` and `footer`."""
        return self._account(INTERCHANGE_HEADER.pack(self._header))

    def records(self, records: Iterable[InterchangeRecord]) -> bytes:
        """Returns the bytes of the next records.

        Raises `InputError` if their logical offsets do not rise or a payload is empty.
        """
        data = bytearray()
        for record in records:
            if record.logical_offset < self._next_logical_offset:
                raise InputError(
                    f"a record's logical offset, {record.logical_offset}, is not greater than that "
                    "of the record before it"
                )
            if not len(record.payload):
                raise InputError("a record's payload is empty; it must have at least one byte")
            data += _record_header(record)
            data += record.payload
            data += bytes(-len(data) % AOF_ALIGNMENT)
            self._next_logical_offset = record.logical_offset + 1
            self._record_count += 1
        return self._account(bytes(data))

    def footer(self, *, ext_id: int, flags: int = FooterFlags.SEALED) -> bytes:
        """Returns the footer's bytes. Must be called after all records were encoded."""
        return INTERCHANGE_FOOTER.pack(
            InterchangeFooter(
                record_count=self._record_count,
                durable_bytes=self._size,
                segment_crc64=self._crc64,
                ext_id=ext_id,
                flags=int(flags),
            )
        )

    def _account(self, data: bytes) -> bytes:
        self._crc64 = crc64nvme(data, self._crc64)
        self._size += len(data)
        return data


def interchange_record_bytes(payload_bytes: int) -> int:
    """Returns the size in bytes of a record, including its header and padding."""
    return -(-(INTERCHANGE_RECORD.size + payload_bytes) // AOF_ALIGNMENT) * AOF_ALIGNMENT


def position_after(data: Buffer, offset: int, *, base_offset: int) -> int:
    """Returns the segment offset where a record ends in the runtime layout.

    `data` has the bytes of an interchange file, in which the record begins at `offset`.
    """
    header = INTERCHANGE_RECORD.unpack(data, offset)
    return header.logical_offset - base_offset + record_bytes(header.payload_len)


def decode_interchange_header(data: Buffer) -> InterchangeHeader:
    """Returns the header of a file that has the interchange magic.

    Raises `UnknownVersion` if the header has an unsupported version.
    """
    header = INTERCHANGE_HEADER.unpack(data)
    if header.version != INTERCHANGE_VERSION:
        raise UnknownVersion(
            "the interchange segment has an unsupported version",
            expected=INTERCHANGE_VERSION,
            found=header.version,
        )
    return header


def decode_interchange_footer(data: Buffer, *, offset: int = 0) -> InterchangeFooter | None:
    """Returns the footer at the end of a file, or None if there is no valid footer.

    `data` has the file's bytes from `offset` on.
    """
    start = offset + len(data) - INTERCHANGE_FOOTER.size
    if start < max(offset, INTERCHANGE_HEADER.size) or start % AOF_ALIGNMENT:
        return None
    footer = INTERCHANGE_FOOTER.unpack(data, start - offset)
    return footer if footer.durable_bytes == start else None


def iterate_interchange(data: memoryview, *, end: int) -> Iterator[InterchangeRecord]:
    """Yields the records of a segment up to file offset `end`.

    Checks no checksums: the caller must have verified the records.
    """
    offset = INTERCHANGE_HEADER.size
    while offset < end:
        header = INTERCHANGE_RECORD.unpack(data, offset)
        first = offset + INTERCHANGE_RECORD.size
        payload = data[first : first + header.payload_len]
        yield InterchangeRecord(payload, header.logical_offset, header.append_ts_ms, header.flags)
        offset += interchange_record_bytes(header.payload_len)


def _record_header(record: InterchangeRecord) -> bytes:
    return INTERCHANGE_RECORD.pack(
        InterchangeRecordHeader(
            payload_len=len(record.payload),
            record_crc32=fold64(crc64nvme(record.payload)),
            logical_offset=record.logical_offset,
            append_ts_ms=record.append_ts_ms,
            flags=record.flags,
        )
    )
