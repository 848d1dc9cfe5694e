"""Messages that stand as slices in buffers: encoded, their headers written, their keys hashed."""

from __future__ import annotations

import itertools
import mmap
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError, TooLarge
from lakebed.keratin.decoded_batch import header_section
from tests.kernels.samples import Kernels, assert_same, quick
from tests.kernels.test_columns_agreement import columns

NULLABLE = st.one_of(st.none(), st.binary(max_size=40))
I32_MAX = (1 << 31) - 1


def column(code: str, *values: int) -> memoryview:
    return memoryview(array(code, values))


def sliced(items: list[bytes | None], *, codes: str = "Qi") -> Any:
    """In a buffer where other bytes stand between them, the last one first."""
    buffer, positions, lengths = b"..", [0] * len(items), [-1] * len(items)
    for index, item in reversed(list(enumerate(items))):
        if item is not None:
            positions[index], lengths[index] = len(buffer), len(item)
            buffer += item + b"."
    return buffer, column(codes[0], *positions), column(codes[1], *lengths)


@pytest.mark.parametrize("codes", ["Qi", "Ii", "QI", "II"])
def test_slices_are_encoded_as_the_same_bytes_by_themselves(kernels: Kernels, codes: str) -> None:
    values: list[bytes | None] = [b"one", b"", b"t" * 300, b"four"]
    keys: list[bytes | None] = [b"", b"k" * 90, b"key", b"k"]
    headers: list[bytes | None] = [header_section([("n", None)]), b"", header_section([]), b"\0"]
    facts = {"timestamps_ms": column("q", 5, -3, 1 << 40, 7), "first_timestamp_ms": 5}
    wanted = kernels.record_batch_encode(values, keys, headers, **facts, capacity=9999)
    parts = [sliced(one, codes=codes) for one in (values, keys, headers)]
    assert kernels.record_batch_encode_slices(*parts, **facts, capacity=9999) == wanted
    assert wanted.message_count == 4


def test_a_negative_length_is_a_null(kernels: Kernels) -> None:
    values, keys = [None, b"v", None], [b"k", None, None]
    facts = {"timestamps_ms": 1, "first_timestamp_ms": 1, "capacity": 999}
    found = kernels.record_batch_encode_slices(sliced(values), sliced(keys), **facts)
    assert found == kernels.record_batch_encode(values, keys, **facts)


def test_only_those_that_fit_are_taken(kernels: Kernels) -> None:
    values = sliced([b"v" * 50] * 10)
    facts = {"timestamps_ms": 0, "first_timestamp_ms": 0}
    found = kernels.record_batch_encode_slices(values, **facts, capacity=58 * 3)
    assert (found.message_count, len(found.data)) == (3, 57 * 3)
    assert kernels.record_batch_encode_slices(values, **facts, capacity=56).message_count == 0


@pytest.mark.parametrize(
    ("position", "length"), [(0, 11), (11, 0), (9, 2), ((1 << 64) - 1, 1), (0, I32_MAX)]
)
def test_what_is_not_inside_its_buffer_is_refused(
    kernels: Kernels, position: int, length: int
) -> None:
    bad = (bytes(10), column("Q", 0, position), column("i", 10, length))
    good = (b"", column("Q", 0, 0), column("i", 0, 0))
    facts = {"timestamps_ms": 0, "first_timestamp_ms": 0, "capacity": 999}
    message = f"item 1 has {length} bytes at {position}, but .* at 10"
    for values, keys, headers in ((bad, None, None), (good, bad, None), (good, None, bad)):
        with pytest.raises(InputError, match=message):
            kernels.record_batch_encode_slices(values, keys, headers, **facts)
    with pytest.raises(InputError, match=message):
        kernels.murmur2_hashes(bad)
    for names, values in ((bad, good), (good, bad)):
        with pytest.raises(InputError, match=message):
            kernels.record_batch_sections(column("I", 2), names, values)


@pytest.mark.parametrize(
    "slices",
    [
        None,
        b"abc",
        (b"a", column("Q", 0)),
        ("text", column("Q", 0), column("i", 0)),
        (b"a", [0], column("i", 0)),
        (b"a", column("q", 0), column("i", 0)),
        (b"a", column("Q", 0), column("q", 0)),
        (b"a", column("Q", 0), column("i", 0, 0)),
    ],
)
def test_what_is_no_slices_is_refused(kernels: Kernels, slices: Any) -> None:
    good = (b"", column("Q", 0), column("i", 0))
    facts = {"timestamps_ms": 0, "first_timestamp_ms": 0, "capacity": 999}
    with pytest.raises(InputError):
        kernels.murmur2_hashes(slices)
    with pytest.raises(InputError):
        kernels.record_batch_encode_slices(slices, **facts)
    with pytest.raises(InputError):
        kernels.record_batch_sections(column("I", 1), slices, good)
    with pytest.raises(InputError):
        kernels.record_batch_sections(column("I", 1), good, slices)
    if slices is not None:
        with pytest.raises(InputError):
            kernels.record_batch_encode_slices(good, slices, **facts)


