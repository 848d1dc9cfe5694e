"""Declaring binary records: sizes, offsets, padding, bytes, tables, and what is refused."""

from __future__ import annotations

import struct
from typing import Annotated, NamedTuple

import pytest

from lakebed.base.errors import Torn
from lakebed.base.layout import Layout, LayoutError, PadAfter, Raw, i64, u8, u16, u32, u64


class Sample(NamedTuple):
    """A record with every kind of field."""

    magic: Annotated[bytes, Raw(4)]  # always SMPL
    version: Annotated[u16, PadAfter(2)]  # 1
    flag: u8
    amount: u32
    total: u64  # bytes
    moment: i64


LITTLE = Layout(Sample, order="<", size=29)
BIG = Layout(Sample, order=">", size=29)
VALUE = Sample(b"SMPL", 1, 2, 3, 4, -5)


def test_little_endian_bytes_are_exact() -> None:
    expected = "534d504c 0100 0000 02 03000000 0400000000000000 fbffffffffffffff"
    assert LITTLE.pack(VALUE) == bytes.fromhex(expected)


def test_big_endian_bytes_are_exact() -> None:
    expected = "534d504c 0001 0000 02 00000003 0000000000000004 fffffffffffffffb"
    assert BIG.pack(VALUE) == bytes.fromhex(expected)


def test_offsets_are_computed_with_padding() -> None:
    assert [(f.name, f.offset, f.size) for f in LITTLE.fields] == [
        ("magic", 0, 4),
        ("version", 4, 2),
        ("flag", 8, 1),
        ("amount", 9, 4),
        ("total", 13, 8),
        ("moment", 21, 8),
    ]
    assert LITTLE.offset_of("amount") == 9


def test_a_size_that_differs_from_the_format_is_refused_at_once() -> None:
    with pytest.raises(LayoutError, match="is 29 bytes, but 28 are declared"):
        Layout(Sample, order="<", size=28)


def test_native_byte_order_is_refused() -> None:
    with pytest.raises(LayoutError, match="byte order"):
        Layout(Sample, order="=", size=29)  # type: ignore[arg-type]


def test_a_field_without_a_binary_type_is_refused() -> None:
    class Vague(NamedTuple):
        number: int

    with pytest.raises(LayoutError, match=r"Vague\.number is not annotated with a binary type"):
        Layout(Vague, order="<", size=8)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(LayoutError, match="no field 'nothing'"):
        LITTLE.offset_of("nothing")


@pytest.mark.parametrize("length", range(29))
def test_a_record_cut_short_is_torn(length: int) -> None:
    with pytest.raises(Torn) as caught:
        LITTLE.unpack(LITTLE.pack(VALUE)[:length])
    assert caught.value.expected == "29 bytes"


def test_an_offset_outside_the_buffer_is_torn() -> None:
    for offset in (-1, 1, 30):
        with pytest.raises(Torn):
            LITTLE.unpack(LITTLE.pack(VALUE), offset)


def test_packing_into_a_buffer_leaves_its_surroundings() -> None:
    buffer = bytearray(b"\xff" * 40)
    LITTLE.pack_into(buffer, 5, VALUE)
    assert buffer[:5] == b"\xff" * 5
    assert buffer[34:] == b"\xff" * 6
    assert LITTLE.unpack(buffer, 5) == VALUE


def test_iterating_yields_every_record() -> None:
    values = [VALUE._replace(amount=n) for n in range(5)]
    data = b"".join(map(LITTLE.pack, values))
    assert list(LITTLE.iter_unpack(data)) == values
    with pytest.raises(Torn):
        LITTLE.iter_unpack(data[:-1])


def test_a_value_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(struct.error):
        LITTLE.pack(VALUE._replace(flag=256))


def test_padding_is_written_as_zeros_and_can_be_checked() -> None:
    data = bytearray(LITTLE.pack(VALUE))
    assert LITTLE.padding_is_zero(data)
    data[7] = 1
    assert not LITTLE.padding_is_zero(data)
    assert LITTLE.unpack(data) == VALUE


def test_the_table_has_offsets_types_and_the_comments() -> None:
    assert LITTLE.markdown().splitlines()[2:6] == [
        "| 0 | 4 | `magic` | bytes[4] | always SMPL |",
        "| 4 | 2 | `version` | u16 | 1 |",
        "| 6 | 2 |  | zero | padding |",
        "| 8 | 1 | `flag` | u8 |  |",
    ]
