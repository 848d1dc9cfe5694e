"""Public check values, increments, and the fold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.checksum import Blake3, blake3, crc32c, crc64nvme, fold64

CHECK = b"123456789"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (CHECK, 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_crc32c_of_the_rfc_3720_vectors(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (CHECK, 0xAE8B14860A799888),
        (bytes(4096), 0x6482D367EB22B64E),
        (b"\xff" * 4096, 0xC0DDBA7302ECA3AC),
    ],
)
def test_crc64nvme_of_the_published_vectors(data: bytes, expected: int) -> None:
    assert crc64nvme(data) == expected


def test_blake3_of_the_published_vectors() -> None:
    empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert blake3(b"").hex() == empty
    one = "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"
    assert blake3(b"\x00").hex() == one


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_checksums_of_pieces_equal_those_of_the_whole(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
    assert crc64nvme(second, crc64nvme(first)) == crc64nvme(first + second)
    hasher = Blake3()
    hasher.update(first)
    hasher.update(second)
    assert hasher.digest() == blake3(first + second)


def test_the_fold_is_upper_half_xor_lower_half() -> None:
    assert fold64(0xAE8B14860A799888) == 0xAE8B1486 ^ 0x0A799888
    assert fold64(0) == 0


def test_views_are_taken_without_copying() -> None:
    assert crc64nvme(memoryview(bytearray(b"xx" + CHECK))[2:]) == 0xAE8B14860A799888
    assert crc32c(memoryview(bytearray(b"xx" + CHECK))[2:]) == 0xE3069283
