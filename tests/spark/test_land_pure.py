"""What `land` decides without a session: settings, shapes of documents, and their columns."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lakebed.base.errors import BadConfig, InputError, LakebedError, TooLarge
from lakebed.spark.arrow.columns import TIMESTAMP
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.land.config import LandConfig
from lakebed.spark.jobs.land.executor_call import Answer, encoded_answer, value_of
from lakebed.spark.jobs.land.json_decoder import JsonDecoder, check_decodable
from lakebed.spark.jobs.land.rows import MessageRows, times_of
from lakebed.spark.jobs.land.shapes import (
    Shape,
    extended,
    is_column_name,
    leaf_count,
    left_over,
)


def config(**named: Any) -> LandConfig:
    chosen: dict[str, Any] = {"source": Backend(path="/data"), "table": "lake/{name}", "s3": {}}
    if "topics" not in named and "logs" not in named:
        chosen["topics"] = ("events",)
    return LandConfig(**{**chosen, **named})


def shape_of(*documents: object) -> Shape:
    shape = Shape()
    for one in documents:
        shape.add_value(one)
    return shape


def ddl(*documents: object) -> str:
    return shape_of(*documents).struct().simpleString()


def rows_of(
    schema: StructType, *values: bytes | None
) -> tuple[list[Any], dict[int, str], dict[int, str]]:
    """The rows, without those that are none; what is wrong with these, and what was rescued."""
    decoder = JsonDecoder(schema, lists_extra=True)
    found = decoder.decode(values)
    columns = decoder.columns(found)
    cells = [column.to_pylist() for column in columns]
    names = schema.names
    return (
        [
            {name: cell[index] for name, cell in zip(names, cells, strict=True)}
            for index in range(len(values))
            if index not in found.errors
        ],
        found.errors,
        {index: text for index, text in enumerate(found.rescued()) if text},
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"topics": ()}, "name at least one topic or log"),
        ({"logs": ("a",), "table": "lake/t", "topics": ("t",)}, "different columns"),
        ({"topics": ("a",), "logs": ("a",)}, "have the same name"),
        ({"schema": "a INT"}, "only be set if the setting 'values' is json"),
        ({"table": "lake"}, "bucket/prefix"),
        ({"dead_letters": "lake/x"}, "the table for dead letters must contain it too"),
        ({"dead_letters": "lake/{name}"}, "must not be the same as lake/events"),
        (
            {"dead_letters": "lake/{name}/dead"},
            "lake/events/dead must not be the same as lake/events, or inside it",
        ),
        (
            {"table": "lake/{name}/rows", "dead_letters": "s3://lake/{name}"},
            "lake/events/rows must not be",
        ),
        ({"topics": ("t", "t_dead_letters")}, "lake/t_dead_letters must not be"),
        ({"compression": "brotli"}, "zstd"),
        (
            {"starting_offsets": "latest", "starting_timestamp": "1"},
            "or a starting timestamp, not both",
        ),
        ({"task_bytes": 0}, "at least 1"),
        ({"interval_s": -1.0}, "must be at least 0"),
        ({"table_format": "parquet", "optimizes_at_end": True}, "only possible for Delta"),
        ({"source": Backend(endpoint="http://node")}, "a folder for the checkpoint"),
        ({"vacuum_retention_h": 0.0}, "the minimum is 168"),
        ({"vacuum_retention_h": 167.9}, "the minimum is 168"),
        ({"vacuum_retention_h": float("nan")}, "the minimum is 168"),
        ({"table_format": "parquet", "vacuum_retention_h": -1.0}, "the minimum is 168"),
        ({"message_columns": ()}, "must name at least one column"),
        ({"message_columns": ("nothing",)}, "column 'nothing' does not exist"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        config(**changed)
    assert issubclass(BadConfig, InputError)


@pytest.mark.parametrize(
    ("given", "of_events", "of_audit"),
    [
        ('{"events": {"0": 17}}', '{"events":{"0":17}}', ""),
        ('{"events": {"0": 17}, "audit": "3:64"}', '{"events":{"0":17}}', '{"audit":"3:64"}'),
        ('{"0": 17}', '{"0": 17}', '{"0": 17}'),
        ("latest", "latest", "latest"),
        ("", "", ""),
        ('{"events": {}, "typo": {}}', '{"events": {}, "typo": {}}', '{"events": {}, "typo": {}}'),
        ("[1", "[1", "[1"),
    ],
)
def test_each_table_gets_the_starting_offsets_of_its_own_topic(
    given: str, of_events: str, of_audit: str
) -> None:
    both = config(topics=("events",), logs=("audit",), starting_offsets=given)
    events, audit = both.landings()
    assert (events.names, audit.names) == (("events",), ("audit",))
    assert both.starting_offsets_of(events) == of_events
    assert both.starting_offsets_of(audit) == of_audit


def test_what_killed_tasks_left_of_parquet_is_removed_if_that_is_asked_for() -> None:
    plain = config(table_format="parquet")
    assert (plain.landings()[0].optimize_batches, plain.keeps_up_at_end) == (0, False)
    kept = config(table_format="parquet", vacuum_retention_h=168.0)
    assert (kept.landings()[0].optimize_batches, kept.keeps_up_at_end) == (50, True)
    table = config(vacuum_retention_h=168.0)
    assert (table.landings()[0].optimize_batches, table.keeps_up_at_end) == (50, False)


def test_each_topic_has_a_table_and_a_checkpoint_of_its_own_by_its_name() -> None:
    chosen = config(topics=("a", "b"), logs=("c",))
    landings = chosen.landings()
    assert [(one.table, one.dead_letters, one.is_log) for one in landings] == [
        ("lake/a", "lake/a_dead_letters", False),
        ("lake/b", "lake/b_dead_letters", False),
        ("lake/c", "lake/c_dead_letters", True),
    ]
    folders = [chosen.checkpoint_of(one) for one in landings]
    assert len(set(folders)) == 3
    assert all(one.startswith("/data/spark/checkpoints/lake.") for one in folders)
    alone = config(topics=("a", "b"), table="lake/all", checkpoint="/c")
    (landing,) = alone.landings()
    assert landing.names == ("a", "b")
    assert alone.checkpoint_of(landing) == "/c"
    assert config(checkpoint="/c/").checkpoint_of(landings[0]).startswith("/c/lake.a-")


def test_tables_whose_names_look_alike_have_checkpoints_of_their_own() -> None:
    folders = set()
    for table in ("lake/a.b/c", "lake/a/b.c"):
        chosen = config(table=table)
        folders.add(chosen.checkpoint_of(chosen.landings()[0]))
    assert len(folders) == 2


def test_columns_of_messages_and_of_times() -> None:
    raw = MessageRows(config(time_partition="hour").landings()[0])
    assert raw.schema.names[:3] == ["topic", "partition", "offset"]
    assert raw.partition_columns == ("day", "hour")
    assert raw.schema.names[-2:] == ["day", "hour"]
    lean = MessageRows(config(message_columns=("value",), time_partition="day").landings()[0])
    assert lean.schema.names == ["value", "day"]
    assert lean.read_columns == ("timestamp", "value")
    of_json = MessageRows(config(values="json").landings()[0])
    assert of_json.schema.names == ["_topic", "_partition", "_offset", "_timestamp", "_key"]
    assert "value" in of_json.read_columns
    log = MessageRows(config(logs=("l",), values="json", message_columns=()).landings()[0])
    assert log.schema.names == []
    assert log.read_columns == ("log", "record_id", "timestamp", "payload")


def test_times_beyond_years_of_four_digits_have_no_day() -> None:
    stamps = [0, 3_600_000_000 * 25, -1, 253_402_300_800_000_000, -62_135_596_800_000_001, None]
    days, hours = times_of(pa.array(stamps, pa.int64()).cast(TIMESTAMP))
    assert [str(day) for day in days.to_pylist()] == [
        "1970-01-01",
        "1970-01-02",
        "1969-12-31",
        "None",
        "None",
        "None",
    ]
    assert hours.to_pylist() == [0, 1, 23, None, None, None]


def test_shapes_of_documents() -> None:
    assert ddl({"a": 1, "b": "x", "c": True, "d": None}) == "struct<a:bigint,b:string,c:boolean>"
    assert ddl({"a": 1}, {"a": 1.5}) == "struct<a:double>"
    assert ddl({"a": 2**70}) == "struct<a:double>"
    assert ddl({"a": []}, {"a": [None]}) == "struct<>"
    assert ddl({"a": []}, {"a": [{"b": 1}, {"c": "x"}]}) == (
        "struct<a:array<struct<b:bigint,c:string>>>"
    )
    assert ddl({"a": "x"}, {"a": 1}, {"a": "y"}) == "struct<a:string>", "the most frequent one"
    assert ddl({"a": {}}) == "struct<>"
    assert ddl({"Id": 1, "id": 2, "a b": 3, "": 4}) == "struct<Id:bigint>"


def test_what_was_seen_in_parts_is_as_if_it_was_seen_at_once() -> None:
    documents = [{"a": 1, "b": [1]}, {"a": 2.5, "c": {"d": "x"}}, {"b": [None, {"e": 1}, {"e": 2}]}]
    whole, parts = shape_of(*documents), Shape()
    for one in documents:
        parts.add(shape_of(one))
    assert parts == whole
    assert parts.struct() == whole.struct()


def test_deep_documents_have_no_type() -> None:
    document: dict[str, Any] = {"a": 1}
    for _ in range(40):
        document = {"a": document}
    assert ddl(document) == "struct<>"


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a=b", "a\nb", "x" * 256])
def test_names_that_no_column_can_have(name: str) -> None:
    assert not is_column_name(name)
    assert is_column_name("größe.in-cm")


def test_a_table_grows_and_what_it_has_stays() -> None:
    table = shape_of({"a": 1, "s": {"x": 1}, "l": [{"x": 1}]}).struct()
    wanted = shape_of({"A": "other", "a": "other", "s": {"y": 1}, "l": [{"y": "z"}], "n": 1})
    grown = extended(table, wanted.struct())
    assert grown.simpleString() == (
        "struct<a:bigint,s:struct<x:bigint,y:bigint>,l:array<struct<x:bigint,y:string>>,n:bigint>"
    )
    assert extended(grown, table) == grown
    assert leaf_count(grown) == 6


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"id": 1, "new": None, "other": [[], {"a": None}]}, []),
        ({"id": 2, "Id": 1}, ["Id"]),
        ({"a b": 1}, ["a b"]),
        ({"s": {"y": 0}, "id": 1}, ["s"]),
        ({"l": [{}, {"y": False}], "s": {"x": 1}}, ["l"]),
        ({"_key": 1}, ["_key"]),
    ],
)
def test_which_fields_of_a_document_are_more_than_their_column(
    document: dict[str, Any], names: list[str]
) -> None:
    schema = shape_of({"id": 1, "s": {"x": 1}, "l": [{"x": 1}]}).struct()
    assert left_over(document, schema) == names


def test_values_become_rows_and_what_is_none_is_told() -> None:
    schema = shape_of({"id": 1, "name": "x", "score": 1.5}).struct()
    rows, errors, rescued = rows_of(
        schema,
        b'{"id": 1, "name": "a", "score": 2}',
        None,
        b"{}",
        b' {"name": null}\n',
        b"",
        b"null",
        b"[1]",
        b'{"id": "1"}',
        b'{"id": 1.5}',
        b'{"id": 1} {"id": 2}',
        b'{"id": 1',
        b'{"name": "\xff"}',
        b'{"id": 9223372036854775808}',
        b'{"id": ' + b"[" * 100_000,
        b'{"id": 2, "new": 1}',
    )
    empty = {"id": None, "name": None, "score": None}
    assert rows == [
        {"id": 1, "name": "a", "score": 2.0},
        *[empty] * 6,
        {"id": 2, "name": None, "score": None},
    ]
    assert sorted(errors) == [4, 5, 6, 9, 10, 11, 13]
    assert rescued == {7: '{"id":"1"}', 8: '{"id":1.5}', 12: '{"id":9223372036854775808}'}


def test_every_type_that_a_schema_can_name() -> None:
    schema = StructType(
        [
            StructField("small", ByteType()),
            StructField("day", DateType()),
            StructField("at", TimestampType()),
            StructField("price", DecimalType(5, 2)),
            StructField("tags", MapType(StringType(), ArrayType(IntegerType()))),
            StructField("inner", StructType([StructField("x", DoubleType())])),
        ]
    )
    good = {
        "small": -128,
        "day": "2026-01-31",
        "at": "2026-01-31T12:00:00+02:00",
        "price": 123.45,
        "tags": {"a": [1, None], "b": None},
        "inner": {"x": 1},
    }
    bad = [
        {"small": 128},
        {"day": "31.1.2026"},
        {"at": "noon"},
        {"price": 1234.5},
        {"price": "0.001"},
        {"tags": {"a": 1}},
        {"inner": []},
    ]
    rows, errors, rescued = rows_of(schema, *(json.dumps(one).encode() for one in [good, *bad, {}]))
    assert not errors
    assert [json.loads(rescued[index]) for index in sorted(rescued)] == bad
    assert rows[1:] == [dict.fromkeys(schema.names)] * 8
    assert str(rows[0]["at"]) == "2026-01-31 10:00:00+00:00"
    assert str(rows[0]["price"]) == "123.45"
    assert rows[0]["tags"] == [("a", [1, None]), ("b", None)]
    assert rows[0]["inner"] == {"x": 1.0}


def test_types_that_json_has_not_are_refused() -> None:
    with pytest.raises(InputError, match="a map whose keys are not strings"):
        check_decodable(StructType([StructField("m", MapType(LongType(), LongType()))]))


_NAMES = some.sampled_from(["a", "b", "c", "A", "x y"])
_JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-5, 2**65) | some.floats(-9, 9) | some.text("xy"),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)


@example([{"a": 1, "b": {"c": 1}}, {"a": 2}, {"a": "no", "b": {"c": 2, "x y": 3}}])
@given(some.lists(some.dictionaries(_NAMES, _JSON, max_size=4), max_size=6))
def test_a_document_is_a_row_and_what_does_not_fit_is_rescued(documents: list[Any]) -> None:
    schema = shape_of(*documents).struct()
    decoder = JsonDecoder(schema, lists_extra=True)
    found = decoder.decode([json.dumps(one).encode() for one in documents])
    columns = decoder.columns(found)
    rescued = [json.loads(text) if text else {} for text in found.rescued()]
    assert not found.errors
    for index, document in enumerate(documents):
        if index not in found.with_more:
            assert left_over(document, schema) == []
        assert all(rescued[index][name] == document[name] for name in rescued[index])
        row = {
            name: column[index].as_py() for name, column in zip(schema.names, columns, strict=True)
        }
        assert not [name for name in rescued[index] if row[name] is not None]
        fitting = {name: one for name, one in document.items() if name not in rescued[index]}
        assert _pruned(row) == _pruned(_within(fitting, schema))


def _within(value: Any, schema: Any) -> Any:
    """What of a document a schema has."""
    if isinstance(schema, StructType) and isinstance(value, dict):
        return {
            name: _within(value[name], schema[name].dataType)
            for name in schema.names
            if name in value
        }
    if isinstance(schema, ArrayType) and isinstance(value, list):
        return [_within(one, schema.elementType) for one in value]
    return value


def _pruned(value: Any) -> Any:
    """Without fields that are null: a row has them, and a document need not."""
    if isinstance(value, dict):
        return {name: _pruned(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_pruned(one) for one in value]
    return value


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (BadConfig("no such key"), BadConfig),
        (TooLarge("the column count", size=2, limit=1), InputError),
        (LakebedError("out of reach"), LakebedError),
    ],
)
def test_an_error_of_an_executor_is_raised_with_its_message(
    error: LakebedError, raised: type[LakebedError]
) -> None:
    def fail() -> None:
        raise error

    answer = msgspec.json.decode(encoded_answer(fail), type=Answer)
    with pytest.raises(LakebedError, match=f"^{error}$") as caught:
        value_of(answer)
    assert type(caught.value) is raised
