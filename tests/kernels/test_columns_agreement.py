"""The compiled columns and the reference's are the same, whatever they are made from."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.keratin.headers import Producer, encode_headers
from tests.kernels.record_batches import number
from tests.kernels.samples import assert_same, keratin_data, load_compiled, quick
from tests.kernels.test_record_batch_agreement import anything, calls

pytestmark = pytest.mark.thorough

CODES = {"H": (0, 1 << 16), "I": (0, 1 << 32), "i": (-(1 << 31), 1 << 31), "Q": (0, 1 << 64)}


def columns(code: str, count: int) -> st.SearchStrategy[memoryview]:
    """Numbers as a buffer of some hundred bytes may have them, and others."""
    minimum, limit = CODES[code]
    near = st.integers(max(minimum, -2), 90)
    edge = st.sampled_from([limit - 1, limit // 2, limit - 8, limit // 4, max(minimum, 0)])
    item = st.one_of(near, near, near, edge)
    many = st.lists(item, min_size=count, max_size=count)
    return many.map(lambda values: memoryview(array(code, values)))


counts = st.integers(0, 20)
buffers = st.binary(max_size=120)
header = st.tuples(st.text(max_size=4), st.one_of(st.none(), st.binary(max_size=4)))
blocks = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.builds(
        encode_headers,
        st.one_of(st.none(), st.binary(max_size=9)),
        st.one_of(st.none(), st.just(Producer(1, 2, 3))),
        st.lists(header, max_size=3),
    ),
)


@quick
@given(st.data(), buffers, counts, st.sampled_from("QI"), st.sampled_from("iI"))
def test_gathering_agrees_on_random_numbers(
    data: st.DataObject, buffer: bytes, count: int, position_code: str, length_code: str
) -> None:
    positions = data.draw(columns(position_code, count))
    assert_same("gather", buffer, positions, data.draw(columns(length_code, count)))


@quick
@given(st.data(), st.binary(min_size=1, max_size=700), counts)
def test_gathering_agrees_on_slices_that_are_there(
    data: st.DataObject, buffer: bytes, count: int
) -> None:
    starts, sizes = array("Q"), array("i")
    for _ in range(count):
        start = data.draw(st.integers(0, len(buffer)))
        starts.append(start)
        sizes.append(data.draw(st.integers(-1, len(buffer) - start)))
    assert_same("gather", buffer, starts, sizes)
    found = load_compiled().gather(buffer, starts, sizes)
    wanted = [
        buffer[start : start + max(0, size)] for start, size in zip(starts, sizes, strict=True)
    ]
    assert found.data == b"".join(wanted)


@quick
@given(anything, anything, anything, anything, anything)
def test_what_is_no_column_is_refused_with_the_same_words(
    buffer: Any, first: Any, second: Any, third: Any, fourth: Any
) -> None:
    wide, narrow = array("Q", [0]), array("I", [0])
    assert_same("gather", buffer, wide, narrow)
    assert_same("gather", b"ab", first, second)
    assert_same("gather", b"ab", wide, second)
    assert_same("keratin_fields", buffer, first, second, third, fourth)
    assert_same("keratin_fields", buffer, wide, narrow, narrow, fourth)
    assert_same("record_batch_headers", buffer, first, second, third)
    assert_same("record_batch_headers", buffer, narrow, narrow, third)


@quick
@given(st.data(), buffers, counts)
def test_fields_agree_on_random_numbers(data: st.DataObject, buffer: bytes, count: int) -> None:
    parts = [data.draw(columns(code, count)) for code in "QIIH"]
    assert_same("keratin_fields", buffer, *parts)


@quick
@given(st.data(), st.lists(st.tuples(st.binary(max_size=20), blocks), max_size=8))
def test_fields_agree_on_records_with_blocks_that_may_be_none(
    data: st.DataObject, records: list[tuple[bytes, bytes | None]]
) -> None:
    written = keratin_data([one for one, _ in records], [block for _, block in records])
    scan = load_compiled().keratin_scan(written, 0, len(written), count_max=99)
    flags = data.draw(columns("H", len(records)))
    places = (scan.positions, scan.header_lengths, scan.payload_lengths)
    assert_same("keratin_fields", written, *places, flags)
    changed = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3)) if written else 0):
        changed[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    assert_same("keratin_fields", changed, *places, flags)


@quick
@given(st.data(), buffers, counts)
def test_headers_of_batches_agree_on_random_numbers(
    data: st.DataObject, buffer: bytes, count: int
) -> None:
    parts = [data.draw(columns("I", count)) for _ in range(3)]
    assert_same("record_batch_headers", buffer, *parts)


@quick
@given(calls(), st.data())
def test_headers_of_batches_agree_on_good_and_on_damaged_ones(
    call: tuple[tuple[Any, Any, Any], dict[str, Any]], data: st.DataObject
) -> None:
    values, keys, headers = call[0]
    stamps = {"timestamps_ms": 5, "first_timestamp_ms": 5, "capacity": 1 << 30}
    compiled = load_compiled()
    written = compiled.record_batch_encode(values, keys, headers, **stamps).data
    found = compiled.record_batch_decode(written, 0, len(written), count=len(values))
    places = (found.header_positions, found.header_lengths, found.header_counts)
    assert compiled.record_batch_headers(written, *places).message_count == len(values)
    assert_same("record_batch_headers", written, *places)
    changed = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3)) if written else 0):
        changed[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    assert_same("record_batch_headers", changed, *places)


def test_fields_agree_at_every_truncation_and_every_flipped_bit_of_a_block() -> None:
    block = encode_headers(b"key", Producer(1, 2, 3), [("n", b"v"), ("m", None)])
    for index in range(len(block)):
        for damaged in (block[:index], *(flipped(block, index, bit) for bit in range(8))):
            data = keratin_data([b"a", b"b"], [damaged, block])
            scan = load_compiled().keratin_scan(data, 0, len(data), count_max=9)
            places = (scan.positions, scan.header_lengths, scan.payload_lengths, scan.flags)
            assert_same("keratin_fields", data, *places)


def test_headers_of_batches_agree_at_every_flipped_bit() -> None:
    section = number(1) + b"h" + number(70) + bytes(70) + number(0) + number(-1)
    for index in range(len(section)):
        for bit in range(8):
            parts = [memoryview(array("I", [one])) for one in (0, len(section), 2)]
            assert_same("record_batch_headers", flipped(section, index, bit), *parts)


def flipped(data: bytes, index: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[index] ^= 1 << bit
    return bytes(changed)
