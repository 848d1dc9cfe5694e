"""A walk through a segment: every whole record is found, torn and damaged are told apart."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import UnknownVersion
from lakebed.base.layout import Buffer
from lakebed.kernels.checksum import blake3
from lakebed.seglake.format import (
    CHUNK_HEADER,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    ChunkHeader,
    SegmentHeader,
)
from lakebed.seglake.model import CHUNK_BYTES
from lakebed.seglake.segment_file import IndexEntry, Walk, read_sealed, seal_block, walk
from tests.seglake.segment_samples import (
    PATH,
    entries_of,
    file_of,
    flipped,
    open_segment,
    record,
    sealed_segment,
)

CHUNKS = [b"first", b"the second", bytes(range(256)), b"fourth", b"5"]
DATA = open_segment(CHUNKS)
OFFSETS = [entry.offset for entry in entries_of(CHUNKS)]
STARTS = [offset - CHUNK_HEADER.size for offset in OFFSETS]
ENDS = [*STARTS[1:], len(DATA)]


def walked(data: bytes, *, confirmed_end: int = 0, known_offsets: list[int] | None = None) -> Walk:
    return walk(
        file_of(data),
        size=len(data),
        confirmed_end=confirmed_end,
        known_offsets=known_offsets or [],
    )


def offsets(found: Walk) -> list[int]:
    return [entry.offset for entry, _ in found.entries]


def damaged(found: Walk) -> list[tuple[int, int]]:
    """As places from, to."""
    return [(damage.offset, damage.offset + damage.length) for damage in found.damage]


def with_length(data: bytes, number: int, length: int) -> bytes:
    """A record's header with another length."""
    place = STARTS[number] + CHUNK_HEADER.offset_of("length")
    return data[:place] + length.to_bytes(4, "little") + data[place + 4 :]


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=20))
def test_whole_records_are_found_with_their_places(chunks: list[bytes]) -> None:
    data = open_segment(chunks)
    expected = list(zip(entries_of(chunks), map(len, chunks), strict=True))
    for confirmed_end in (0, len(data)):
        found = walked(data, confirmed_end=confirmed_end)
        assert found == Walk(expected, len(data), torn=False, damage=[])


def test_records_larger_than_a_window_are_read() -> None:
    random = Random(1)
    chunks = [random.randbytes(length) for length in (CHUNK_BYTES, 1, 1 << 20, 700_000, 700_000)]
    data = open_segment(chunks)
    found = walked(data)
    assert [entry for entry, _ in found.entries] == entries_of(chunks)
    assert [length for _, length in found.entries] == [len(chunk) for chunk in chunks]


def test_memory_is_bounded_by_a_record() -> None:
    class Counting:
        """Passes on, and keeps the largest length that was asked for."""

        path = PATH

        def __init__(self) -> None:
            self.file = file_of(open_segment([b"x" * 300_000] * 20) + bytes(3 << 20))
            self.largest = 0

        def pread(self, offset: int, length: int) -> Buffer:
            self.largest = max(self.largest, length)
            return self.file.pread(offset, length)

    counting = Counting()
    walk(counting, size=counting.file.size())  # type: ignore[arg-type]
    assert counting.largest <= 1 << 20


def test_zeros_behind_the_last_record_are_the_end() -> None:
    found = walked(DATA + bytes(5000))
    assert (offsets(found), found.end, found.torn) == (OFFSETS, len(DATA), False)


def test_bytes_behind_zeros_are_torn() -> None:
    found = walked(DATA + bytes(2 << 20) + b"late")
    assert (offsets(found), found.end, found.torn) == (OFFSETS, len(DATA), True)


def test_every_truncation_ends_behind_the_last_whole_record() -> None:
    for size in range(len(DATA) + 1):
        found = walk(file_of(DATA), size=size)
        whole = [end for end in ENDS if end <= size]
        end = max(whole, default=8 if size >= 8 else 0)
        assert (len(found.entries), found.end) == (len(whole), end)
        assert found.damage == []
        assert found.torn == any(DATA[end:size])


def test_a_truncation_below_what_was_confirmed_is_damage() -> None:
    for size in range(len(DATA)):
        found = walk(file_of(DATA[:size]), size=size, confirmed_end=len(DATA))
        assert found.damage[-1].offset + found.damage[-1].length == len(DATA)
        assert found.end == size, "nothing of the damaged bytes is cut"
        assert not found.torn


