"""The compiled codec of record batches and the reference give the same, whatever they are given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.kernels.results import BatchStop
from tests.kernels.record_batches import number, record, records_of
from tests.kernels.samples import assert_same, bytes_like, load_compiled, numbers, quick

pytestmark = pytest.mark.thorough

i64 = st.integers(-(1 << 63), (1 << 63) - 1)
near = st.integers(-(1 << 40), 1 << 40)
part = st.one_of(st.none(), st.binary(max_size=200).flatmap(bytes_like))
anything = st.one_of(
    st.integers(-(1 << 66), 1 << 66),
    st.none(),
    st.text(max_size=3),
    st.binary(max_size=5),
    st.lists(st.one_of(st.integers(-2, 1 << 65), st.none(), st.binary(max_size=3)), max_size=4),
)


@st.composite
def header_blocks(draw: st.DrawFn) -> bytes:
    pairs = draw(
        st.lists(
            st.tuples(st.binary(max_size=9), st.one_of(st.none(), st.binary(max_size=9))),
            max_size=3,
        )
    )
    block = number(len(pairs))
    for name, value in pairs:
        block += number(len(name)) + name
        block += number(-1) if value is None else number(len(value)) + value
    return block


@st.composite
def calls(draw: st.DrawFn) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    values = draw(st.lists(part, max_size=10))
    count = len(values)
    keys = draw(st.one_of(st.none(), st.lists(part, min_size=count, max_size=count)))
    block = st.one_of(st.none(), header_blocks())
    headers = draw(st.one_of(st.none(), st.lists(block, min_size=count, max_size=count)))
    stamps = draw(st.sampled_from([near, i64]))
    return (values, keys, headers), {
        "timestamps_ms": draw(numbers(count, stamps, "q")),
        "first_timestamp_ms": draw(stamps),
        "capacity": draw(st.one_of(st.integers(0, 1500), st.just(1 << 70))),
    }


@quick
@given(calls())
def test_encoding_agrees(call: tuple[tuple[Any, Any, Any], dict[str, Any]]) -> None:
    parts, named = call
    assert_same("record_batch_encode", *parts, **named)


@quick
@given(calls())
def test_what_was_encoded_is_decoded_back(
    call: tuple[tuple[Any, Any, Any], dict[str, Any]],
) -> None:
    (values, keys, headers), named = call
    compiled = load_compiled()
    stamps = {**named, "timestamps_ms": 5, "first_timestamp_ms": 5}
    data, count = compiled.record_batch_encode(values, keys, headers, **stamps)
    found = compiled.record_batch_decode(data, 0, len(data), count=count, first_timestamp_ms=5)
    assert (found.end, found.stop) == (len(data), BatchStop.WHOLE)
    assert found.offsets.tolist() == list(range(count))
    for wanted, positions, lengths in (
        (values, found.value_positions, found.value_lengths),
        (keys or [None] * count, found.key_positions, found.key_lengths),
    ):
        got = [
            None if length < 0 else data[position : position + length]
            for position, length in zip(positions, lengths, strict=True)
        ]
        assert got == [None if one is None else bytes(one) for one in wanted[:count]]


@quick
@given(anything, anything, anything, anything, anything, anything)
def test_encoding_refuses_the_same_with_the_same_words(
    values: Any, keys: Any, headers: Any, stamps: Any, first: Any, capacity: Any
) -> None:
    named = {"timestamps_ms": stamps, "first_timestamp_ms": first, "capacity": capacity}
    assert_same("record_batch_encode", values, keys, headers, **named)
    assert_same("record_batch_encode", [b"ab", None], None, None, **named)
    assert_same("record_batch_encode", [b"ab", None], keys, headers, **{**named, "capacity": 99})


@quick
@given(anything, anything, anything, anything, anything, anything)
def test_decoding_refuses_the_same_with_the_same_words(
    buffer: Any, start: Any, end: Any, count: Any, offset: Any, stamp: Any
) -> None:
    named = {"count": count, "first_offset": offset, "first_timestamp_ms": stamp}
    assert_same("record_batch_decode", buffer, start, end, **named)
    assert_same("record_batch_decode", bytes(40), start, end, **named)
    assert_same("record_batch_decode", records_of([b"a"]), 0, 8, **named)


@quick
@given(calls(), st.data())
def test_decoding_agrees_on_damaged_data(
    call: tuple[tuple[Any, Any, Any], dict[str, Any]], data: st.DataObject
) -> None:
    values, keys, headers = call[0]
    stamps = {"timestamps_ms": 5, "first_timestamp_ms": data.draw(near), "capacity": 1 << 30}
    whole = load_compiled().record_batch_encode(values, keys, headers, **stamps).data
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 3)) if whole else 0):
        changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    changed += data.draw(st.sampled_from([b"", bytes(1), bytes(9), b"\xff" * 12]))
    end = data.draw(st.integers(0, len(changed)))
    count = data.draw(st.sampled_from([len(values), len(values) + 1, (1 << 31) - 1]))
    first = data.draw(st.sampled_from([0, (1 << 63) - 1]))
    for stop in (end, len(changed)):
        assert_same("record_batch_decode", changed, 0, stop, count=count, first_offset=first)
        assert_same("record_batch_decode", changed, end, len(changed), count=count)


@quick
@given(st.binary(max_size=60), st.integers(0, 9), i64)
def test_decoding_agrees_on_random_bytes(data: bytes, count: int, stamp: int) -> None:
    named = {"count": count, "first_timestamp_ms": stamp}
    assert_same("record_batch_decode", data, 0, len(data), **named)
    framed = number(len(data)) + data
    assert_same("record_batch_decode", framed, 0, len(framed), **named)


def test_decoding_agrees_at_every_truncation_and_every_flipped_bit() -> None:
    headers = number(1) + b"h" + number(-1)
    data = record(key_length=1, key=b"k", value=b"v" * 70, timestamp_delta=-300)
    data += record(offset_delta=1, header_count=1, headers=number(1) + headers[1:])
    for index in range(len(data)):
        assert_same("record_batch_decode", data, 0, index, count=2)
        for bit in range(8):
            changed = bytearray(data)
            changed[index] ^= 1 << bit
            assert_same("record_batch_decode", changed, 0, len(data), count=2)
