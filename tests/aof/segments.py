"""Small segments of both layouts, made by the kernels: what the tests of formats look at."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.aof.footer import encode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    FOOTER_MAGIC,
    FOOTER_VERSION,
    RECORDS_START,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    SegmentFooter,
    SegmentHeader,
)
from lakebed.aof.interchange import FooterFlags, InterchangeEncoder, InterchangeRecord
from lakebed.aof.paths import SegmentName
from lakebed.aof.record_id import RecordId
from lakebed.kernels import aof_encode

NAME = SegmentName(7, 123_400, 1_700_000_000_123_456_789)
PAYLOADS = [b"first", b"second record", b"sixteen bytes ok"]  # 32, 40 and 40 bytes
TIMESTAMPS = [1_700_000_000_200_000_001, 1_700_000_000_900_000_002, 1_700_000_000_500_000_003]
EXT_IDS = [41, 42, 43]
STREAM_ID = 0x0123456789ABCDEF
SIZE = 512


def runtime_segment(
    payloads: Sequence[bytes] = PAYLOADS,
    *,
    name: SegmentName = NAME,
    size: int = SIZE,
    timestamps: Sequence[int] = TIMESTAMPS,
    ext_ids: Sequence[int] = EXT_IDS,
    is_sealed: bool = True,
) -> bytes:
    """A runtime segment, with values of its own in every field."""
    encoded = aof_encode(
        payloads, timestamps=timestamps, ext_ids=ext_ids, capacity=size - RECORDS_START
    )
    header = SegmentHeader(
        magic=SEGMENT_MAGIC,
        version=SEGMENT_VERSION,
        header_length=SEGMENT_HEADER.size,
        segment_index=name.segment_id,
        base_record_count=90,
        base_offset=name.base_offset,
        max_size=size,
        created_at=name.created_at,
        base_timestamp=timestamps[0],
        ext_id=ext_ids[0],
    )
    end = RECORDS_START + len(encoded.data)
    footer = SegmentFooter(
        magic=FOOTER_MAGIC,
        version=FOOTER_VERSION,
        reserved=0,
        segment_index=name.segment_id,
        checksum=0,
        base_record_count=90,
        record_count=len(payloads),
        durable_bytes=end,
        last_record_id=RecordId.from_parts(name.segment_id, RECORDS_START + encoded.offsets[-1]),
        last_timestamp=max(timestamps),
        sealed_at=1_700_000_001_000_000_004,
        payload_checksum=encoded.crc64,
        ext_id=ext_ids[0],
        coordinator_watermark=77,
        flush_failure=0,
    )
    slot = encode_footer(footer) if is_sealed else bytes(FOOTER_BYTES)
    records = SEGMENT_HEADER.pack(header) + encoded.data
    return records + bytes(size - FOOTER_BYTES - end) + slot


def interchange_segment(
    payloads: Sequence[bytes] = PAYLOADS,
    *,
    name: SegmentName = NAME,
    flags: int = FooterFlags.SEALED,
    record_flags: int = 0,
) -> bytes:
    """The same records in the interchange layout."""
    encoded = aof_encode(payloads, timestamps=0, ext_ids=0, capacity=1 << 30)
    encoder = InterchangeEncoder(
        stream_id=STREAM_ID,
        segment_id=name.segment_id,
        creation_ts_ms=name.created_at // 1_000_000,
    )
    records = [
        InterchangeRecord(
            payload,
            name.base_offset + RECORDS_START + offset,
            TIMESTAMPS[index % len(TIMESTAMPS)] // 1_000_000,
            record_flags,
        )
        for index, (payload, offset) in enumerate(zip(payloads, encoded.offsets, strict=True))
    ]
    body = encoder.header() + encoder.records(records)
    return body + encoder.footer(ext_id=41, flags=flags)


def flipped(data: bytes, offset: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[offset] ^= 1 << bit
    return bytes(changed)
