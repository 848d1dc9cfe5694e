"""BLAKE3: published values, and pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.kernels.checksum import BLAKE3_BYTES, Blake3, blake3


def test_blake3_of_the_published_vectors() -> None:
    empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert blake3(b"").hex() == empty
    zero = "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"
    assert blake3(b"\x00").hex() == zero
    assert len(blake3(b"")) == BLAKE3_BYTES


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_hash_of_pieces_equals_that_of_the_whole(first: bytes, second: bytes) -> None:
    hasher = Blake3()
    hasher.update(first)
    assert hasher.digest() == blake3(first)
    hasher.update(second)
    assert hasher.digest() == blake3(first + second)
