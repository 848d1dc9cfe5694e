"""Chunks made by hand, for tests that read them."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.aof.manifest.chunk import encode_header
from lakebed.aof.manifest.format import (
    FLAG_SEALED,
    RECORDS_START,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
)
from lakebed.aof.manifest.records import CustomEvent, ManifestRecord, UploadDone, encode_record
from lakebed.kernels import crc64nvme

RECORDS = [
    ManifestRecord(SegmentOpened(0, 1), 0, 0, 1000),
    ManifestRecord(SealSegment(4096, 0x1122334455667788, 7, 9, 0), 0, 4096, 1001),
    ManifestRecord(SegmentOpened(4192, 1), 1, 4192, 1001),
    ManifestRecord(UploadDone("aof2/s/segment-0.zst", '"etag"'), 0, 0, 1005),
    ManifestRecord(LocalEvicted(4096), 0, 4096, 1009),
]


def chunk_bytes(
    records: Sequence[ManifestRecord] = RECORDS,
    *,
    index: int = 3,
    base_record: int = 10,
    flags: int = 0,
    capacity: int = 1024,
    committed: int | None = None,
) -> bytes:
    """A chunk of these records; the first `committed` of them are counted in by its header."""
    encoded = [encode_record(record) for record in records]
    body = b"".join(encoded)
    counted = b"".join(encoded[: len(records) if committed is None else committed])
    header = encode_header(
        chunk_index=index,
        base_record=base_record,
        end=RECORDS_START + len(counted),
        chunk_crc64=crc64nvme(counted),
        flags=flags,
    )
    return (header + body).ljust(capacity, b"\0")


def sealed_chunk(**kwargs: int) -> bytes:
    return chunk_bytes(flags=FLAG_SEALED, **kwargs)  # type: ignore[arg-type]


BIG = ManifestRecord(CustomEvent(1, b"x" * 30_000), 0, 0, 2000)
