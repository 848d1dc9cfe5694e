"""The bloom filter: its size by its rule, its bits by theirs, no hash denied."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.kernels.checksum import blake3
from lakebed.seglake.bloom import Shape, bloom_shape, build_bloom, may_contain

HASHES = st.lists(st.binary(min_size=32, max_size=32), max_size=60)


def hashes(count: int, *, start: int = 0) -> list[bytes]:
    return [blake3(number.to_bytes(8, "little")) for number in range(start, start + count)]


def bits_by_the_rule(hash_: bytes, *, bits: int, probes: int) -> set[int]:
    """Written once more, from the rule and with nothing of the code."""
    first = int.from_bytes(hash_[:8], "little")
    second = int.from_bytes(hash_[8:16], "little") or 1
    return {(first + turn * second) % bits for turn in range(probes)}


def set_bits(bloom: bytes) -> set[int]:
    return {bit for bit in range(len(bloom) * 8) if bloom[bit // 8] & (1 << bit % 8)}


@pytest.mark.parametrize(
    ("count", "shape"),
    [
        (0, Shape(1024, 1)),
        (1, Shape(1024, 8)),
        (88, Shape(1024, 8)),
        (106, Shape(1024, 7)),
        (107, Shape(1032, 7)),
        (1000, Shape(9592, 7)),
        (1_000_000, Shape(9_585_064, 7)),
    ],
)
def test_the_size_follows_from_the_number_of_hashes(count: int, shape: Shape) -> None:
    assert bloom_shape(count) == shape
    assert shape.size * 8 == shape.bits


@given(st.integers(1, 10**7))
def test_the_size_is_as_the_rule_says(count: int) -> None:
    bits, probes = bloom_shape(count)
    wanted = max(1024, math.ceil(-count * math.log(0.01) / math.log(2) ** 2))
    assert wanted <= bits < wanted + 8
    assert bits % 8 == 0
    assert probes == min(8, max(1, round(bits / count * math.log(2))))


@given(HASHES)
def test_the_bits_are_those_of_the_rule_and_no_others(chosen: list[bytes]) -> None:
    bits, probes = bloom_shape(len(chosen))
    expected: set[int] = set()
    for hash_ in chosen:
        expected |= bits_by_the_rule(hash_, bits=bits, probes=probes)
    assert set_bits(build_bloom(chosen, count=len(chosen))) == expected


@given(HASHES)
def test_no_hash_that_was_put_in_is_denied(chosen: list[bytes]) -> None:
    bloom = build_bloom(chosen, count=len(chosen))
    assert all(may_contain(bloom, hash_, count=len(chosen)) for hash_ in chosen)


def test_a_step_of_zero_counts_as_one() -> None:
    hash_ = (7).to_bytes(8, "little") + bytes(24)
    assert set_bits(build_bloom([hash_], count=1)) == set(range(7, 15))


def test_the_sum_is_not_cut_to_64_bits() -> None:
    hash_ = b"\xff" * 32
    expected = {(turn + 1) * (2**64 - 1) % 1024 for turn in range(8)}
    assert set_bits(build_bloom([hash_], count=1)) == expected


def test_an_empty_filter_lets_nothing_through() -> None:
    bloom = build_bloom([], count=0)
    assert bloom == bytes(128)
    assert not any(may_contain(bloom, hash_, count=0) for hash_ in hashes(100))


def test_about_one_in_a_hundred_others_is_let_through() -> None:
    bloom = build_bloom(hashes(5000), count=5000)
    passed = sum(may_contain(bloom, other, count=5000) for other in hashes(10_000, start=5000))
    assert 50 < passed < 200
