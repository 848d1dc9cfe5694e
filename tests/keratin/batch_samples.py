"""Record batches for tests: messages of every kind, and batches made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakebed.keratin.compression import Compression
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.record_batch import build
from lakebed.kernels import crc32c
from lakebed.kernels.format import RECORD_BATCH, RecordBatchHeader

GOLDEN = Path(__file__).parents[1] / "golden" / "keratin" / "batches_v2"

VALUES: list[bytes | None] = [b"first", None, b"", "réservoir".encode(), bytes(range(256)) * 3]
KEYS: list[bytes | None] = [None, b"deleted", b"", b"k", b"longer key"]
TIMESTAMPS_MS = [1_700_000_000_123, 1_700_000_000_100, 1_700_000_001_000, 1_600_000_000_000, 0]
HEADERS: list[list[Header]] = [[], [("trace", b"abc")], [("é", None), ("", b"")], [], []]
PRODUCER = Producer(producer_id=(1 << 62) + 7, epoch=12, sequence=345)
FIRST_OFFSET = 4711

_CHECKED_FROM = RECORD_BATCH.offset_of("attributes")
_COUNTED_FROM = RECORD_BATCH.offset_of("leader_epoch")


def mixed(compression: Compression = Compression.NONE, **named: Any) -> bytes:
    """Nulls, empty parts, headers, timestamps that go back."""
    given: dict[str, Any] = {
        "timestamps_ms": TIMESTAMPS_MS,
        "keys": KEYS,
        "headers": HEADERS,
        "first_offset": FIRST_OFFSET,
        "producer": PRODUCER,
        **named,
    }
    return build(VALUES, compression=compression, **given)


def sealed(header: RecordBatchHeader, section: bytes) -> bytes:
    """A batch of exactly this header, with the right length and checksum."""
    size = RECORD_BATCH.size + len(section)
    packed = RECORD_BATCH.pack(header._replace(length=size - _COUNTED_FROM))
    crc = crc32c(packed[_CHECKED_FROM:] + section)
    return RECORD_BATCH.pack(RECORD_BATCH.unpack(packed)._replace(crc32c=crc)) + section


def changed(batch: bytes, section: bytes | None = None, **fields: Any) -> bytes:
    """The same batch with other fields or records, and a right checksum again."""
    header = RECORD_BATCH.unpack(batch)._replace(**fields)
    return sealed(header, batch[RECORD_BATCH.size :] if section is None else section)
