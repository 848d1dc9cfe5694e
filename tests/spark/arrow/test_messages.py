"""Arrow batches have the rows that reading the messages gives, of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, InputError, UnknownVersion
from lakebed.keratin.compression import Compression
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Producer, encode_headers
from lakebed.keratin.message import NOT_BEFORE_HEADER
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.record_batch import BatchAttributes
from lakebed.kernels.format import RECORD_BATCH
from lakebed.spark.arrow import messages
from tests.keratin.batch_samples import HEADERS, KEYS, TIMESTAMPS_MS, VALUES, changed
from tests.spark.arrow.batch_runs import Written, packed, plain, read, row

PLACE: dict[str, Any] = {"topic": "orders", "partition": 7}
TWICE = [("name", b"one"), ("null", None), ("name", b""), ("é", b"\xff")]
KINDS = [
    plain(b"value"),
    plain(b"", b"key"),
    plain(None, b"deleted"),
    plain(None),
    plain(b"value", b"", TWICE),
    plain(b"v" * 300, None, [("", None)], producer=Producer(1, 2, 3)),
    plain(b"later", None, [(NOT_BEFORE_HEADER, b"5")], flags=int(RecordFlags.SCHEDULED)),
    plain(b"kept", b"k", flags=0x8000),
    plain(b"old", timestamp_ms=0),
]
MIXED: dict[str, Any] = {"timestamps_ms": TIMESTAMPS_MS, "keys": KEYS, "headers": HEADERS}


def rows(batches: Sequence[MessageBatch]) -> list[dict[str, Any]]:
    return [row(message, **PLACE) for batch in batches for message in batch]


def assert_same_rows(batches: Sequence[MessageBatch], **named: Any) -> list[pa.RecordBatch]:
    """One by one, and all of them as a reader gets them."""
    for batch in batches:
        found = messages.record_batch(batch, **PLACE)
        found.validate(full=True)
        assert found.to_pylist() == rows([batch])
    all_found = list(messages.record_batches(iter(batches), **PLACE, **named))
    assert [one for found in all_found for one in found.to_pylist()] == rows(batches)
    assert {found.schema for found in all_found} <= {messages.FIELDS.schema()}
    for found in all_found:
        found.validate(full=True)
    return all_found


def test_plain_messages_of_every_kind_are_rows() -> None:
    batches = read(KINDS)
    assert [len(batch) for batch in batches] == [len(KINDS)]
    assert_same_rows(batches)


@pytest.mark.parametrize("compression", list(Compression))
def test_packed_messages_of_every_kind_are_rows(compression: Compression) -> None:
    batches = read([packed(VALUES, compression, **MIXED)])
    assert len(batches[0]) == len(VALUES)
    assert_same_rows(batches)


def test_control_records_and_control_batches_are_left_out() -> None:
    control = packed([b"mark"], attributes=BatchAttributes.CONTROL)
    records = [plain(b"a"), plain(b"x", flags=int(RecordFlags.CONTROL)), control, plain(b"b")]
    (found,) = assert_same_rows(read([*records, packed([b"c", None])]))
    assert found["value"].to_pylist() == [b"a", b"b", b"c", None]


def test_gaps_in_offsets_stay_gaps() -> None:
    records = [plain(b"a", offset_count=5), packed([b"b", b"c"]), plain(b"d", offset_count=9)]
    (found,) = assert_same_rows(read([*records, plain(b"e")]))
    assert found["offset"].to_pylist() == [50, 55, 56, 57, 66]


@pytest.mark.parametrize(("start", "end"), [(0, 53), (52, 54), (51, 99), (54, 55), (57, 59)])
def test_parts_of_batches_are_the_same_parts(start: int, end: int) -> None:
    records = [packed(VALUES, Compression.LZ4, **MIXED), *KINDS[:5]]
    assert_same_rows(read(records, start=start, end=end))


def test_only_the_columns_that_are_asked_for_come_and_in_that_order() -> None:
    for batch in read([*KINDS, packed(VALUES, **MIXED)]):
        for columns in (["value"], ["headers", "offset"], ["timestamp", "key"], ["topic"]):
            found = messages.record_batch(batch, **PLACE, columns=columns)
            assert found.schema == messages.FIELDS.schema(columns)
            assert found.schema.names == columns
            wanted = [{name: one[name] for name in columns} for one in rows([batch])]
            assert found.to_pylist() == wanted


@pytest.mark.parametrize("columns", [["values"], ["key", "key"], []])
def test_columns_that_cannot_be_are_refused(columns: list[str]) -> None:
    with pytest.raises(InputError, match="column"):
        messages.record_batch(read([plain(b"a")])[0], **PLACE, columns=columns)


def test_a_batch_with_no_headers_has_empty_lists() -> None:
    for record in (plain(b"a", b"k"), packed([b"a"])):
        found = messages.record_batch(read([record])[0], **PLACE)
        assert found["headers"].to_pylist() == [[]]
        assert found["headers"].null_count == 0


def test_numbers_are_not_copied() -> None:
    (batch,) = read(KINDS)
    found = messages.record_batch(batch, **PLACE, columns=["offset"])
    assert found["offset"].buffers()[1].address == pa.py_buffer(batch.offsets).address


def test_long_batches_are_cut_and_short_ones_joined() -> None:
    long = read([plain(b"%d" % number) for number in range(25)])
    found = assert_same_rows(long, rows_max=10)
    assert [one.num_rows for one in found] == [9, 9, 7]
    short = read([packed([b"a", None, b"c"], keys=[b"k", None, b""]) for _ in range(7)])
    found = assert_same_rows(short, rows_max=10)
    assert [one.num_rows for one in found] == [9, 9, 3]


def test_joined_batches_may_have_headers_and_may_not() -> None:
    mixed = [packed([b"a"]), packed([b"b"], headers=[TWICE]), plain(b"c"), packed([b"d", None])]
    (found,) = assert_same_rows(read(mixed))
    assert found.num_rows == 5


def test_no_batches_are_no_rows() -> None:
    assert list(messages.record_batches([], **PLACE)) == []


@pytest.mark.parametrize("timestamp_ms", [(1 << 63) // 1000, 1 << 63, (1 << 64) - 1])
def test_a_timestamp_too_far_is_the_farthest_possible(timestamp_ms: int) -> None:
    (batch,) = read([plain(b"a", timestamp_ms=timestamp_ms), plain(b"b", timestamp_ms=3)])
    found = messages.record_batch(batch, **PLACE)["timestamp"].cast(pa.int64())
    assert found.to_pylist() == [((1 << 63) - 1) // 1000 * 1000, 3000]


def test_a_timestamp_before_the_epoch_stays_there() -> None:
    stamps = [-1, -(1 << 62), 0]
    batches = read([packed([b"a", b"b", b"c"], timestamps_ms=stamps)])
    found = messages.record_batch(*batches, **PLACE)["timestamp"].cast(pa.int64())
    assert found.to_pylist() == [-1000, -((1 << 63) // 1000 * 1000), 0]


def test_signed_and_unsigned_timestamps_are_joined_as_they_are() -> None:
    batches = read([packed([b"a"], timestamps_ms=-1), plain(b"b", timestamp_ms=(1 << 53) + 1)])
    found = messages.record_batch(*batches, **PLACE)["timestamp"].cast(pa.int64())
    assert found.to_pylist() == [-1000, ((1 << 53) + 1) * 1000]


@pytest.mark.parametrize("columns", [None, ["key"], ["headers"]])
@pytest.mark.parametrize("block", [b"\1", encode_headers(b"k", None)[:-1], b"\1\0\0\0\0"])
def test_a_block_that_is_none_raises_what_reading_it_raises(
    columns: list[str] | None, block: bytes
) -> None:
    (batch,) = read([plain(b"a"), plain(b"b", b"k"), Written(b"c", block)])
    with pytest.raises(Corrupt) as expected:
        list(batch)
    with pytest.raises(Corrupt) as caught:
        messages.record_batch(batch, **PLACE, columns=columns)
    assert str(caught.value) == str(expected.value)
    assert "x.log" in str(caught.value)
    values = messages.record_batch(batch, **PLACE, columns=["value"])["value"]
    assert values.to_pylist() == [b"a", b"b", b"c"], "blocks that nobody asks for are not opened"


def test_a_block_of_a_later_version_raises_so() -> None:
    (batch,) = read([Written(b"c", b"\2\0\0\0")])
    with pytest.raises(UnknownVersion):
        messages.record_batch(batch, **PLACE)


def test_a_name_that_is_no_text_is_corrupt_in_a_plain_record() -> None:
    block = encode_headers(None, None, [("name", b"")]).replace(b"name", b"na\xffe")
    (batch,) = read([plain(b"a", b"k"), Written(b"c", block)])
    with pytest.raises(Corrupt) as expected:
        list(batch)
    with pytest.raises(Corrupt) as caught:
        messages.record_batch(batch, **PLACE)
    assert str(caught.value) == str(expected.value)


def test_a_name_that_is_no_text_has_marks_in_a_batch_record() -> None:
    written = build_with_bad_name()
    (found,) = assert_same_rows(read([written, plain(b"b")]))
    assert found["headers"].to_pylist()[0][0]["name"] == "na\N{REPLACEMENT CHARACTER}e"


def build_with_bad_name() -> Written:
    whole = packed([b"a"], headers=[[("name", b"v"), ("other", None)]])
    section = whole.payload[RECORD_BATCH.size :].replace(b"name", b"na\xffe")
    return whole._replace(payload=changed(whole.payload, section))


header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))
maybe = st.none() | st.binary(max_size=40)
stamps = st.integers(0, 1 << 43)
plains = st.builds(
    plain,
    maybe,
    maybe,
    st.lists(header, max_size=3),
    producer=st.none() | st.just(Producer(1, 2, 3)),
    flags=st.sampled_from([0, 0, 0, 2, 8]),
    timestamp_ms=stamps,
    offset_count=st.integers(1, 3),
)


@st.composite
def packs(draw: st.DrawFn) -> Written:
    values = draw(st.lists(maybe, min_size=1, max_size=6))
    count = len(values)

    def each(one: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(one, min_size=count, max_size=count))

    return packed(
        values,
        draw(st.sampled_from(list(Compression))),
        keys=each(maybe),
        headers=each(st.lists(header, max_size=2)),
        timestamps_ms=each(stamps),
    )


@given(
    st.lists(st.one_of(plains, plains, packs()), max_size=12),
    st.integers(0, 30),
    st.integers(0, 40),
    st.integers(1, 12),
)
def test_any_log_gives_the_rows_that_reading_it_gives(
    records: list[Written], skipped: int, wanted: int, rows_max: int
) -> None:
    start = 50 + skipped
    found = assert_same_rows(read(records, start=start, end=start + wanted), rows_max=rows_max)
    assert all(1 <= one.num_rows <= rows_max for one in found)