def test_every_flipped_bit_below_what_was_confirmed_is_damage_of_its_record_alone() -> None:
    for number, (start, end) in enumerate(zip(STARTS, ENDS, strict=True)):
        others = OFFSETS[:number] + OFFSETS[number + 1 :]
        for offset in range(start, end):
            for bit in (0, 7):
                data = flipped(DATA, offset, bit)
                found = walked(data, confirmed_end=len(DATA), known_offsets=OFFSETS)
                assert damaged(found) == [(start, end)]
                assert offsets(found) == others
                assert (found.end, found.torn) == (len(DATA), False)


def test_a_flipped_bit_of_the_last_record_is_torn_where_nothing_was_confirmed() -> None:
    for offset in range(STARTS[-1], len(DATA)):
        found = walked(flipped(DATA, offset), confirmed_end=STARTS[-1])
        assert (offsets(found), found.end, found.torn) == (OFFSETS[:-1], STARTS[-1], True)
        assert found.damage == []


def test_a_bad_record_with_a_whole_one_behind_it_is_damage_even_if_unconfirmed() -> None:
    found = walked(flipped(DATA, OFFSETS[1]))
    assert damaged(found) == [(STARTS[1], ENDS[1])]
    assert "does not match its hash" in found.damage[0].why
    assert offsets(found) == [OFFSETS[0], *OFFSETS[2:]]


def test_lengths_lead_past_several_bad_records() -> None:
    data = flipped(flipped(DATA, OFFSETS[1]), OFFSETS[2])
    found = walked(data, confirmed_end=len(DATA))
    assert damaged(found) == [(STARTS[1], ENDS[2])]
    assert offsets(found) == [OFFSETS[0], *OFFSETS[3:]]


@pytest.mark.parametrize("length", [0, CHUNK_BYTES + 1, 2**32 - 1, 100_000])
def test_behind_a_lost_length_a_known_record_is_found(length: int) -> None:
    data = with_length(DATA, 1, length)
    found = walked(data, confirmed_end=len(DATA), known_offsets=[OFFSETS[3]])
    assert damaged(found) == [(STARTS[1], STARTS[3])]
    assert offsets(found) == [OFFSETS[0], *OFFSETS[3:]]


def test_behind_a_lost_length_with_nothing_known_the_confirmed_end_is_next() -> None:
    data = with_length(DATA, 1, 0)
    found = walked(data, confirmed_end=STARTS[4])
    assert damaged(found) == [(STARTS[1], STARTS[4])]
    assert offsets(found) == [OFFSETS[0], OFFSETS[4]]
    assert (found.end, found.torn) == (len(DATA), False)


def test_a_length_that_leads_past_a_known_record_does_not_hide_it() -> None:
    too_far = STARTS[4] - OFFSETS[1]
    found = walked(with_length(DATA, 1, too_far), known_offsets=OFFSETS)
    assert damaged(found) == [(STARTS[1], ENDS[1])]
    assert offsets(found) == [OFFSETS[0], *OFFSETS[2:]]


def test_a_length_that_leads_past_the_confirmed_end_does_not_hide_what_is_there() -> None:
    too_far = STARTS[4] - OFFSETS[1]
    found = walked(with_length(DATA, 1, too_far), confirmed_end=STARTS[3])
    assert damaged(found) == [(STARTS[1], STARTS[3])]
    assert offsets(found) == [OFFSETS[0], *OFFSETS[3:]]


def test_the_record_that_a_length_leads_to_comes_before_known_ones_behind_it() -> None:
    found = walked(flipped(DATA, OFFSETS[1]), known_offsets=[OFFSETS[4]])
    assert damaged(found) == [(STARTS[1], ENDS[1])]
    assert offsets(found) == [OFFSETS[0], *OFFSETS[2:]]


def test_a_record_longer_than_a_chunk_is_bad_whatever_its_hash() -> None:
    data = bytes(CHUNK_BYTES + 1)
    found = walked(DATA + CHUNK_HEADER.pack(ChunkHeader(blake3(data), len(data))) + data)
    assert (offsets(found), found.end, found.torn) == (OFFSETS, len(DATA), True)


def test_known_records_that_are_bad_too_are_passed() -> None:
    data = flipped(with_length(DATA, 1, 0), OFFSETS[2])
    found = walked(data, confirmed_end=len(DATA), known_offsets=OFFSETS)
    assert damaged(found) == [(STARTS[1], ENDS[2])]
    assert offsets(found) == [OFFSETS[0], *OFFSETS[3:]]


def test_zeros_below_what_was_confirmed_are_damage() -> None:
    lost = DATA[: STARTS[1]] + bytes(ENDS[2] - STARTS[1]) + DATA[ENDS[2] :]
    found = walked(lost, confirmed_end=len(DATA), known_offsets=OFFSETS)
    assert damaged(found) == [(STARTS[1], ENDS[2])]
    assert offsets(found) == [OFFSETS[0], *OFFSETS[3:]]


