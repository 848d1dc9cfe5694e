"""Snapshots as bytes: the golden file, round trips, and every way of being damaged."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.manifest.format import (
    DELETE_COUNT,
    MANIFEST_ITSELF,
    SNAPSHOT_ENTRY,
    SNAPSHOT_HEADER,
    SNAPSHOT_TOTALS,
    SPAN,
    DeleteCount,
    SnapshotMarker,
    Span,
)
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.snapshot import Snapshot, decode_snapshot, encode_snapshot
from lakebed.aof.manifest.state import Draft, SegmentState, frozen
from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.kernels import crc64nvme
from tests.aof.manifest.records_strategies import texts, u32, u64
from tests.aof.segments import flipped

GOLDEN = Path(__file__).parents[2] / "golden" / "manifest" / "v3" / "snapshot.bin"

WHOLE = SegmentState(
    segment_id=3,
    base_offset=201_326_880,
    durable_bytes=67_108_000,
    segment_crc64=0x0123456789ABCDEF,
    ext_id=41,
    coordinator_watermark=42,
    opened_at_ms=1_700_000_000_001,
    sealed_at_ms=1_700_000_000_002,
    changed_at_ms=1_700_000_000_003,
    resident_bytes=67_108_000,
    compressed_bytes=12_345_678,
    key="aof2/s/segment-3.zst",
    etag='"étag"',
    upload_key="aof2/s/segment-3-again.zst",
    epoch=5,
    dictionary_id=6,
    job_id=7,
    residency=7,
    pending=15,
    condition=15,
    hydration_source=2,
    failures=7,
    compression_reason=1,
    upload_reason=3,
    hydration_reason=4,
)
STATES = [WHOLE, frozen(Draft(4, epoch=5, residency=1, condition=1)), WHOLE._replace(segment_id=9)]


def index_of(states: list[SegmentState], deletes: list[str]) -> ManifestIndex:
    return ManifestIndex.restored(
        states,
        deletes,
        coordinator_watermark=99,
        last_timestamp_ms=1_700_000_000_004,
        record_count=1234,
        last_marker=SnapshotMarker(11, 640, 6),
    )


SNAPSHOT = Snapshot(7, Position(12, 4096), index_of(STATES, ["aof2/s/old.zst", "caf\udce9"]))
DATA = encode_snapshot(SNAPSHOT)
EMPTY = encode_snapshot(Snapshot(1, Position(0, 64), ManifestIndex()))
DELETES_AT = SNAPSHOT_HEADER.size + len(STATES) * SNAPSHOT_ENTRY.size
SPANS_AT = DELETES_AT + DELETE_COUNT.size
TOTALS_AT = SPANS_AT + 2 * SPAN.size
HEAP_AT = TOTALS_AT + SNAPSHOT_TOTALS.size


def with_header(data: bytes, **changes: int) -> bytes:
    """With other fields in the header, and the checksum that then belongs to it."""
    header = SNAPSHOT_HEADER.unpack(data)._replace(crc64=0, **changes)
    unsummed = SNAPSHOT_HEADER.pack(header) + data[SNAPSHOT_HEADER.size :]
    crc64 = crc64nvme(unsummed)
    return SNAPSHOT_HEADER.pack(header._replace(crc64=crc64)) + data[SNAPSHOT_HEADER.size :]


def with_bytes(data: bytes, offset: int, piece: bytes) -> bytes:
    return with_header(data[:offset] + piece + data[offset + len(piece) :])


def with_entry(data: bytes, number: int, **changes: int) -> bytes:
    offset = SNAPSHOT_HEADER.size + number * SNAPSHOT_ENTRY.size
    entry = SNAPSHOT_ENTRY.unpack(data, offset)._replace(**changes)
    return with_bytes(data, offset, SNAPSHOT_ENTRY.pack(entry))


def same(one: Snapshot, other: Snapshot) -> bool:
    """Equality of indexes leaves out what only counts."""
    return one == other and all(
        getattr(one.index, name) == getattr(other.index, name)
        for name in ("last_timestamp_ms", "record_count", "last_marker")
    )


def test_the_same_bytes_are_written_today() -> None:
    assert GOLDEN.read_bytes() == DATA


def test_the_golden_snapshot_is_read() -> None:
    assert same(decode_snapshot(GOLDEN.read_bytes()), SNAPSHOT)


def test_an_empty_snapshot_is_a_header_a_count_and_totals() -> None:
    assert len(EMPTY) == SNAPSHOT_HEADER.size + DELETE_COUNT.size + SNAPSHOT_TOTALS.size
    assert decode_snapshot(EMPTY) == Snapshot(1, Position(0, 64), ManifestIndex())


_kinds = get_type_hints(SegmentState)
_wide = _kinds.keys() & {field.name for field in SNAPSHOT_ENTRY.fields if field.kind == "u64"}
_states = st.builds(
    SegmentState,
    *[texts if kind is str else u64 if name in _wide else u32 for name, kind in _kinds.items()],
)


@given(
    st.lists(_states, max_size=5, unique_by=lambda state: state.segment_id),
    st.lists(texts, max_size=4, unique=True),
    st.tuples(u64, u64, u64),
)
def test_a_snapshot_round_trips(
    states: list[SegmentState], deletes: list[str], place: tuple[int, int, int]
) -> None:
    kept = [state for state in states if state.segment_id != MANIFEST_ITSELF]
    snapshot = Snapshot(place[0], Position(*place[1:]), index_of(kept, deletes))
    data = encode_snapshot(snapshot)
    assert same(decode_snapshot(data), snapshot)
    assert encode_snapshot(decode_snapshot(memoryview(bytearray(data)))) == data


@pytest.mark.parametrize("data", [DATA, EMPTY], ids=["full", "empty"])
def test_every_truncation_is_torn(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(Torn):
            decode_snapshot(data[:length], path="here")


@pytest.mark.parametrize("data", [DATA, EMPTY], ids=["full", "empty"])
def test_every_flipped_bit_is_found_and_none_looks_like_another_version(data: bytes) -> None:
    """A count that is too high looks like a file that was cut; everything else is corrupt."""
    counts = {
        *range(SNAPSHOT_HEADER.offset_of("entry_count"), SNAPSHOT_HEADER.offset_of("chunk_index")),
        *range(SNAPSHOT_HEADER.offset_of("heap_bytes"), SNAPSHOT_HEADER.offset_of("crc64")),
        *range(DELETES_AT if data is DATA else 64, SPANS_AT if data is DATA else 72),
    }
    for offset in range(len(data)):
        for bit in range(8):
            with pytest.raises((Corrupt, Torn) if offset in counts else Corrupt):
                decode_snapshot(flipped(data, offset, bit), path="here")


def test_a_file_that_was_never_written_is_torn() -> None:
    with pytest.raises(Torn, match="here: at byte 0: the file holds only zeros"):
        decode_snapshot(bytes(len(DATA)), path="here")


def test_a_file_that_is_too_long_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="here: the file is too long"):
        decode_snapshot(DATA + b"\0", path="here")


@pytest.mark.parametrize("version", [0, 2, 4, 2**32 - 1])
def test_a_sound_file_of_another_version_is_refused_as_such(version: int) -> None:
    with pytest.raises(UnknownVersion, match=f"expected 3, found {version}"):
        decode_snapshot(with_header(DATA, version=version))


def test_a_newer_version_is_believed_where_the_sizes_are_not_ours() -> None:
    newer = SNAPSHOT_HEADER.pack(SNAPSHOT_HEADER.unpack(DATA)._replace(version=4))
    for body in (DATA[SNAPSHOT_HEADER.size : -8], DATA[SNAPSHOT_HEADER.size :] + bytes(8)):
        with pytest.raises(UnknownVersion):
            decode_snapshot(newer + body)


@pytest.mark.parametrize("count", [2**64 - 1, 2**63, 2**32, 4])
@pytest.mark.parametrize("name", ["entry_count", "heap_bytes"])
def test_a_count_larger_than_the_file_allocates_nothing(name: str, count: int) -> None:
    changed = {name: count + (SNAPSHOT_HEADER.unpack(DATA).heap_bytes if count == 4 else 0)}
    with pytest.raises(Torn):
        decode_snapshot(with_header(DATA, **changed))


@pytest.mark.parametrize("count", [2**64 - 1, 2**60, 3])
def test_a_count_of_deletes_larger_than_the_file_is_torn(count: int) -> None:
    with pytest.raises(Torn):
        decode_snapshot(with_bytes(DATA, DELETES_AT, DELETE_COUNT.pack(DeleteCount(count))))


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (with_header(DATA, magic=1), "a wrong magic number"),
        (with_header(DATA, header_len=72), "a wrong length for itself"),
        (with_entry(DATA, 0, segment_id=4), "not in ascending order"),
        (with_entry(DATA, 1, segment_id=2), "not in ascending order"),
        (with_entry(DATA, 2, segment_id=MANIFEST_ITSELF), "not in ascending order"),
        (with_entry(DATA, 1, reserved=1), "the reserved field of a segment"),
        (with_entry(DATA, 0, key_len=2**64 - 1), "a wrong place for a string"),
        (with_entry(DATA, 0, key_offset=2**64 - 1), "a wrong place for a string"),
        (with_entry(DATA, 2, key_offset=0, key_len=20), "a wrong place for a string"),
        (with_entry(DATA, 1, etag_len=1), "a wrong place for a string"),
        (with_bytes(DATA, SPANS_AT, SPAN.pack(Span(0, 5))), "a wrong place for a string"),
        (
            with_bytes(DATA, SPANS_AT + 16, SPAN.pack(Span(120, 3))),
            "heap of strings has a wrong size",
        ),
    ],
)
def test_a_sound_file_with_wrong_contents_is_corrupt(damaged: bytes, problem: str) -> None:
    with pytest.raises(Corrupt, match=f"here: .*{problem}"):
        decode_snapshot(damaged, path="here")


def test_a_delete_that_stands_there_twice_is_corrupt() -> None:
    data = encode_snapshot(Snapshot(1, Position(0, 64), index_of([], ["ab", "cd"])))
    with pytest.raises(Corrupt, match="pending delete twice"):
        decode_snapshot(with_bytes(data, len(data) - 2, b"ab"))


def test_no_string_is_longer_than_a_record_can_have() -> None:
    data = encode_snapshot(Snapshot(1, Position(0, 64), index_of([], ["k" * 65_536])))
    with pytest.raises(Corrupt, match="a wrong place for a string"):
        decode_snapshot(data)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_refused_with_a_data_error(noise: bytes, has_magic: bool) -> None:
    with pytest.raises(DataError):
        decode_snapshot((DATA[:16] if has_magic else b"") + noise)
