"""Record batches: what is checked, what is read, what is built."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from lakebed.base.errors import Corrupt, InputError, TooLarge, Torn, UnknownVersion
from lakebed.keratin.compression import Compression, compress
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Producer
from lakebed.keratin.message import Message
from lakebed.keratin.record_batch import (
    BatchAttributes,
    build,
    check,
    compression_of,
    decode,
    producer_of,
    rewrite_first_offset,
)
from lakebed.kernels.format import RECORD_BATCH
from tests.keratin.batch_samples import (
    FIRST_OFFSET,
    HEADERS,
    KEYS,
    PRODUCER,
    TIMESTAMPS_MS,
    VALUES,
    changed,
    mixed,
)
from tests.kernels.record_batches import number, record

NOT_CHECKED = ("first_offset", "leader_epoch")  # a batch is whole whatever stands there


def field_of(index: int) -> str:
    for field in RECORD_BATCH.fields:
        if field.offset <= index < field.offset + field.size:
            return field.name
    return "records"


@pytest.mark.parametrize("compression", Compression)
def test_what_was_built_is_read_back(compression: Compression) -> None:
    batch = mixed(compression)
    header = check(batch)
    assert compression_of(header) is compression
    assert producer_of(header) == PRODUCER
    assert header.message_count == len(VALUES)
    assert header.max_timestamp_ms == max(TIMESTAMPS_MS)
    decoded = decode(batch)
    assert len(decoded) == len(VALUES)
    assert list(decoded) == [
        Message(
            FIRST_OFFSET + index,
            TIMESTAMPS_MS[index],
            KEYS[index],
            value,
            tuple(HEADERS[index]),
            RecordFlags.TOMBSTONE if value is None else 0,
        )
        for index, value in enumerate(VALUES)
    ]


def test_keys_and_values_can_be_had_without_a_copy() -> None:
    batch = mixed()
    decoded = decode(batch)
    for index, (key, value) in enumerate(zip(KEYS, VALUES, strict=True)):
        assert decoded.key(index) == key
        assert decoded.value(index) == value
    view = decoded.value(0)
    assert view is not None
    assert view.obj is batch
    assert decoded.columns.offsets.tolist() == [FIRST_OFFSET + index for index in range(5)]
    assert decoded.columns.timestamps_ms.tolist() == TIMESTAMPS_MS


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_cut_anywhere_is_torn(compression: Compression) -> None:
    batch = mixed(compression)
    for size in range(len(batch)):
        with pytest.raises(Torn, match=r"cut short|truncated"):
            check(batch[:size])


@pytest.mark.parametrize("compression", Compression)
def test_every_flipped_bit_is_found_but_where_the_log_writes(compression: Compression) -> None:
    batch = mixed(compression)
    for index in range(len(batch)):
        for bit in range(8):
            flipped = bytearray(batch)
            flipped[index] ^= 1 << bit
            if field_of(index) in NOT_CHECKED:
                assert check(flipped)._replace(
                    **{name: getattr(check(batch), name) for name in NOT_CHECKED}
                ) == check(batch)
                continue
            with pytest.raises((Corrupt, Torn)) as caught:
                check(flipped)
            is_longer = field_of(index) == "length" and not batch[index] & 1 << bit
            is_negative = (index, bit) == (RECORD_BATCH.offset_of("length"), 7)
            assert isinstance(caught.value, Torn) == (is_longer and not is_negative)


def test_something_behind_a_batch_is_corrupt() -> None:
    batch = mixed()
    for behind in (b"\0", batch):
        with pytest.raises(Corrupt, match="bytes after the end of a record batch") as caught:
            check(batch + behind)
        assert caught.value.offset == len(batch)


def test_errors_say_where_in_which_file() -> None:
    with pytest.raises(Corrupt, match=r"a/b\.log: at byte 1016: the magic") as caught:
        check(bytes(16) + b"\1" + bytes(60), path="a/b.log", start=1000)
    assert caught.value.path == "a/b.log"
    batch = changed(mixed(), record(length=9) + bytes(40), message_count=1, last_offset_delta=0)
    with pytest.raises(Corrupt, match=r"x: at byte 561: .*wrong, found message 0 of 1, byte 0"):
        decode(batch, path="x", start=500)


def test_another_version_is_refused_by_name_and_a_flipped_magic_is_not_one() -> None:
    # A message of version 1: offset, size, crc, magic 1, attributes, timestamp, null key, value.
    old = bytes(8) + (22 + 40).to_bytes(4, "big") + b"\1\2\3\4" + b"\1" + bytes(9)
    old += b"\xff" * 4 + (40).to_bytes(4, "big") + b"v" * 40
    with pytest.raises(
        UnknownVersion, match="unsupported record batch version, expected 2, found 1"
    ):
        check(old)
    with pytest.raises(UnknownVersion):
        check(old[:40])  # shorter than a header of today
    for magic in (0, 1, 3, 255):
        flipped = bytearray(mixed())
        flipped[RECORD_BATCH.offset_of("magic")] = magic
        with pytest.raises(Corrupt, match="magic"):
            check(flipped)
    with pytest.raises(Corrupt):
        check(bytes(100))


@pytest.mark.parametrize("code", [5, 6, 7])
def test_an_unknown_compression_is_refused_by_name(code: int) -> None:
    with pytest.raises(
        UnknownVersion, match=f"unsupported compression of a record batch, found {code}"
    ):
        check(changed(mixed(), attributes=code))


@pytest.mark.parametrize(
    "fields",
    [
        {"message_count": 4},
        {"message_count": 6},
        {"message_count": -1},
        {"message_count": 0, "last_offset_delta": -1},
        {"last_offset_delta": 3},
        {"last_offset_delta": 5},
        {"last_offset_delta": -1},
        {"last_offset_delta": (1 << 31) - 1},
    ],
)
def test_counts_that_disagree_are_corrupt(fields: dict[str, Any]) -> None:
    with pytest.raises(Corrupt, match="message count of a record batch does not match its offsets"):
        check(changed(mixed(), **fields))


def test_a_count_without_room_is_found_without_opening_the_records() -> None:
    batch = changed(mixed(), bytes(62), message_count=9, last_offset_delta=8)
    with pytest.raises(Corrupt, match="too short for its number of messages"):
        check(batch)
    check(changed(mixed(), bytes(63), message_count=9, last_offset_delta=8))


def test_a_batch_that_compaction_thinned_out_is_read_if_asked_for() -> None:
    section = record(offset_delta=1, value=b"a") + record(offset_delta=4, value=b"b")
    batch = changed(mixed(), section, message_count=2, last_offset_delta=9)
    with pytest.raises(Corrupt, match="does not match its offsets"):
        check(batch)
    messages = list(decode(batch, has_gaps=True))
    assert [message.offset for message in messages] == [FIRST_OFFSET + 1, FIRST_OFFSET + 4]
    empty = changed(mixed(), b"", message_count=0, last_offset_delta=9)
    assert list(decode(empty, has_gaps=True)) == []
    for count, last_delta in ((3, 1), (2, -1), (0, -1), (-1, 3)):
        wrong = changed(batch, message_count=count, last_offset_delta=last_delta)
        with pytest.raises(Corrupt, match="does not match its offsets"):
            check(wrong, has_gaps=True)


@pytest.mark.parametrize("compression", Compression)
def test_an_empty_batch_of_any_compression_is_read_if_asked_for(compression: Compression) -> None:
    section = compress(b"", compression)
    batch = changed(mixed(), section, message_count=0, attributes=int(compression))
    with pytest.raises(Corrupt, match="does not match its offsets"):
        decode(batch)
    assert len(decode(batch, has_gaps=True)) == 0


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (record() + record(), "offsets in a batch do not rise"),
        (record() + record(offset_delta=2), "offsets in a batch do not rise"),
        (record() + record(offset_delta=1) + b"\0", "bytes after the last record"),
        (record(value=b"v") + record(offset_delta=1)[:-1], "the records of a batch are cut short"),
        (record() + record(offset_delta=1, value_length=3), "a length in a batch is wrong"),
        (record() + b"\xff" * 9, "a variable-length number in a batch is too long"),
        (record() + record(offset_delta=1, timestamp_delta=(1 << 63) - 1), "out of range"),
    ],
)
def test_records_that_are_none_are_corrupt_whatever_the_checksum_says(
    section: bytes, problem: str
) -> None:
    batch = changed(mixed(), section, message_count=2, last_offset_delta=1)
    check(batch)
    with pytest.raises(Corrupt, match=problem):
        decode(batch)


def test_a_batch_at_no_possible_offset_is_corrupt() -> None:
    for first in (-1, -(1 << 63), (1 << 63) - 1):
        with pytest.raises(Corrupt, match="first offset of a record batch is out of range"):
            decode(changed(mixed(), first_offset=first))


def test_compressed_data_that_is_damaged_is_corrupt() -> None:
    for compression in Compression:
        if compression is Compression.NONE:
            continue
        section = mixed(compression)[RECORD_BATCH.size :]
        for damaged in (section[:-1], section + b"\0", b"", b"\xff" * 40):
            with pytest.raises(Corrupt, match="at byte 61: "):
                decode(changed(mixed(compression), damaged))


def test_a_batch_that_would_inflate_too_far_is_refused() -> None:
    for compression in Compression:
        batch = build([bytes(1000)] * 100, timestamps_ms=0, compression=compression)
        check(batch)
        with pytest.raises(TooLarge, match="inflated size"):
            decode(batch, inflated_bytes_max=100_000)
        with pytest.raises(TooLarge, match=r"batch, in bytes, is above the maximum of 100000$"):
            build([bytes(1000)] * 100, timestamps_ms=0, records_bytes_max=100_000)
        assert len(decode(batch, inflated_bytes_max=102_000)) == 100


def test_only_the_first_offset_is_rewritten() -> None:
    batch = mixed(Compression.LZ4)
    for offset in (0, 1, (1 << 63) - 1):
        moved = rewrite_first_offset(batch, offset)
        assert moved == offset.to_bytes(8, "big") + batch[8:]
        assert check(moved).first_offset == offset
    assert rewrite_first_offset(memoryview(batch), FIRST_OFFSET) == batch
    for wrong in (-1, 1 << 63):
        with pytest.raises(InputError, match="offset"):
            rewrite_first_offset(batch, wrong)
    with pytest.raises(Torn):
        rewrite_first_offset(batch[:60], 0)


def test_with_log_append_time_every_message_has_the_batchs_timestamp() -> None:
    batch = mixed(attributes=BatchAttributes.LOG_APPEND_TIME)
    decoded = decode(batch)
    assert {message.timestamp_ms for message in decoded} == {max(TIMESTAMPS_MS)}
    assert decoded.columns.timestamps_ms.format == "q"
    assert decoded.columns.timestamps_ms.readonly


def test_the_marks_of_a_control_batch_are_flagged() -> None:
    batch = build(
        [b"\0\0\0\0\0\0"],
        keys=[b"\0\0\0\1"],
        timestamps_ms=5,
        attributes=BatchAttributes.CONTROL | BatchAttributes.TRANSACTIONAL,
    )
    (mark,) = decode(batch)
    assert mark.flags == RecordFlags.CONTROL
    assert mark.key == b"\0\0\0\1"
    assert decode(batch).header.attributes == 0x30


def test_unknown_attributes_are_kept() -> None:
    batch = changed(mixed(), attributes=0x4000 | BatchAttributes.DELETE_HORIZON)
    assert check(rewrite_first_offset(batch, 9)).attributes == 0x4040
    assert len(decode(batch)) == len(VALUES)


def test_a_batch_without_a_producer_has_none() -> None:
    assert producer_of(check(mixed(producer=None))) is None
    for field in ("producer_id", "producer_epoch", "base_sequence"):
        without: dict[str, Any] = {field: -1}
        assert producer_of(check(changed(mixed(), **without))) is None
    first = Producer(0, 0, 0)
    assert producer_of(check(mixed(producer=first))) == first


def test_a_header_name_that_is_no_text_is_shown_with_a_mark() -> None:
    headers = number(2) + b"\xffa" + number(1) + b"v"
    batch = changed(
        mixed(), record(header_count=1, headers=headers), message_count=1, last_offset_delta=0
    )
    (message,) = decode(batch)
    assert message.headers == (("\ufffda", b"v"),)


def test_one_timestamp_serves_all_messages() -> None:
    decoded = decode(build([b"a", bytearray(b"b"), memoryview(b"c")], timestamps_ms=77))
    assert decoded.columns.timestamps_ms.tolist() == [77, 77, 77]
    assert [message.value for message in decoded] == [b"a", b"b", b"c"]
    stamps = array("q", [-1, 5])
    assert decode(build([b"a", b"b"], timestamps_ms=stamps)).header.max_timestamp_ms == 5


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"timestamps_ms": []}, "timestamps_ms has 0 items"),
        ({"timestamps_ms": [1]}, "timestamps_ms has 1 items"),
        ({"timestamps_ms": 1 << 63}, "timestamps_ms"),
        ({"timestamps_ms": [0, "x"]}, "timestamps_ms"),
        ({"keys": [b"k"]}, "keys has 1 items"),
        ({"headers": [[]]}, "headers has 1 items"),
        ({"headers": [[("\ud800", b"")], []]}, "cannot be encoded as UTF-8"),
        ({"headers": [[("a", b"")] * 10_001, []]}, "number of headers"),
        ({"first_offset": -1}, "first_offset"),
        ({"producer": Producer(1 << 63, 0, 0)}, "producer_id"),
        ({"producer": Producer(0, 1 << 15, 0)}, "producer_epoch"),
        ({"producer": Producer(0, 0, 1 << 31)}, "sequence"),
        ({"records_bytes_max": 15}, "the size of a record batch"),
    ],
)
def test_what_cannot_be_a_batch_is_not_built(named: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        build([b"a", b"b"], **{"timestamps_ms": 0, **named})
    assert build([b"a", b"b"], timestamps_ms=0, records_bytes_max=16)


def test_a_batch_of_no_messages_is_not_built() -> None:
    with pytest.raises(InputError, match="needs at least one message"):
        build([], timestamps_ms=0)
