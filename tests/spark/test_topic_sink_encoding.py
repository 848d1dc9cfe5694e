"""Arrow batches become record batches: without Spark, against what the engine reads of them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakebed.base.clock import SystemClock
from lakebed.base.errors import InputError, TooLarge
from lakebed.keratin.compression import Compression
from lakebed.keratin.partitioner import partition_of
from lakebed.keratin.record_batch import check, compression_of, decode
from lakebed.spark.sinks import encoder
from lakebed.spark.sinks.columns import checked_columns
from lakebed.spark.sinks.encoder import Encoder, Spread, Target

HEADERS = pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()}))
NOW_MS = 1_700_000_000_000


class Stopped(SystemClock):
    def wall_ns(self) -> int:
        return NOW_MS * 1_000_000


def target(**changes: Any) -> Target:
    facts = {"topic": "t", "partition_count": 1, "message_bytes_max": 1 << 24}
    return Target(**{**facts, "request_bytes_max": 1 << 26, **changes})


def encode(
    *batches: pa.RecordBatch, spread: Spread = Spread.BY_TURN, turn: int = 0, **changes: Any
) -> dict[int, list[bytes]]:
    columns = {name: index for index, name in enumerate(batches[0].schema.names)}
    encoder = Encoder(columns, target(**changes), spread=spread, first_turn=turn, clock=Stopped())
    found: dict[int, list[bytes]] = {}
    for partition, batch in encoder.encoded(batches):
        found.setdefault(partition, []).append(batch)
    return found


def messages(batches: list[bytes]) -> list[Any]:
    return [message for batch in batches for message in decode(batch)]


def rows(kind: Any = None, **columns: Any) -> pa.RecordBatch:
    types = {"value": kind or pa.binary(), "key": kind or pa.binary(), "headers": HEADERS}
    arrays = [pa.array(values, types.get(name)) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_every_type_of_bytes_gives_the_same_messages(kind: Any) -> None:
    batch = rows(kind, value=["one", None, "", "vier ü"], key=[None, "k", "", "kü"])
    found = messages(encode(batch, batch.slice(1, 2))[0])
    wanted = [(None, b"one"), (b"k", None), (b"", b""), ("kü".encode(), "vier ü".encode())]
    assert [(one.key, one.value) for one in found] == [*wanted, *wanted[1:3]]
    assert {one.timestamp_ms for one in found} == {NOW_MS}


def test_headers_and_timestamps_are_kept() -> None:
    headers = [[("a", b"1"), ("b", None)], None, [], [("", b""), ("ü", b"x")]]
    listed = [h and [{"name": n, "value": v} for n, v in h] for h in headers]
    moment = datetime(2026, 1, 31, 12, 0, 0, 999_999, tzinfo=UTC)
    stamps = pa.array([moment, None, moment, None], pa.timestamp("us", tz="Europe/Berlin"))
    found = messages(encode(rows(value=[b"v"] * 4, headers=listed, timestamp=stamps))[0])
    assert [list(one.headers) for one in found] == [h or [] for h in headers]
    at_ms = int(moment.timestamp() * 1000)
    assert [one.timestamp_ms for one in found] == [at_ms, NOW_MS, at_ms, NOW_MS]


def test_slices_of_headers_are_their_own() -> None:
    listed = [[{"name": str(n), "value": b"%d" % n}] * n for n in range(6)]
    batch = rows(value=[b"%d" % n for n in range(6)], headers=listed)
    found = messages(encode(batch.slice(2, 3))[0])
    assert [list(one.headers) for one in found] == [[(str(n), b"%d" % n)] * n for n in (2, 3, 4)]


def test_keys_go_where_they_go_everywhere() -> None:
    keys = [b"key-%d" % n for n in range(500)]
    found = encode(rows(value=keys, key=keys), partition_count=7)
    for partition, batches in found.items():
        values = [one.value for one in messages(batches)]
        assert values == [key for key in keys if partition_of(key, 7) == partition]
    assert sorted(found) == list(range(7))


def test_a_given_partition_counts_before_the_key() -> None:
    batch = rows(value=[b"a", b"b", b"c"], key=[b"k", b"k", None], partition=[2, None, None])
    found = encode(batch, partition_count=4, turn=1)
    places = {one.value: number for number, batches in found.items() for one in messages(batches)}
    assert places == {b"a": 2, b"b": partition_of(b"k", 4), b"c": (1 + 2) % 4}


@pytest.mark.parametrize("number", [-1, 4, 1 << 40])
def test_a_partition_that_there_is_not_is_refused(number: int) -> None:
    with pytest.raises(
        InputError, match=rf"partition {number} does not exist \(the topic has 4 partitions\)"
    ):
        encode(rows(value=[b"a", b"b"], partition=[None, number]), partition_count=4)


def test_what_has_no_key_is_spread_evenly_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "GATHERED_ROWS", 0)
    found = encode(*[rows(value=[b"same"] * 50)] * 2, partition_count=8, turn=3)
    assert Counter({n: len(messages(b)) for n, b in found.items()}) == Counter(
        (3 + index) % 8 for index in range(100)
    )


def test_by_value_a_row_stays_where_it_was_in_any_order() -> None:
    values = [b"%d" % n for n in range(300)]
    first = encode(rows(value=values), partition_count=5, spread=Spread.BY_VALUE)
    again = encode(rows(value=values[::-1]), partition_count=5, spread=Spread.BY_VALUE, turn=2)
    assert sorted(first) == list(range(5))
    for number in first:
        found = {one.value for one in messages(again[number])}
        assert {one.value for one in messages(first[number])} == found


def test_many_small_arrow_batches_make_few_record_batches() -> None:
    small = [rows(value=[b"%d" % n]) for n in range(200)]
    (batch,) = encode(*small)[0]
    assert [one.value for one in decode(batch)] == [b"%d" % n for n in range(200)]


def test_batches_are_cut_by_bytes_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "GATHERED_BYTES", 20_000)
    values = [b"%05d" % n * 20 for n in range(1000)]
    large = [values[start : start + 100] for start in range(0, 1000, 100)]
    batches = encode(*[rows(value=part) for part in large], batch_bytes=5000)[0]
    assert [one.value for one in messages(batches)] == values
    assert max(map(len, batches)) <= 5000 + 61
    assert len(batches) < 1000 * 148 / 5000 + 12


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression_is_what_it_says(compression: Compression) -> None:
    (batch,) = encode(rows(value=[b"v" * 100] * 500), compression=compression)[0]
    assert compression_of(check(batch)) is compression
    assert [one.value for one in decode(batch)] == [b"v" * 100] * 500


def test_a_message_that_the_topic_would_refuse_is_refused_in_its_task() -> None:
    with pytest.raises(TooLarge, match="size of a message in bytes is 101"):
        encode(rows(value=[b"v" * 99], key=[b"kk"]), message_bytes_max=100)
    headers = [[{"name": "n", "value": b"x" * 5000}]]
    with pytest.raises(
        TooLarge, match=r"a message with its headers in bytes is above the maximum of 3999$"
    ):
        encode(rows(value=[b"v"], headers=headers), request_bytes_max=4096)


@pytest.mark.parametrize("key", [{}, {"key": [None, b"k", None]}])
def test_a_row_without_key_and_value_is_refused_as_an_append_is(key: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="rows with neither a value nor a key: "):
        encode(rows(value=[b"v", None, None], **key))
    assert encode(rows(value=[None], key=[b"k"]))


def test_a_header_without_a_name_is_refused() -> None:
    for header in ({"name": None, "value": b""}, None):
        with pytest.raises(InputError, match="a header has a null name"):
            encode(rows(value=[b"v"], headers=[[header]]))


def test_a_time_before_1970_is_refused() -> None:
    stamps = pa.array([datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    with pytest.raises(InputError, match="before 1970"):
        encode(rows(value=[b"v"], timestamp=stamps))


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("key string", "the column 'value' is missing"),
        ("value int", "'value' is int: it must be binary or string"),
        ("value string, key bigint", "'key' is bigint"),
        ("value string, partition string", "'partition' is string: it must be tinyint or"),
        ("value string, timestamp bigint", "'timestamp' is bigint: it must be timestamp"),
        ("value string, headers map<string,string>", "'headers' is map<string,string>"),
        ("value string, headers array<struct<key:string,value:binary>>", "'headers' is array"),
        ("value string, offset bigint", "the column 'offset' cannot be written: select only"),
        ("value string, Value binary", "the column 'value' appears twice"),
    ],
)
def test_other_columns_are_refused(ddl: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_columns(_struct(ddl))


def test_columns_are_found_by_their_names_in_any_order_and_case() -> None:
    ddl = "HEADERS array<struct<name:string,value:string>>, Key string, value binary"
    assert checked_columns(_struct(ddl)) == {"headers": 0, "key": 1, "value": 2}


def _struct(ddl: str) -> Any:
    """Without a session: the parser of DDL is Spark's own."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        MapType,
        StringType,
        StructType,
    )

    text = StringType()
    kinds: dict[str, Any] = {
        "string": text,
        "binary": BinaryType(),
        "int": IntegerType(),
        "bigint": LongType(),
        "map<string,string>": MapType(text, text),
        "array<struct<key:string,value:binary>>": ArrayType(
            StructType().add("key", text).add("value", BinaryType())
        ),
        "array<struct<name:string,value:string>>": ArrayType(
            StructType().add("name", text).add("value", text)
        ),
    }
    struct = StructType()
    for field in ddl.split(", "):
        name, _, kind = field.partition(" ")
        struct = struct.add(name, kinds[kind])
    return struct
