"""The records section of a record batch: what is encoded, decoded and refused."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest

from lakebed.base.errors import InputError
from lakebed.kernels.results import BatchRecords, BatchStop
from tests.kernels.record_batches import number, record, records_of
from tests.kernels.samples import Kernels

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1
I64_MIN = -(1 << 63)


def decode(kernels: Kernels, data: bytes, count: int, **named: Any) -> BatchRecords:
    found: BatchRecords = kernels.record_batch_decode(data, 0, len(data), count=count, **named)
    return found


def test_one_message_is_encoded_byte_by_byte(kernels: Kernels) -> None:
    encoded = kernels.record_batch_encode(
        [b"value"], [b"key"], timestamps_ms=7, first_timestamp_ms=7, capacity=100
    )
    assert encoded.data == b"\x1c\x00\x00\x00\x06key\x0avalue\x00"
    assert encoded.message_count == 1


def test_a_null_is_not_an_empty_value(kernels: Kernels) -> None:
    values = [b"", None, b"v", None]
    keys = [None, b"", None, b"k"]
    data = kernels.record_batch_encode(
        values, keys, timestamps_ms=0, first_timestamp_ms=0, capacity=999
    ).data
    found = decode(kernels, data, 4)
    assert found.stop is BatchStop.WHOLE
    assert found.value_lengths.tolist() == [0, -1, 1, -1]
    assert found.key_lengths.tolist() == [-1, 0, -1, 1]


def test_empty_bytes_of_every_kind_are_not_null(kernels: Kernels) -> None:
    empties = [b"", bytearray(), memoryview(b""), array("B"), array("Q")]
    data = kernels.record_batch_encode(
        empties, empties, timestamps_ms=0, first_timestamp_ms=0, capacity=999
    ).data
    found = decode(kernels, data, len(empties))
    assert found.value_lengths.tolist() == [0] * len(empties)
    assert found.key_lengths.tolist() == [0] * len(empties)


def test_columns_say_where_keys_values_and_headers_stand(kernels: Kernels) -> None:
    headers = number(2) + number(1) + b"a" + number(2) + b"xy" + number(1) + b"b" + number(-1)
    data = kernels.record_batch_encode(
        [b"one", b"two!"], [b"k", None], [None, headers],
        timestamps_ms=[50, 40], first_timestamp_ms=50, capacity=999,
    ).data  # fmt: skip
    found = decode(kernels, b"junk" + data, 0)  # only to show that a start is honoured below
    assert found.stop is BatchStop.LEFT_OVER
    found = kernels.record_batch_decode(
        b"junk" + data, 4, 4 + len(data), count=2, first_offset=1000, first_timestamp_ms=50
    )
    buffer = b"junk" + data
    assert found.offsets.tolist() == [1000, 1001]
    assert found.timestamps_ms.tolist() == [50, 40]
    assert [part.format for part in found[:9]] == list("QqIiIiIII")
    assert buffer[found.key_positions[0] :][:1] == b"k"
    assert buffer[found.value_positions[0] :][:3] == b"one"
    assert buffer[found.value_positions[1] :][:4] == b"two!"
    assert found.header_counts.tolist() == [0, 2]
    assert found.header_lengths.tolist() == [0, len(headers) - 1]
    assert buffer[found.header_positions[1] :][: len(headers) - 1] == headers[1:]
    assert (found.end, found.stop) == (len(buffer), BatchStop.WHOLE)


@pytest.mark.parametrize("stamp", [0, 1, -1, 63, 64, -64, -65, 1 << 40, I64_MAX, I64_MIN])
def test_timestamps_of_any_sign_and_size_come_back(kernels: Kernels, stamp: int) -> None:
    first = -1 if stamp == I64_MIN else 0
    data = kernels.record_batch_encode(
        [b""] * 2, timestamps_ms=[first, stamp], first_timestamp_ms=first, capacity=99
    ).data
    found = decode(kernels, data, 2, first_timestamp_ms=first)
    assert found.timestamps_ms.tolist() == [first, stamp]


def test_a_timestamp_too_far_from_the_first_is_refused(kernels: Kernels) -> None:
    for first, stamp in ((-2, I64_MAX), (1, I64_MIN)):
        with pytest.raises(
            InputError, match=r"timestamps_ms\[1\] is .* too far from first_timestamp_ms"
        ):
            kernels.record_batch_encode(
                [b"", b""], timestamps_ms=[first, stamp], first_timestamp_ms=first, capacity=99
            )


def test_as_many_messages_are_taken_as_fit(kernels: Kernels) -> None:
    values = [b"x" * size for size in (0, 10, 100, 57, 58)]
    sizes = [7, 17, 109, 64, 66]  # a record of 64 bytes has a length of two
    total = 0
    for count, size in enumerate([*sizes, 1000]):
        for room in (total, total + size - 1):
            encoded = kernels.record_batch_encode(
                values, timestamps_ms=0, first_timestamp_ms=0, capacity=room
            )
            assert (len(encoded.data), encoded.message_count) == (total, count)
        total += size


def test_none_and_no_bytes_are_no_headers(kernels: Kernels) -> None:
    plain = records_of([b"a", b"b"])
    encoded = kernels.record_batch_encode(
        [b"a", b"b"], None, [None, b""], timestamps_ms=0, first_timestamp_ms=0, capacity=99
    )
    assert encoded.data == plain


@pytest.mark.parametrize(
    ("data", "count", "stop"),
    [
        (b"", 0, BatchStop.WHOLE),
        (b"", 1, BatchStop.CUT),
        (record()[:-1], 1, BatchStop.CUT),
        (record(value=b"abcd")[:-1], 1, BatchStop.CUT),
        (record(), 2, BatchStop.CUT),
        (record() + b"\0", 1, BatchStop.LEFT_OVER),
        (record() + record(offset_delta=1), 1, BatchStop.LEFT_OVER),
        (record() + record(), 2, BatchStop.BAD_OFFSET),
        (record(offset_delta=5) + record(offset_delta=4), 2, BatchStop.BAD_OFFSET),
        (record(offset_delta=-1), 1, BatchStop.BAD_OFFSET),
        (record(length=-1), 1, BatchStop.BAD_LENGTH),
        (record(length=0), 1, BatchStop.BAD_LENGTH),
        (record(length=5) + b"\0", 1, BatchStop.BAD_LENGTH),
        (record(length=7) + b"\0", 1, BatchStop.BAD_LENGTH),
        (record(length=I32_MAX), 1, BatchStop.CUT),
        (record(key_length=-2), 1, BatchStop.BAD_LENGTH),
        (record(key_length=4), 1, BatchStop.BAD_LENGTH),
        (record(key_length=I32_MAX), 1, BatchStop.BAD_LENGTH),
        (record(value_length=-2), 1, BatchStop.BAD_LENGTH),
        (record(value_length=1), 1, BatchStop.BAD_LENGTH),
        (record(value_length=2), 1, BatchStop.BAD_LENGTH),
        (record(header_count=-1), 1, BatchStop.BAD_LENGTH),
        (record(header_count=1), 1, BatchStop.BAD_LENGTH),
        (record(header_count=I32_MAX, headers=b"\0\1" * 50), 1, BatchStop.BAD_LENGTH),
        (record(header_count=1, headers=number(-1) + number(-1)), 1, BatchStop.BAD_LENGTH),
        (record(header_count=1, headers=b"\0" + number(-2)), 1, BatchStop.BAD_LENGTH),
        (record(header_count=1, headers=b"\0\1\0"), 1, BatchStop.BAD_LENGTH),
        (record(header_count=1, headers=b"\0\1"), 1, BatchStop.WHOLE),
        (b"\x80" * 5 + b"\0" * 9, 1, BatchStop.BAD_NUMBER),
        (b"\xff\xff\xff\xff\x10" + b"\0" * 9, 1, BatchStop.BAD_NUMBER),
        (b"\xff\xff\xff\xff\x0f" + b"\0" * 9, 1, BatchStop.BAD_LENGTH),
        (b"\x8c\x80\x80\x80\x00\0\0\0\1\1\0", 1, BatchStop.WHOLE),  # longer than it need be
        (b"\x2a\0" + b"\x80" * 9 + b"\2" + b"\0" * 10, 1, BatchStop.BAD_NUMBER),
        (b"\x2a\0" + b"\xff" * 11 + b"\0" * 9, 1, BatchStop.BAD_NUMBER),
        (b"\x8c\x80\x80\x80\x80", 1, BatchStop.CUT),
    ],
)
def test_what_is_no_record_is_told(
    kernels: Kernels, data: bytes, count: int, stop: BatchStop
) -> None:
    assert decode(kernels, data, count).stop is stop


def test_good_records_before_a_bad_one_are_given(kernels: Kernels) -> None:
    good = records_of([b"first", b"second"])
    found = decode(kernels, good + record(offset_delta=1), 3)
    assert (found.end, found.stop) == (len(good), BatchStop.BAD_OFFSET)
    assert found.offsets.tolist() == [0, 1]


def test_offsets_may_leave_gaps(kernels: Kernels) -> None:
    data = record(offset_delta=2) + record(offset_delta=I32_MAX)
    found = decode(kernels, data, 2, first_offset=I64_MAX)
    assert found.stop is BatchStop.WHOLE
    assert found.offsets.tolist() == [I64_MAX + 2, I64_MAX + I32_MAX]


def test_a_timestamp_beyond_its_width_is_told(kernels: Kernels) -> None:
    for first, delta in ((I64_MAX, 1), (I64_MIN, -1), (1, I64_MAX), (-2, I64_MIN)):
        data = record(timestamp_delta=delta)
        assert decode(kernels, data, 1, first_timestamp_ms=first).stop is BatchStop.BAD_TIMESTAMP
    found = decode(kernels, record(timestamp_delta=I64_MAX), 1, first_timestamp_ms=I64_MIN)
    assert found.timestamps_ms.tolist() == [-1]


def test_attributes_of_a_record_are_not_looked_at(kernels: Kernels) -> None:
    assert decode(kernels, record(attributes=0xFF), 1).stop is BatchStop.WHOLE


def test_a_count_that_no_data_can_have_takes_no_memory(kernels: Kernels) -> None:
    found = decode(kernels, records_of([b"x"] * 3), I32_MAX)
    assert found.stop is BatchStop.CUT
    assert len(found.offsets) == 3


def test_many_records_are_decoded_without_the_interpreters_lock(kernels: Kernels) -> None:
    values = [bytes([index % 251]) * (index % 300) for index in range(1500)]
    encoded = kernels.record_batch_encode(
        values, timestamps_ms=range(1500), first_timestamp_ms=0, capacity=1 << 30
    )
    assert len(encoded.data) > 1 << 16
    found = decode(kernels, encoded.data, 1500, first_offset=5)
    assert found.offsets.tolist() == list(range(5, 1505))
    starts = zip(found.value_positions, found.value_lengths, strict=True)
    assert [encoded.data[at : at + length] for at, length in starts] == values


@pytest.mark.parametrize(
    "named",
    [
        {"count": -1},
        {"count": 1 << 31},
        {"count": None},
        {"first_offset": -1},
        {"first_offset": 1 << 63},
        {"first_timestamp_ms": 1 << 63},
        {"first_timestamp_ms": -(1 << 63) - 1},
        {"first_timestamp_ms": "0"},
    ],
)
def test_numbers_out_of_range_are_refused(kernels: Kernels, named: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(named))):
        kernels.record_batch_decode(b"", 0, 0, **{"count": 0, **named})


@pytest.mark.parametrize("wrong", [5, "text", [b"x"], memoryview(bytes(20))[::2]])
def test_what_is_not_bytes_is_refused(kernels: Kernels, wrong: Any) -> None:
    named = {"timestamps_ms": 0, "first_timestamp_ms": 0, "capacity": 9}
    calls: list[Callable[[], object]] = [
        lambda: kernels.record_batch_encode([b"", wrong], **named),
        lambda: kernels.record_batch_encode([b""], [wrong], **named),
        lambda: kernels.record_batch_encode([b""], None, [wrong], **named),
        lambda: kernels.record_batch_decode(wrong, 0, 0, count=0),
    ]
    for call in calls:
        with pytest.raises(InputError, match="must be"):
            call()


def test_keys_and_headers_are_one_a_message(kernels: Kernels) -> None:
    named = {"timestamps_ms": 0, "first_timestamp_ms": 0, "capacity": 9}
    with pytest.raises(InputError, match="keys has 1 items, expected 2"):
        kernels.record_batch_encode([b"", b""], [b""], **named)
    with pytest.raises(InputError, match="headers has 0 items, expected 2"):
        kernels.record_batch_encode([b"", b""], None, [], **named)


def test_slices_are_the_bytes_that_the_columns_name(kernels: Kernels) -> None:
    positions = memoryview(array("I", [0, 3, 5, 2]))
    lengths = memoryview(array("i", [3, 0, -1, 4]))
    for buffer in (b"abcdef", bytearray(b"abcdef"), memoryview(b"abcdef")):
        found = kernels.record_batch_slices(buffer, positions, lengths)
        assert found == [b"abc", b"", None, b"cdef"]
    assert kernels.record_batch_slices(b"", positions[:0], lengths[:0]) == []


@pytest.mark.parametrize(("position", "length"), [(0, 7), (6, 1), (7, 0), (1 << 31, I32_MAX)])
def test_a_slice_outside_the_buffer_is_refused(
    kernels: Kernels, position: int, length: int
) -> None:
    positions = memoryview(array("I", [0, position]))
    lengths = memoryview(array("i", [1, length]))
    with pytest.raises(InputError, match=rf"item 1 has {length} bytes at {position}"):
        kernels.record_batch_slices(b"abcdef", positions, lengths)


def test_slices_want_columns_of_their_own_type_and_one_length(kernels: Kernels) -> None:
    positions, lengths = memoryview(array("I", [0, 1])), memoryview(array("i", [0, 1]))
    strided = memoryview(array("I", range(4)))[::2]
    for wrong in (array("I", [0, 1]), lengths, strided, memoryview(array("Q", [0])), None):
        with pytest.raises(InputError, match="positions must be a contiguous column"):
            kernels.record_batch_slices(b"ab", wrong, lengths)
    with pytest.raises(InputError, match="lengths must be a contiguous column"):
        kernels.record_batch_slices(b"ab", positions, positions)
    with pytest.raises(InputError, match="lengths has 1 items, expected 2"):
        kernels.record_batch_slices(b"ab", positions, lengths[:1])
