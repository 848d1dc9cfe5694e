"""Record ids: packing, printing, order, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.record_id import RecordId
from lakebed.base.errors import InputError

u32 = st.integers(0, 2**32 - 1)


@given(u32, u32)
def test_an_id_round_trips(segment_index: int, segment_offset: int) -> None:
    record_id = RecordId.from_parts(segment_index, segment_offset)
    assert (record_id.segment_index, record_id.segment_offset) == (segment_index, segment_offset)
    assert RecordId.parse(str(record_id)) == record_id
    assert RecordId.parse(str(int(record_id))) == record_id


@given(u32, u32, u32, u32)
def test_ids_sort_as_the_log_does(first: int, start: int, second: int, other: int) -> None:
    ordered = (first, start) < (second, other)
    assert (RecordId.from_parts(first, start) < RecordId.from_parts(second, other)) is ordered


def test_an_id_is_the_packed_number() -> None:
    assert RecordId.from_parts(3, 64) == 3 << 32 | 64
    assert str(RecordId(3 << 32 | 64)) == "3:64"
    assert repr(RecordId(3 << 32 | 64)) == "RecordId(3:64)"


@pytest.mark.parametrize(
    "text",
    ["", ":", "3:", ":64", "3:64:1", "-1:64", "3:-1", "3.5", "0x10", " 3:64", "3:64\n", "٣:64",
     "4294967296:0", "0:4294967296", str(1 << 64), "9" * 5000, "3:" + "9" * 5000, "a:b", "\0"],
)  # fmt: skip
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        RecordId.parse(text)


@pytest.mark.parametrize(("index", "offset"), [(-1, 0), (0, -1), (1 << 32, 0), (0, 1 << 32)])
def test_parts_beyond_32_bits_are_refused(index: int, offset: int) -> None:
    with pytest.raises(InputError, match="does not fit in 32 bits"):
        RecordId.from_parts(index, offset)
