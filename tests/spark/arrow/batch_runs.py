"""Engine batches for the tests of Arrow batches, and the rows that reading them gives."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from lakebed.keratin.compression import Compression
from lakebed.keratin.damage import DamagePolicy
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Header, Producer, encode_headers
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.record_batch import build
from lakebed.keratin.run import run_of
from lakebed.keratin.run_decoder import batches_of
from lakebed.kernels import keratin_encode, keratin_scan

BATCH = int(RecordFlags.BATCH)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STRICT = DamagePolicy(skip=False)


class Written(NamedTuple):
    """One record of a log."""

    payload: bytes
    block: bytes = b""
    flags: int = 0
    timestamp_ms: int = 1_700_000_000_123
    offset_count: int = 1  # offsets that it takes, or leaves free


def plain(
    value: bytes | None,
    key: bytes | None = None,
    headers: Sequence[Header] = (),
    *,
    producer: Producer | None = None,
    flags: int = 0,
    **named: Any,
) -> Written:
    flags |= RecordFlags.TOMBSTONE if value is None else 0
    return Written(value or b"", encode_headers(key, producer, headers), flags, **named)


def packed(
    values: Sequence[bytes | None], compression: Compression = Compression.NONE, **named: Any
) -> Written:
    given = {"timestamps_ms": 1_700_000_000_000, "compression": compression, **named}
    return Written(build(values, **given), b"", BATCH, 0, len(values))


def read(
    records: Iterable[Written], *, start: int = 0, end: int = 1 << 62, first_offset: int = 50
) -> list[MessageBatch]:
    """The engine's batches of such a log."""
    offset, offsets, payloads = first_offset, [], []
    written = list(records)
    for record in written:
        payload = record.payload
        if record.flags & BATCH:
            payload = offset.to_bytes(8, "big") + payload[8:]  # as the log gives it its place
        offsets.append(offset)
        payloads.append(payload)
        offset += record.offset_count
    data = keratin_encode(
        payloads,
        [record.block for record in written],
        offsets=array("Q", offsets),
        timestamps_ms=array("Q", [record.timestamp_ms for record in written]),
        flags=array("H", [record.flags for record in written]),
        capacity=1 << 30,
    ).data
    if not written:
        return []
    scan = keratin_scan(data, 0, len(data), count_max=len(written))
    run = run_of(scan, memoryview(data), 1000)
    return list(batches_of(run, start=start, end=end, path="x.log", policy=STRICT))


def row(message: Message, *, topic: str, partition: int) -> dict[str, Any]:
    """What a message is as a row."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": message.offset,
        "timestamp": EPOCH + timedelta(milliseconds=message.timestamp_ms),
        "key": message.key,
        "value": message.value,
        "headers": [{"name": name, "value": value} for name, value in message.headers],
    }
