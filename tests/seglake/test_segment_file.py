"""Sealed segments: what was sealed is read, and everything else is told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.kernels.checksum import blake3
from lakebed.seglake.bloom import bloom_shape
from lakebed.seglake.format import (
    FOOTER_MAGIC,
    INDEX_COUNT,
    INDEX_ENTRY,
    NO_CHECKSUM,
    SEGMENT_FOOTER,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    IndexCount,
    SegmentFooter,
    SegmentHeader,
)
from lakebed.seglake.segment_file import (
    FOOTER_BYTES,
    HEADER_BYTES,
    RECORD_HEADER_BYTES,
    IndexEntry,
    SealedSegment,
    is_sealed,
    read_sealed,
    record_header,
    seal_block,
    segment_header,
)
from tests.seglake.segment_samples import (
    PATH,
    entries_of,
    file_of,
    flipped,
    open_segment,
    sealed_segment,
)

CHUNKS = [b"first", b"\0", bytes(range(256)), b"first"]
DATA = sealed_segment(CHUNKS)
RECORDS_END = len(open_segment(CHUNKS))
FOOTER_AT = len(DATA) - FOOTER_BYTES
EMPTY = sealed_segment([])


def resealed(footer: SegmentFooter, *, body: bytes) -> bytes:
    """The segment with another end, whose checksum matches."""
    zeroed = footer._replace(checksum=NO_CHECKSUM)
    checksum = blake3(body + SEGMENT_FOOTER.pack(zeroed))
    return DATA[:RECORDS_END] + body + SEGMENT_FOOTER.pack(zeroed._replace(checksum=checksum))


def footer() -> SegmentFooter:
    return SEGMENT_FOOTER.unpack(DATA, FOOTER_AT)


def body() -> bytes:
    return DATA[RECORDS_END:FOOTER_AT]


def with_entries(entries: list[IndexEntry]) -> bytes:
    return DATA[:RECORDS_END] + seal_block(entries, data_end=RECORDS_END).data


def test_the_sizes_are_those_of_the_format() -> None:
    assert (HEADER_BYTES, RECORD_HEADER_BYTES, FOOTER_BYTES) == (8, 36, 64)
    assert len(segment_header()) == HEADER_BYTES
    assert len(record_header(blake3(b"x"), 1)) == RECORD_HEADER_BYTES


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20))
def test_what_was_sealed_is_read(chunks: list[bytes]) -> None:
    segment = read_sealed(file_of(sealed_segment(chunks)))
    assert segment.entries == entries_of(chunks)
    assert len(segment) == len(chunks)
    assert segment.data_end == len(open_segment(chunks))
    assert all(segment.has(blake3(chunk)) for chunk in chunks)
    assert not segment.has(blake3(b"no chunk is this long, so none of them is it"))


def test_the_checksum_is_that_of_the_footer() -> None:
    sealed = seal_block(entries_of(CHUNKS), data_end=RECORDS_END)
    assert sealed.checksum == DATA[-32:] == read_sealed(file_of(DATA)).checksum
    assert DATA[RECORDS_END:] == sealed.data


def test_a_hash_is_found_only_where_an_entry_has_one() -> None:
    """Bytes that straddle two entries are no hash, even if the filter lets them through."""
    index = b"".join(map(INDEX_ENTRY.pack, entries_of(CHUNKS)))
    segment = SealedSegment(
        bloom=b"\xff" * 128, index=index, data_end=RECORDS_END, checksum=NO_CHECKSUM
    )
    for place in range(len(index) - 31):
        assert segment.has(index[place : place + 32]) == (place % INDEX_ENTRY.size == 8)


def test_a_segment_without_records_can_be_sealed() -> None:
    segment = read_sealed(file_of(EMPTY))
    assert (segment.entries, segment.data_end) == ([], HEADER_BYTES)
    assert not segment.has(blake3(b""))


@pytest.mark.parametrize("data", [DATA, EMPTY], ids=["full", "empty"])
def test_every_truncation_is_torn(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(Torn, match=PATH):
            read_sealed(file_of(data[:length]))
        assert not is_sealed(file_of(data[:length]))


@pytest.mark.parametrize("data", [DATA, EMPTY], ids=["full", "empty"])
def test_every_flipped_bit_behind_the_records_is_corrupt(data: bytes) -> None:
    """None looks like a newer version or a segment that was not sealed."""
    end = RECORDS_END if data is DATA else HEADER_BYTES
    for offset in [*range(HEADER_BYTES), *range(end, len(data))]:
        for bit in range(8):
            with pytest.raises(Corrupt, match=PATH) as caught:
                read_sealed(file_of(flipped(data, offset, bit)))
            assert caught.value.offset is not None


def test_the_records_are_not_looked_at() -> None:
    """They have hashes of their own, which `walk` checks."""
    for offset in range(HEADER_BYTES, RECORDS_END):
        assert is_sealed(file_of(flipped(DATA, offset)))


@pytest.mark.parametrize("lost", range(1, 300, 13))
def test_an_end_that_was_lost_as_zeros_is_not_sealed(lost: int) -> None:
    file = file_of(DATA[:-lost] + bytes(lost))
    with pytest.raises((Torn, Corrupt)):
        read_sealed(file)
    assert not is_sealed(file)


def test_bytes_behind_the_footer_are_torn() -> None:
    with pytest.raises(Torn, match="does not end in a footer"):
        read_sealed(file_of(DATA + b"\0"))


def test_a_checksum_of_zeros_is_refused() -> None:
    data = DATA[:FOOTER_AT] + SEGMENT_FOOTER.pack(footer()._replace(checksum=NO_CHECKSUM))
    with pytest.raises(Corrupt, match="has no checksum"):
        read_sealed(file_of(data))


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_a_sound_footer_of_another_version_is_refused_as_such(version: int) -> None:
    data = resealed(footer()._replace(version=version), body=body())
    with pytest.raises(UnknownVersion, match=f"expected 1, found {version}"):
        read_sealed(file_of(data))
    with pytest.raises(UnknownVersion):
        is_sealed(file_of(data))


def test_a_newer_footer_may_be_laid_out_otherwise() -> None:
    newer = SegmentFooter(FOOTER_MAGIC, 2, 1, 2, 3, 4, b"\x55" * 32)
    with pytest.raises(UnknownVersion):
        read_sealed(file_of(DATA[:FOOTER_AT] + SEGMENT_FOOTER.pack(newer)))


def test_a_header_of_another_version_under_our_footer_is_corrupt() -> None:
    header = SEGMENT_HEADER.pack(SegmentHeader(SEGMENT_MAGIC, 2))
    with pytest.raises(Corrupt, match="wrong segment header"):
        read_sealed(file_of(header + DATA[HEADER_BYTES:]))


@pytest.mark.parametrize(
    "change",
    [
        {"bloom_offset": -1},
        {"bloom_offset": 1 << 62, "index_offset": (1 << 62) + 128},
        {"bloom_offset": 0},
        {"bloom_offset": -8, "bloom_bytes": RECORDS_END + bloom_shape(4).size + 8},
        {"index_offset": 0},
        {"bloom_bytes": 0},
        {"bloom_bytes": 2**32 - 1},
        {"index_bytes": 2**32 - 1},
        {"index_bytes": 0},
    ],
    ids=str,
)
def test_places_that_do_not_add_up_are_corrupt_whatever_the_checksum(
    change: dict[str, int],
) -> None:
    """Before anything is read at them, let alone allocated."""
    with pytest.raises(Corrupt, match="are not adjacent"):
        read_sealed(file_of(resealed(footer()._replace(**change), body=body())))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 3, 5, 2**32 - 1])
def test_a_count_that_is_not_that_of_the_entries_is_corrupt(count: int) -> None:
    bloom_bytes = bloom_shape(len(CHUNKS)).size
    index = INDEX_COUNT.pack(IndexCount(count)) + body()[bloom_bytes + INDEX_COUNT.size :]
    with pytest.raises(Corrupt, match="do not match the entry count"):
        read_sealed(file_of(resealed(footer(), body=body()[:bloom_bytes] + index)))


def test_a_filter_of_another_size_is_corrupt() -> None:
    bloom_bytes = bloom_shape(len(CHUNKS)).size
    longer = bytes(8) + body()
    changed = footer()._replace(
        bloom_bytes=bloom_bytes + 8, index_offset=RECORDS_END + bloom_bytes + 8
    )
    with pytest.raises(Corrupt, match="do not match the entry count"):
        read_sealed(file_of(resealed(changed, body=longer)))


@pytest.mark.parametrize(
    "offsets",
    [[43], [0], [-1], [RECORDS_END], [1 << 62], [44, 44], [44, 80], [100, 44]],
    ids=str,
)
def test_entries_that_are_out_of_place_are_corrupt(offsets: list[int]) -> None:
    entries = [IndexEntry(offset, blake3(b"x")) for offset in offsets]
    with pytest.raises(Corrupt, match="impossible offset"):
        read_sealed(file_of(with_entries(entries)))


def test_entries_may_leave_gaps_where_damage_was() -> None:
    kept = [entries_of(CHUNKS)[0], entries_of(CHUNKS)[3]]
    assert read_sealed(file_of(with_entries(kept))).entries == kept


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_with_a_data_error(data: bytes) -> None:
    with pytest.raises(DataError):
        read_sealed(file_of(data))