def test_columns_of_another_number_are_refused(kernels: Kernels) -> None:
    facts = {"timestamps_ms": 0, "first_timestamp_ms": 0, "capacity": 999}
    with pytest.raises(InputError, match="keys has 1 items, expected 2"):
        kernels.record_batch_encode_slices(sliced([b"", b""]), sliced([b""]), **facts)
    with pytest.raises(InputError, match="headers has 3 items, expected 2"):
        kernels.record_batch_encode_slices(
            sliced([b"", b""]), None, sliced([b"", b"", b""]), **facts
        )
    with pytest.raises(InputError, match="values has 1 items, expected 2"):
        kernels.record_batch_sections(column("I", 2), sliced([b"", b""]), sliced([b""]))


def test_a_value_of_more_bytes_than_a_batch_can_say_is_too_large(kernels: Kernels) -> None:
    with mmap.mmap(-1, 1 << 31) as memory:
        large = (memory, column("Q", 0), column("I", 1 << 31))
        with pytest.raises(TooLarge):
            kernels.record_batch_encode_slices(
                large, timestamps_ms=0, first_timestamp_ms=0, capacity=9
            )


def test_sections_are_what_a_batch_has_of_its_headers(kernels: Kernels) -> None:
    messages: list[Any] = [
        [("a", b"1"), ("b", None)],
        [],
        [("", b"")],
        [],
        [("long" * 40, b"v" * 200)] * 70,
    ]
    names = [name.encode() for headers in messages for name, _ in headers]
    values = [value for headers in messages for _, value in headers]
    found = kernels.record_batch_sections(
        column("I", *map(len, messages)), sliced(names), sliced(values)
    )
    offsets = found.offsets.tolist()
    sections = [found.data[a:b] for a, b in itertools.pairwise(offsets)]
    assert sections == [header_section(headers) for headers in messages]
    assert (found.offsets.format, found.validity, found.null_count) == ("i", None, 0)


def test_a_header_without_a_name_is_refused(kernels: Kernels) -> None:
    with pytest.raises(InputError, match="name 1 is null"):
        kernels.record_batch_sections(column("I", 2), sliced([b"", None]), sliced([b"", None]))


@pytest.mark.parametrize("counts", [(1,), (3,), (2, 1), ((1 << 32) - 1, 3), ()])
def test_counts_of_other_headers_are_refused(kernels: Kernels, counts: tuple[int, ...]) -> None:
    message = f"the header counts add up to {sum(counts)}, but 2 headers were given"
    with pytest.raises(InputError, match=message):
        kernels.record_batch_sections(
            column("I", *counts), sliced([b"a", b"b"]), sliced([b"", b""])
        )


def test_sections_of_more_than_an_offset_can_say_are_too_large(compiled: Kernels) -> None:
    with mmap.mmap(-1, 1 << 30) as memory:
        large = (memory, column("Q", 0, 0), column("I", 1 << 30, 1 << 30))
        with pytest.raises(TooLarge):
            compiled.record_batch_sections(column("I", 1, 1), large, sliced([None, None]))


def test_keys_are_hashed_as_kafkas_client_does(kernels: Kernels) -> None:
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    found = kernels.murmur2_hashes(sliced([*known, None]))
    hashes = [wanted % (1 << 32) for wanted in known.values()]
    assert found.tolist() == [*hashes, 0]
    assert list(map(kernels.murmur2, known)) == hashes
    assert list(map(kernels.murmur2, map(bytearray, known))) == hashes
    assert (found.format, found.readonly) == ("I", True)


@pytest.mark.parametrize("length", range(40))
def test_a_key_of_every_length_is_hashed_as_elsewhere(kernels: Kernels, length: int) -> None:
    partitioner = pytest.importorskip("aiokafka.partitioner")
    key = bytes(range(200, 200 + length))
    wanted = partitioner.murmur2(key) % (1 << 32)
    assert kernels.murmur2_hashes(sliced([key])).tolist() == [wanted]
    assert kernels.murmur2(key) == kernels.murmur2(memoryview(b"x" + key)[1:]) == wanted


@pytest.mark.parametrize("key", ["text", 5, None, [1], memoryview(b"abcd")[::2]])
def test_a_key_that_is_no_bytes_is_refused(kernels: Kernels, key: object) -> None:
    with pytest.raises(InputError, match="a key must be"):
        kernels.murmur2(key)


@pytest.mark.thorough
@quick
@given(st.lists(st.tuples(NULLABLE, NULLABLE, st.binary(max_size=9)), max_size=12), st.data())
def test_encoding_agrees(rows: list[Any], data: st.DataObject) -> None:
    parts = [sliced([row[index] for row in rows]) for index in range(3)]
    capacity = data.draw(st.integers(0, 600))
    stamps = array("q", data.draw(st.lists(st.integers(-9, 9), min_size=len(rows), max_size=99)))
    facts = {"timestamps_ms": stamps, "first_timestamp_ms": 3, "capacity": capacity}
    assert_same("record_batch_encode_slices", *parts, **facts)


@pytest.mark.thorough
@quick
@given(st.data(), st.binary(max_size=120), st.integers(0, 9), st.sampled_from("QI"))
def test_whatever_the_numbers_are_both_agree(
    data: st.DataObject, buffer: bytes, count: int, code: str
) -> None:
    first = (buffer, data.draw(columns(code, count)), data.draw(columns("i", count)))
    second = (buffer, data.draw(columns(code, count)), data.draw(columns("i", count)))
    facts = {"timestamps_ms": 0, "first_timestamp_ms": 0, "capacity": 500}
    assert_same("murmur2_hashes", first)
    assert_same("record_batch_encode_slices", first, second, **facts)
    assert_same("record_batch_sections", data.draw(columns("I", count)), first, second)
