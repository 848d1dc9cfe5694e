"""Bytes of record batches, kept once and never written again.

`client-*.bin` are batches that a client and a broker of Kafka itself made. Compressed ones are only
read: another version of a compressor may write other bytes for the same records.
"""

from __future__ import annotations

import pytest

from lakebed.keratin.compression import Compression
from lakebed.keratin.message import Message
from lakebed.keratin.record_batch import BatchAttributes, build, check, decode
from lakebed.kernels.format import RECORD_BATCH
from tests.keratin.batch_samples import GOLDEN, mixed

CONTROL_KEY = bytes.fromhex("00000001")  # version 0, commit
CONTROL_VALUE = bytes.fromhex("000000000007")


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


def control() -> bytes:
    return build(
        [CONTROL_VALUE],
        keys=[CONTROL_KEY],
        timestamps_ms=1_700_000_000_000,
        first_offset=9,
        attributes=BatchAttributes.CONTROL | BatchAttributes.TRANSACTIONAL,
    )


def test_the_same_bytes_are_written_today() -> None:
    assert mixed() == golden("none")
    assert control() == golden("control")


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_every_compression_are_read(compression: Compression) -> None:
    batch = golden(compression.name.lower())
    assert check(batch).attributes == compression
    assert list(decode(batch)) == list(decode(mixed()))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("client-none", Message(0, 1_558_418_903_934, b"key", b"value")),
        ("client-gzip", Message(1, 1_558_424_332_207, b"key", b"value")),
    ],
)
def test_batches_of_kafka_itself_are_read(name: str, message: Message) -> None:
    assert list(decode(golden(name))) == [message]


def test_the_fields_of_the_golden_batch_stand_where_the_format_says() -> None:
    batch = golden("none")
    places = {
        "first_offset": (0, 8),
        "length": (8, 4),
        "leader_epoch": (12, 4),
        "magic": (16, 1),
        "crc32c": (17, 4),
        "attributes": (21, 2),
        "last_offset_delta": (23, 4),
        "first_timestamp_ms": (27, 8),
        "max_timestamp_ms": (35, 8),
        "producer_id": (43, 8),
        "producer_epoch": (51, 2),
        "base_sequence": (53, 4),
        "message_count": (57, 4),
    }
    assert {field.name: (field.offset, field.size) for field in RECORD_BATCH.fields} == places
    header = check(batch)._asdict()
    for name, (offset, size) in places.items():
        is_signed = name not in ("magic", "crc32c")
        found = int.from_bytes(batch[offset : offset + size], "big", signed=is_signed)
        assert header[name] == found
