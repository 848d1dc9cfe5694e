"""Ranges of bytes."""

from __future__ import annotations

import pytest

from lakebed.seglake.errors import BadRange
from lakebed.seglake.ranges import ByteRange


@pytest.mark.parametrize(
    ("byte_range", "expected"),
    [
        (ByteRange(0, 9), (0, 10)),
        (ByteRange(0, 0), (0, 1)),
        (ByteRange(9, 9), (9, 10)),
        (ByteRange(3), (3, 10)),
        (ByteRange(3, 1000), (3, 10)),
        (ByteRange(None, 3), (7, 10)),
        (ByteRange(None, 10), (0, 10)),
        (ByteRange(None, 1000), (0, 10)),
    ],
    ids=str,
)
def test_a_range_of_ten_bytes(byte_range: ByteRange, expected: tuple[int, int]) -> None:
    assert byte_range.resolve(10) == expected


@pytest.mark.parametrize(
    "byte_range",
    [ByteRange(10), ByteRange(10, 12), ByteRange(5, 4), ByteRange(None, 0), ByteRange(-1, 3)],
    ids=str,
)
def test_a_range_without_a_byte(byte_range: ByteRange) -> None:
    with pytest.raises(BadRange) as raised:
        byte_range.resolve(10)
    assert raised.value.size == 10


@pytest.mark.parametrize("byte_range", [ByteRange(0), ByteRange(0, 0), ByteRange(None, 5)], ids=str)
def test_nothing_has_no_range(byte_range: ByteRange) -> None:
    with pytest.raises(BadRange):
        byte_range.resolve(0)
