"""The first whole record among bytes that may be anything."""

from __future__ import annotations

import mmap
import random
import time
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.kernels import reference
from lakebed.kernels.format import AOF_RECORD
from lakebed.kernels.polynomials import CRC64NVME_POLYNOMIAL, shift_crc
from tests.kernels.samples import Kernels, aof_data, assert_same, payload_lists, quick

RECORD = aof_data([b"a record"])
LARGE = aof_data([random.Random(3).randbytes(70_001)])  # longer than any part summed directly
TEXT = b"Bytes that are not records, of some length. " * 50


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", -1),
        (bytes(23), -1),
        (bytes(24), -1),
        (bytes(1000), -1),
        (RECORD, 0),
        (RECORD[:-1], -1),
        (bytes(8) + RECORD, 8),
        (bytes(4) + RECORD, -1),  # not on a boundary
        (TEXT[:80] + RECORD + bytes(100), 80),
        (RECORD[:-8] + RECORD, 24),
        (b"\xff" * 800 + LARGE, 800),
        (b"\x01" * 800 + LARGE[:-1], -1),
        (RECORD[:24] + b"a recorD" + LARGE, 32),
        (LARGE[:80] + RECORD + LARGE[112:], 80),  # in the middle of a damaged one
    ],
)
def test_the_first_whole_record_is_found(kernels: Kernels, data: bytes, found: int) -> None:
    assert kernels.aof_find(data, 0, len(data)) == found


def test_steps_are_counted_from_the_start(kernels: Kernels) -> None:
    data = b"odd" + bytes(16) + RECORD
    assert kernels.aof_find(data, 3, len(data)) == 19
    assert kernels.aof_find(data, 0, len(data)) == -1


def test_a_record_that_ends_behind_the_end_is_not_found(kernels: Kernels) -> None:
    data = RECORD + LARGE + RECORD
    behind = len(RECORD) + len(LARGE)
    assert kernels.aof_find(data, 8, len(data)) == len(RECORD)
    assert kernels.aof_find(data, 8, behind - 1) == -1
    assert kernels.aof_find(data, len(RECORD) + 8, len(data)) == behind


def test_a_header_without_a_length_is_no_record(kernels: Kernels) -> None:
    empty_payload = AOF_RECORD.pack(AOF_RECORD.record(0, 0, 5, 5))
    assert kernels.aof_find(empty_payload, 0, len(empty_payload)) == -1


def test_a_mapped_file_is_searched_in_place(kernels: Kernels) -> None:
    with mmap.mmap(-1, 4096) as mapped:
        mapped[2048 : 2048 + len(RECORD)] = RECORD
        assert kernels.aof_find(mapped, 0, 4096) == 2048


def test_every_set_of_features_finds_the_same(featured: Kernels) -> None:
    source = random.Random(11)
    for length in (513, 600, 4097, 65_536, 70_003, 300_000):
        garbage = source.randbytes(8 * source.randrange(1, 500))
        data = garbage + aof_data([source.randbytes(length)]) + bytes(64)
        assert featured.aof_find(data, 0, len(data)) == len(garbage)
        damaged = bytearray(data)
        damaged[len(garbage) + 24 + length // 2] ^= 16
        assert featured.aof_find(damaged, 0, len(data)) == -1


@quick
@given(payload_lists, st.data())
def test_both_find_the_same_in_damaged_data(payloads: list[bytes], data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.binary(max_size=60)) + aof_data(payloads))
    for _ in range(data.draw(st.integers(0, 4)) if changed else 0):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(changed)))
    assert_same("aof_find", changed, data.draw(st.integers(0, end)), end)
    assert_same("aof_find", changed, 0, len(changed))


@quick
@given(st.lists(st.integers(0, 3000), max_size=400), st.integers(0, 2**32))
def test_both_find_the_same_among_lengths_that_fit(lengths: list[int], seed: int) -> None:
    source = random.Random(seed)
    words = array("Q", [source.getrandbits(32) << 32 | length for length in lengths])
    record = aof_data([source.randbytes(source.choice([3, 600, 1500]))])
    data = words.tobytes() + source.choice([b"", record])
    assert_same("aof_find", data, 0, len(data))


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_a_crc_moves_over_what_follows_whatever_it_is(before: bytes, after: bytes) -> None:
    moved = shift_crc(reference.crc64nvme(before), len(after), CRC64NVME_POLYNOMIAL)
    assert reference.crc64nvme(before + after) == moved ^ reference.crc64nvme(after)


@pytest.mark.parametrize("length", [1_000_000, 4_000_000])
def test_lengths_that_reach_far_do_not_make_the_search_quadratic(
    compiled: Kernels, length: int
) -> None:
    """Half a million candidates of megabytes each: terabytes, if each were summed."""
    words = array("Q", [length]) * (1 << 19)
    before = time.monotonic()
    assert compiled.aof_find(words, 0, len(words) * 8) == -1
    assert time.monotonic() - before < 20  # it takes a tenth of a second


def test_the_reference_is_not_quadratic_either() -> None:
    words = array("Q", [300_000]) * 50_000  # 12 thousand candidates: 3.7 GB, if each were summed
    assert reference.aof_find(words, 0, len(words) * 8) == -1
