"""The sixteen types of manifest records as bytes: golden files, round trips, hostile payloads.

The golden files were written once: a difference is a new version.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    RECORD_HEADER,
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
    record_bytes,
)
from lakebed.aof.manifest.records import (
    U16_MAX,
    CustomEvent,
    ManifestRecord,
    Payload,
    RecordType,
    Tier2Deleted,
    Tier2DeleteQueued,
    Unknown,
    UploadDone,
    UploadFailed,
    UploadStarted,
    decode_payload,
    decode_record,
    encode_payload,
    encode_record,
    is_known_type,
    type_of,
)
from lakebed.base.errors import Corrupt, TooLarge
from lakebed.kernels import crc64nvme
from tests.aof.manifest.records_strategies import PAYLOADS, decoded, records, u16

GOLDEN = Path(__file__).parents[2] / "golden" / "manifest" / "v1"

KEY = "aof2/0123456789abcdef/segment-00000000000000000007-1700000000123.zst"
ETAG = '"9b2cf535f27731c974343645a3985328"'

SIZED: list[tuple[Payload, int]] = [
    (SegmentOpened(base_offset=0x1122334455667788, epoch=0x99AABBCC), 12),
    (SealSegment(67_108_000, 0x0123456789ABCDEF, 41, 42, flush_failure=1), 33),
    (CompressionStarted(job_id=9), 4),
    (CompressionDone(compressed_bytes=12_345_678, dictionary_id=3), 12),
    (CompressionFailed(reason_code=1), 4),
    (UploadStarted(KEY), 2 + 68),
    (UploadDone(KEY, ETAG), 4 + 68 + 34),
    (UploadFailed(KEY, reason_code=3), 6 + 68),
    (Tier2DeleteQueued(KEY), 2 + 68),
    (Tier2Deleted("clé"), 2 + 4),
    (HydrationStarted(source_tier=2), 8),
    (HydrationDone(resident_bytes=67_108_000), 8),
    (HydrationFailed(reason_code=4), 4),
    (LocalEvicted(reclaimed_bytes=67_108_864), 8),
    (SnapshotMarker(chunk_index=12, chunk_offset=4096, snapshot_id=5), 24),
    (CustomEvent(schema_id=77, blob=bytes(range(16))), 6 + 16),
    (Unknown(record_type=4711, data=b"from a later version"), 20),
]
SHORT_SEAL = (67_108_000).to_bytes(8, "little") + (0x0123456789ABCDEF).to_bytes(8, "little")


def record_of(payload: Payload) -> ManifestRecord:
    is_marker = isinstance(payload, SnapshotMarker)
    flags = 0x8001 if isinstance(payload, Unknown) else 0
    segment_id = MANIFEST_ITSELF if is_marker else 7
    return ManifestRecord(payload, segment_id, 469_762_720, 1_700_000_000_123, flags)


GOLDEN_RECORDS = {type(payload).__name__: record_of(payload) for payload, _ in SIZED}
KNOWN = [payload for payload, _ in SIZED if not isinstance(payload, Unknown)]


def name_of(value: object) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


def read(data: bytes) -> ManifestRecord:
    header = RECORD_HEADER.unpack(data)
    payload = data[RECORD_HEADER.size : RECORD_HEADER.size + header.payload_len]
    assert header.payload_crc64 == crc64nvme(payload)
    return decode_record(header, payload)


def same(one: ManifestRecord, other: ManifestRecord) -> bool:
    """Payloads of two types may be equal, as tuples are."""
    return one == other and type(one.payload) is type(other.payload)


def test_every_type_has_a_golden_record() -> None:
    numbers = [record.type_number for record in GOLDEN_RECORDS.values()]
    assert numbers == [*RecordType, 4711]
    assert [record.type_name for record in GOLDEN_RECORDS.values()][-2:] == [
        "CustomEvent",
        "Unknown(4711)",
    ]
    assert {path.stem for path in GOLDEN.glob("*.bin")} >= {*GOLDEN_RECORDS, "SealSegment-short"}


@pytest.mark.parametrize("name", GOLDEN_RECORDS)
def test_the_same_bytes_are_written_today(name: str) -> None:
    assert encode_record(GOLDEN_RECORDS[name]) == golden(name)


@pytest.mark.parametrize("name", GOLDEN_RECORDS)
def test_a_golden_record_is_read(name: str) -> None:
    assert same(read(golden(name)), GOLDEN_RECORDS[name])


def test_the_short_form_of_a_seal_is_read() -> None:
    short = read(golden("SealSegment-short"))
    assert short.payload == SealSegment(67_108_000, 0x0123456789ABCDEF, 0, 0, 0)
    assert short.type_number == RecordType.SEAL_SEGMENT


def test_a_record_of_an_unknown_type_is_kept_as_it_is() -> None:
    unknown = read(golden("Unknown"))
    assert unknown.payload == Unknown(4711, b"from a later version")
    assert (unknown.type_number, unknown.flags) == (4711, 0x8001)
    assert not is_known_type(unknown.type_number)


@pytest.mark.parametrize(("payload", "size"), SIZED, ids=name_of)
def test_payloads_have_the_sizes_of_the_format(payload: Payload, size: int) -> None:
    assert len(encode_payload(payload)) == size


@pytest.mark.parametrize("kind", PAYLOADS, ids=name_of)
@given(data=st.data())
def test_every_type_round_trips(kind: type, data: st.DataObject) -> None:
    payload = data.draw(PAYLOADS[kind])
    again = decode_payload(type_of(payload), memoryview(encode_payload(payload)))
    assert (type(again), again) == (kind, payload)


@given(records)
def test_a_record_round_trips_on_a_boundary_of_eight_bytes(record: ManifestRecord) -> None:
    data = encode_record(record)
    end = RECORD_HEADER.size + RECORD_HEADER.unpack(data).payload_len
    assert same(read(data), record)
    assert len(data) == record_bytes(end - RECORD_HEADER.size)
    assert len(data) % 8 == 0
    assert not any(data[end:])
    assert len(data) - end < 8


@pytest.mark.parametrize("payload", KNOWN, ids=name_of)
def test_a_payload_of_another_length_is_corrupt(payload: Payload) -> None:
    whole = encode_payload(payload)
    for length in range(len(whole)):
        if isinstance(payload, SealSegment) and length == len(SHORT_SEAL):
            continue
        with pytest.raises(Corrupt, match=f"found {length} bytes"):
            decode_payload(type_of(payload), whole[:length])
    with pytest.raises(Corrupt, match=RecordType(type_of(payload)).name):
        decode_payload(type_of(payload), whole + b"\0")


@pytest.mark.parametrize(
    "payload",
    [
        UploadStarted(KEY),
        UploadDone(KEY, ETAG),
        UploadFailed(KEY, 0),
        Tier2DeleteQueued(KEY),
        Tier2Deleted(KEY),
        CustomEvent(0x00440044, KEY.encode()),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("wrong", [0, 67, 69, U16_MAX])
def test_a_length_that_does_not_fit_its_string_is_corrupt(payload: Payload, wrong: int) -> None:
    good, bad = len(KEY).to_bytes(2, "little"), wrong.to_bytes(2, "little")
    data = encode_payload(payload)
    place = 4 if isinstance(payload, CustomEvent) else 0
    assert data[place : place + 2] == good
    with pytest.raises(Corrupt):
        decode_payload(type_of(payload), data[:place] + bad + data[place + 2 :])


@given(st.one_of(st.integers(0, 20), u16), st.binary(min_size=1, max_size=80))
def test_any_payload_is_read_as_it_was_written_or_is_corrupt(number: int, data: bytes) -> None:
    try:
        payload = decode_payload(number, data)
    except Corrupt:
        assert is_known_type(number)
        return
    if number == RecordType.SEAL_SEGMENT and len(data) == len(SHORT_SEAL):
        data += bytes(33 - len(data))
    assert (type_of(payload), encode_payload(payload)) == (number, data)


@pytest.mark.parametrize("raw", [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\x00", "clé".encode()])
def test_keys_survive_that_are_not_utf_8(raw: bytes) -> None:
    payload = UploadDone(decoded(raw), decoded(raw[::-1]))
    data = encode_payload(payload)
    assert data.endswith(raw + raw[::-1])
    assert decode_payload(RecordType.UPLOAD_DONE, data) == payload


@pytest.mark.parametrize("text", ["k" * (U16_MAX + 1), "é" * (U16_MAX // 2 + 1)])
def test_strings_longer_than_their_length_fields_are_too_large(text: str) -> None:
    for payload in (
        UploadStarted(text),
        UploadDone(text, ""),
        UploadDone("", text),
        UploadFailed(text, 0),
        Tier2DeleteQueued(text),
        Tier2Deleted(text),
        CustomEvent(1, text.encode()),
    ):
        with pytest.raises(TooLarge):
            encode_payload(payload)


def test_the_longest_strings_fit() -> None:
    payload = UploadDone("k" * U16_MAX, "e" * U16_MAX)
    assert decode_payload(RecordType.UPLOAD_DONE, encode_payload(payload)) == payload