def test_damage_up_to_the_confirmed_end_is_followed_by_a_torn_tail() -> None:
    found = walked(with_length(DATA, 3, 0) + b"half", confirmed_end=len(DATA))
    assert damaged(found) == [(STARTS[3], len(DATA))]
    assert (offsets(found), found.end, found.torn) == (OFFSETS[:3], len(DATA), True)


def test_known_offsets_that_are_no_records_do_no_harm() -> None:
    wild = [-5, 0, 7, 44, STARTS[2] + 3, len(DATA) + 50, 1 << 62]
    found = walked(flipped(DATA, OFFSETS[1]), confirmed_end=len(DATA), known_offsets=wild)
    assert offsets(found) == [OFFSETS[0], *OFFSETS[2:]]


def test_records_are_found_behind_a_header_that_was_lost() -> None:
    for confirmed_end in (0, len(DATA)):
        found = walked(bytes(8) + DATA[8:], confirmed_end=confirmed_end)
        assert damaged(found) == [(0, 8)]
        assert offsets(found) == OFFSETS


def test_a_file_that_was_never_written_holds_nothing() -> None:
    assert walked(b"") == Walk([], 0, torn=False, damage=[])
    assert walked(bytes(100)) == Walk([], 0, torn=False, damage=[])
    assert walked(b"SLG") == Walk([], 0, torn=True, damage=[])
    assert walked(b"\x55" * 100) == Walk([], 0, torn=True, damage=[])


@pytest.mark.parametrize("version", [0, 2])
def test_a_header_of_another_version_is_refused(version: int) -> None:
    header = SEGMENT_HEADER.pack(SegmentHeader(SEGMENT_MAGIC, version))
    with pytest.raises(UnknownVersion, match=f"{PATH}: at byte 0.*expected 1, found {version}"):
        walked(header + DATA[8:])


def test_the_records_of_a_sealed_segment_end_where_its_footer_says() -> None:
    file = file_of(sealed_segment(CHUNKS))
    end = read_sealed(file).data_end
    found = walk(file, size=end, confirmed_end=end)
    assert [entry for entry, _ in found.entries] == read_sealed(file).entries
    assert (found.end, found.torn, found.damage) == (end, False, [])


def test_a_sealing_without_its_end_is_a_torn_tail() -> None:
    """So that a crash within the seal is repaired by sealing again."""
    sealed = sealed_segment(CHUNKS)
    for size in range(len(DATA) + 1, len(sealed) + 1):
        found = walked(sealed[:size], confirmed_end=len(DATA))
        assert (offsets(found), found.end, found.damage) == (OFFSETS, len(DATA), [])


CASES = st.tuples(
    st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(8, 1000), st.integers(0, 255)), max_size=6),
    st.integers(0, 12),
    st.booleans(),
)


@given(CASES)
def test_whatever_happens_to_the_bytes_only_true_records_are_found(
    case: tuple[list[bytes], list[tuple[int, int]], int, bool],
) -> None:
    chunks, changes, confirmed, is_known = case
    changed = bytearray(open_segment(chunks))
    for place, value in changes:
        changed[8 + place % (len(changed) - 8)] = value
    data = bytes(changed)
    entries = entries_of(chunks)
    confirmed_end = [*(entry.offset - 36 for entry in entries), len(data)][confirmed % len(entries)]
    known = [entry.offset for entry in entries] if is_known else []
    found = walked(data, confirmed_end=confirmed_end, known_offsets=known)
    for entry, length in found.entries:
        assert blake3(data[entry.offset : entry.offset + length]) == entry.hash
    is_whole = [data[entry.offset - 36 :].startswith(record(chunk))
                for entry, chunk in zip(entries, chunks, strict=True)]  # fmt: skip
    if is_known:
        wanted = [entry for entry, whole in zip(entries, is_whole, strict=True) if whole]
        assert [entry for entry, _ in found.entries] == wanted
    pieces = [(entry.offset - 36, entry.offset + length) for entry, length in found.entries]
    pieces = sorted([*pieces, *damaged(found)])
    assert [start for start, _ in pieces] == [8, *(end for _, end in pieces)][: len(pieces)]
    assert found.end == max([8, *(end for _, end in pieces)]) >= confirmed_end
    sealed = data[: found.end] + seal_block([e for e, _ in found.entries], data_end=found.end).data
    assert read_sealed(file_of(sealed)).entries == [IndexEntry(*e) for e, _ in found.entries]
