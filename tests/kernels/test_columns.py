"""Columns for Arrow out of records: slices gathered, and the parts of records found."""

from __future__ import annotations

import mmap
from array import array
from typing import Any

import pytest

from lakebed.base.errors import InputError, TooLarge
from lakebed.keratin.headers import Producer, encode_headers
from lakebed.kernels import format as formats
from lakebed.kernels.results import BatchStop, BlockStop, Gathered
from tests.kernels.record_batches import number, record
from tests.kernels.samples import Kernels, keratin_data

I32_MAX = (1 << 31) - 1
U32_MAX = (1 << 32) - 1
HEADERS = [("name", b"value"), ("null", None), ("name", b"")]
BLOCK = encode_headers(b"key", Producer(1, 2, 3), HEADERS)


def column(code: str, *values: int) -> memoryview:
    return memoryview(array(code, values))


def slices(gathered: Gathered) -> list[bytes | None]:
    """What an Arrow reader makes of it."""
    data, offsets, validity, null_count = gathered
    found: list[bytes | None] = []
    for index in range(len(offsets) - 1):
        is_valid = validity is None or validity[index // 8] >> index % 8 & 1
        part = data[offsets[index] : offsets[index + 1]]
        found.append(part if is_valid else None)
        assert is_valid or not part, "a null has no bytes"
    assert found.count(None) == null_count
    return found


@pytest.mark.parametrize("position_code", ["Q", "I"])
@pytest.mark.parametrize("length_code", ["i", "I"])
def test_slices_are_gathered_in_the_order_that_is_asked_for(
    kernels: Kernels, position_code: str, length_code: str
) -> None:
    positions = column(position_code, 6, 0, 3, 10)
    found = kernels.gather(b"0123456789", positions, column(length_code, 4, 2, 0, 0))
    assert slices(found) == [b"6789", b"01", b"", b""]
    assert found.data == b"678901"
    assert (found.offsets.format, found.offsets.tolist()) == ("i", [0, 4, 6, 6, 6])
    assert found.offsets.readonly
    assert (found.validity, found.null_count) == (None, 0)


def test_a_negative_length_is_a_null_wherever_it_stands(kernels: Kernels) -> None:
    lengths = column("i", *([1, -1, 0] * 6))
    positions = column("Q", *([2, (1 << 64) - 1, 0] * 6))
    found = kernels.gather(b"abc", positions, lengths)
    assert slices(found) == [b"c", None, b""] * 6
    assert found.validity == bytes([0b01101101, 0b11011011, 0b10])


def test_one_null_leaves_the_bytes_of_others_alone(kernels: Kernels) -> None:
    assert kernels.gather(b"", column("Q", 0), column("i", -1)).validity == b"\0"
    assert kernels.gather(b"", column("Q", 0, 0), column("i", -1, 0)).validity == b"\2"
    assert bytes(1) == b"\0", "short bytes are shared by the whole interpreter"


@pytest.mark.parametrize("length", [*range(70), 255, 256, 257, 288, 289, 5000])
def test_slices_of_every_length_are_whole(kernels: Kernels, length: int) -> None:
    data = bytes(range(251)) * 40
    count = (len(data) - length) // 7 + 1
    positions = column("I", *(7 * index for index in range(min(count, 50))))
    found = kernels.gather(data, positions, column("i", *([length] * len(positions))))
    assert slices(found) == [data[start : start + length] for start in positions]


def test_nothing_to_gather_is_an_empty_column(kernels: Kernels) -> None:
    found = kernels.gather(b"", column("Q"), column("i"))
    assert (found.data, found.offsets.tolist(), found.null_count) == (b"", [0], 0)


@pytest.mark.parametrize(
    ("position", "length"),
    [(0, 11), (10, 1), (11, 0), (9, 2), ((1 << 64) - 1, 1), ((1 << 64) - 4, 8), (0, I32_MAX)],
)
def test_what_is_not_inside_the_buffer_is_refused(
    kernels: Kernels, position: int, length: int
) -> None:
    with pytest.raises(InputError, match=f"item 1 has {length} bytes at {position}, but .* at 10"):
        kernels.gather(bytes(10), column("Q", 0, position), column("i", 10, length))


def test_an_unsigned_length_is_never_a_null(kernels: Kernels) -> None:
    with pytest.raises(InputError, match="item 0 has 4294967295 bytes"):
        kernels.gather(bytes(10), column("Q", 0), column("I", (1 << 32) - 1))


def test_more_than_an_offset_can_say_is_too_large(kernels: Kernels) -> None:
    memory = mmap.mmap(-1, 1 << 30)
    with pytest.raises(TooLarge) as caught:
        kernels.gather(memory, column("Q", 0, 0), column("I", 1 << 30, 1 << 30))
    assert (caught.value.size, caught.value.limit) == (1 << 31, I32_MAX)


@pytest.mark.parametrize(
    "columns",
    [
        (column("q", 1), column("i", 1)),
        (column("Q", 1), column("q", 1)),
        (column("Q", 1), column("i", 1, 1)),
        (column("Q", 1, 2, 3)[::2], column("i", 1, 1)),
        (column("Q", 1, 2)[::-1], column("i", 1, 1)),
        ([1], column("i", 1)),
        (column("Q", 1), 1),
        (column("Q", 1), None),
    ],
)
def test_columns_of_other_types_are_refused(kernels: Kernels, columns: tuple[Any, Any]) -> None:
    with pytest.raises(InputError):
        kernels.gather(bytes(10), *columns)


def fields_of(kernels: Kernels, data: bytes, flags: int = 0) -> Any:
    scan = kernels.keratin_scan(data, 0, len(data), count_max=99)
    marks = column("H", *([flags] * len(scan.positions)))
    return kernels.keratin_fields(
        data, scan.positions, scan.header_lengths, scan.payload_lengths, marks
    )


def parts(data: bytes, positions: memoryview, lengths: memoryview) -> list[bytes | None]:
    return [
        None if length < 0 else data[position : position + length]
        for position, length in zip(positions, lengths, strict=True)
    ]


def test_the_parts_of_records_are_found(kernels: Kernels) -> None:
    blocks = [None, BLOCK, encode_headers(None, None, HEADERS[:1]), encode_headers(b"", None)]
    data = keratin_data([b"a", b"bb", b"", b"d"], blocks)
    found = fields_of(kernels, data)
    assert found.stop is BlockStop.WHOLE
    assert parts(data, *found[0:2]) == [None, b"key", None, b""]
    assert parts(data, *found[2:4]) == [b"a", b"bb", b"", b"d"]
    assert found.header_counts.tolist() == [0, 3, 1, 0]
    assert parts(data, *found[5:7]) == [b"name", b"null", b"name", b"name"]
    assert parts(data, *found[7:9]) == [b"value", None, b"", b"value"]


def test_the_value_of_a_tombstone_is_null_whatever_its_payload(kernels: Kernels) -> None:
    data = keratin_data([b"payload"], [BLOCK])
    assert parts(data, *fields_of(kernels, data, flags=0xFFFF)[2:4]) == [None]
    assert parts(data, *fields_of(kernels, data, flags=0xFFFE)[2:4]) == [b"payload"]


def test_many_headers_make_their_columns_grow(kernels: Kernels) -> None:
    blocks = [encode_headers(None, None, [("h", b"%d" % n)] * n) for n in (0, 0, 1, 300, 2, 900)]
    data = keratin_data([b"v"] * len(blocks), blocks)
    found = fields_of(kernels, data)
    assert found.header_counts.tolist() == [0, 0, 1, 300, 2, 900]
    wanted = [b"%d" % n for n in (1, 300, 2, 900) for _ in range(n)]
    assert parts(data, *found[7:9]) == wanted


@pytest.mark.parametrize(
    ("block", "stop"),
    [
        (b"\1", BlockStop.CUT),
        (BLOCK[:-1], BlockStop.CUT),
        (BLOCK[:5], BlockStop.CUT),
        (BLOCK[:20], BlockStop.CUT),
        (BLOCK + b"\0", BlockStop.LEFT_OVER),
        (encode_headers(b"k", None) + b"\0", BlockStop.LEFT_OVER),
        (b"\2" + BLOCK[1:], BlockStop.BAD_VERSION),
        (b"\1\0\xff\xff", BlockStop.CUT),
        (b"\1\1\xff\xff\xff\xff\0\0", BlockStop.CUT),
        (b"\1\0\0\1\0\1n\xff\xff\xff\xfe", BlockStop.CUT),
    ],
)
def test_a_block_that_is_none_ends_the_reading_before_its_record(
    kernels: Kernels, block: bytes, stop: BlockStop
) -> None:
    data = keratin_data([b"a", b"b", b"c"], [BLOCK, block, BLOCK])
    found = fields_of(kernels, data)
    assert found.stop is stop
    assert parts(data, *found[0:2]) == [b"key"]
    assert parts(data, *found[2:4]) == [b"a"]
    assert found.header_counts.tolist() == [3]
    assert len(found.name_positions) == len(found.header_value_lengths) == 3


def test_a_value_of_more_bytes_than_a_length_can_say_ends_the_reading(kernels: Kernels) -> None:
    block = encode_headers(None, None, HEADERS)
    start = formats.KERATIN_RECORD.size
    with mmap.mmap(-1, (1 << 31) + 200) as memory:
        memory[start : start + len(block)] = block
        columns = (column("Q", 0), column("I", len(block)), column("I", 1 << 31))
        found = kernels.keratin_fields(memory, *columns, column("H", 0))
        assert (found.stop, len(found.key_positions)) == (BlockStop.TOO_LONG, 0)
        assert len(found.name_positions) == 0
        found = kernels.keratin_fields(memory, *columns, column("H", 1))
        assert (found.stop, found.value_lengths.tolist()) == (BlockStop.WHOLE, [-1])
        largest = (*columns[:2], column("I", I32_MAX), column("H", 0))
        assert kernels.keratin_fields(memory, *largest).value_lengths.tolist() == [I32_MAX]


@pytest.mark.parametrize("length", [1 << 31, I32_MAX])
def test_a_key_or_a_header_of_more_bytes_is_too_long(kernels: Kernels, length: int) -> None:
    stop = BlockStop.TOO_LONG if length > I32_MAX else BlockStop.WHOLE
    size = length.to_bytes(4, "big")
    start = formats.KERATIN_RECORD.size
    for block, behind in ((b"\1\1" + size, 2), (b"\1\0\0\1\0\0" + size, 0)):
        with mmap.mmap(-1, (1 << 31) + 200) as memory:
            memory[start : start + len(block)] = block
            block_bytes = len(block) + length + behind
            columns = (column("Q", 0), column("I", block_bytes), column("I", 0), column("H", 0))
            assert kernels.keratin_fields(memory, *columns).stop is stop


@pytest.mark.parametrize(
    ("position", "header_length", "payload_length"),
    [
        (0, 0, 100),
        (1, 0, 1),
        (0, 2, 0),
        (1 << 40, 0, 0),
        ((1 << 64) - 8, 0, 8),
        (0, U32_MAX, U32_MAX),
    ],
)
def test_a_record_that_is_not_inside_the_buffer_is_refused(
    kernels: Kernels, position: int, header_length: int, payload_length: int
) -> None:
    data = keratin_data([b"p"])
    columns = (
        column("Q", 0, position),
        column("I", 0, header_length),
        column("I", 1, payload_length),
        column("H", 0, 0),
    )
    with pytest.raises(InputError, match=f"item 1 has .* at {position}, but the buffer ends at 37"):
        kernels.keratin_fields(data, *columns)


def sections_of(kernels: Kernels, data: bytes, count: int) -> Any:
    found = kernels.record_batch_decode(data, 0, len(data), count=count)
    assert found.stop is BatchStop.WHOLE
    columns = (found.header_positions, found.header_lengths, found.header_counts)
    return kernels.record_batch_headers(data, *columns)


def test_the_headers_of_a_record_batch_are_found(kernels: Kernels) -> None:
    two = number(4) + b"name" + number(5) + b"value" + number(0) + number(-1)
    one = number(1) + b"n" + number(0)
    data = record(header_count=2, headers=two) + record(offset_delta=1)
    data += record(offset_delta=2, header_count=1, headers=one)
    found = sections_of(kernels, data, 3)
    assert parts(data, *found[0:2]) == [b"name", b"", b"n"]
    assert parts(data, *found[2:4]) == [b"value", None, b""]
    assert (found.message_count, found.stop) == (3, BatchStop.WHOLE)


@pytest.mark.parametrize(
    ("section", "count", "stop"),
    [
        (number(1) + b"n" + number(0), 2, BatchStop.BAD_LENGTH),
        (number(1) + b"n" + number(0), 0, BatchStop.BAD_LENGTH),
        (number(1) + b"n" + number(0) + b"\0", 1, BatchStop.BAD_LENGTH),
        (number(-1) + number(0), 1, BatchStop.BAD_LENGTH),
        (number(0) + number(-2), 1, BatchStop.BAD_LENGTH),
        (number(0) + number(9) + b"short", 1, BatchStop.BAD_LENGTH),
        (number(0) + b"\x80", 1, BatchStop.BAD_LENGTH),
        (number(0) + b"\xff" * 9, 1, BatchStop.BAD_NUMBER),
        (b"", (1 << 32) - 1, BatchStop.BAD_LENGTH),
    ],
)
def test_a_section_that_is_none_ends_the_reading_before_its_message(
    kernels: Kernels, section: bytes, count: int, stop: BatchStop
) -> None:
    good = number(1) + b"g" + number(-1)
    data = good + section
    columns = (column("I", 0, len(good), 0), column("I", len(good), len(section), len(good)))
    found = kernels.record_batch_headers(data, *columns, column("I", 1, count, 1))
    assert (found.message_count, found.stop) == (1, stop)
    assert parts(data, *found[0:2]) == [b"g"]


def test_a_section_that_is_not_inside_the_buffer_is_refused(kernels: Kernels) -> None:
    for position, length in ((9, 2), (11, 0), ((1 << 32) - 1, (1 << 32) - 1)):
        with pytest.raises(InputError, match="but the buffer ends at 10"):
            kernels.record_batch_headers(
                bytes(10), column("I", position), column("I", length), column("I", 0)
            )
