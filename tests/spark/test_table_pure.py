"""What needs no table: statistics, filters, partition values, schemas, splits, lines of the log."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import datasource as pushed
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    NullType,
    StructField,
    StructType,
    VariantType,
)

from lakebed.base.errors import BadConfig, DataError, InputError
from lakebed.spark.tables.files import by_partition
from lakebed.spark.tables.location import bucket_and_prefix
from lakebed.spark.tables.log import parse_change
from lakebed.spark.tables.partition_values import as_text, folder_of, from_text
from lakebed.spark.tables.parts import splits_of
from lakebed.spark.tables.schemas import (
    SchemaMismatch,
    as_table_schema,
    check_partitioning,
    evolved,
    is_readable_as,
)
from lakebed.spark.tables.snapshot import DataFile, UnsupportedTable
from lakebed.spark.tables.stats import stats_json
from lakebed.spark.tables.stats_filter import FileStats, may_match

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def ddl(text: str) -> StructType:
    fields = [part.strip().split(" ", 1) for part in text.split(";")]
    return StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind_json(kind), "nullable": True, "metadata": {}}
                for name, kind in fields
            ],
        }
    )


def kind_json(kind: str) -> Any:
    if kind.startswith("{"):
        return json.loads(ddl(kind[1:-1].replace(",", ";")).json())
    return kind


def stats_of(table: pa.Table, *, groups: int = 1, **settings: Any) -> dict[str, Any]:
    stream = io.BytesIO()
    size = max(1, -(-table.num_rows // groups))
    parquet.write_table(table, stream, row_group_size=size, store_schema=False)
    metadata = parquet.read_metadata(io.BytesIO(stream.getvalue()))
    text = stats_json(metadata, table.schema, unbounded=frozenset(settings.get("unbounded", ())))
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return found


class TestStatistics:
    def test_bounds_and_nulls_go_over_all_row_groups(self) -> None:
        table = pa.table({"n": [5, None, 3, 9, None, 7], "s": ["b", "a", None, "d", "c", "e"]})
        found = stats_of(table, groups=3)
        assert found["numRecords"] == 6
        assert found["minValues"] == {"n": 3, "s": "a"}
        assert found["maxValues"] == {"n": 9, "s": "e"}
        assert found["nullCount"] == {"n": 2, "s": 1}

    def test_a_group_of_nulls_does_not_hide_the_bounds_of_the_others(self) -> None:
        found = stats_of(pa.table({"n": pa.array([None, None, 4, 6], pa.int32())}), groups=2)
        assert found["minValues"] == {"n": 4}
        assert found["nullCount"] == {"n": 2}

    def test_a_long_string_is_cut_and_its_upper_bound_is_above_it(self) -> None:
        long = "x" * 100
        found = stats_of(pa.table({"s": [long]}))
        assert found["minValues"]["s"] == "x" * 32
        assert found["maxValues"]["s"] > long
        assert len(found["maxValues"]["s"]) == 33

    def test_a_long_string_that_nothing_is_above_has_no_upper_bound(self) -> None:
        found = stats_of(pa.table({"s": ["\U0010ffff" * 40]}))
        assert "s" in found["minValues"]
        assert "s" not in found["maxValues"]

    def test_decimals_are_exact_and_moments_have_microseconds(self) -> None:
        table = pa.table(
            {
                "d": pa.array([Decimal("12345678901234567.123")], pa.decimal128(20, 3)),
                "t": pa.array([MOMENT], pa.timestamp("us", "UTC")),
                "n": pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("us")),
                "a": [date(2026, 3, 1)],
            }
        )
        assert stats_of(table)["maxValues"] == {
            "d": Decimal("12345678901234567.123"),
            "t": "2026-03-01T12:30:15.123456Z",
            "n": "2026-03-01T12:30:15.123456",
            "a": "2026-03-01",
        }

    @pytest.mark.parametrize("year", [1, 999, 9999])
    def test_years_have_four_digits(self, year: int) -> None:
        moment = MOMENT.replace(year=year)
        table = pa.table(
            {
                "t": pa.array([moment], pa.timestamp("us", "UTC")),
                "n": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
                "a": [moment.date()],
            }
        )
        found = stats_of(table)
        assert found["minValues"] == found["maxValues"]
        assert found["minValues"] == {
            "t": f"{year:04d}-03-01T12:30:15.123456Z",
            "n": f"{year:04d}-03-01T12:30:15.123456",
            "a": f"{year:04d}-03-01",
        }

    def test_columns_of_structs_have_bounds_and_those_of_arrays_and_maps_have_none(self) -> None:
        table = pa.table(
            {
                "l": pa.array([[1, 2]], pa.list_(pa.int32())),
                "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
                "s": pa.array([{"a": 7, "l": [1]}]),
                "b": pa.array([b"x"]),
                "z": [1],
            }
        )
        found = stats_of(table)
        assert found["minValues"] == {"s": {"a": 7}, "z": 1}
        assert found["nullCount"] == {"s": {"a": 0}, "b": 0, "z": 0}

    def test_only_the_first_columns_have_any(self) -> None:
        found = stats_of(pa.table({f"c{number}": [number] for number in range(40)}))
        assert len(found["minValues"]) == 32

    def test_unbounded_columns_have_no_bounds(self) -> None:
        found = stats_of(pa.table({"f": [1.0, 2.0]}), unbounded={("f",)})
        assert found["minValues"] == {}
        assert found["nullCount"] == {"f": 0}


NUMBERS = FileStats(
    rows=10,
    least={"n": 10, "f": 1.0, "s": "beta", "x": {"y": 5}, "t": MOMENT, "e": None},
    greatest={"n": 20, "f": 2.0, "s": "delta", "x": {"y": 6}, "t": MOMENT, "e": None},
    nulls={"n": 0, "f": 3, "s": 10 - 8, "x": {"y": 0}, "t": 0, "e": 10},
    partition={"p": "blue", "q": None},
)
N, F, S, T, E, P, Q, U = (("n",), ("f",), ("s",), ("t",), ("e",), ("p",), ("q",), ("unknown",))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pushed.EqualTo(N, 9), False),
        (pushed.EqualTo(N, 10), True),
        (pushed.EqualTo(N, 21), False),
        (pushed.EqualTo(N, "text"), True),
        (pushed.GreaterThan(N, 20), False),
        (pushed.GreaterThan(N, 19), True),
        (pushed.GreaterThanOrEqual(N, 20), True),
        (pushed.GreaterThanOrEqual(N, 21), False),
        (pushed.LessThan(N, 10), False),
        (pushed.LessThan(N, 11), True),
        (pushed.LessThanOrEqual(N, 10), True),
        (pushed.LessThanOrEqual(N, 9), False),
        (pushed.In(N, (1, 2)), False),
        (pushed.In(N, (1, 15)), True),
        (pushed.IsNull(N), False),
        (pushed.IsNull(F), True),
        (pushed.IsNotNull(E), False),
        (pushed.EqualTo(E, 1), False),
        (pushed.Not(pushed.IsNull(E)), False),
        (pushed.Not(pushed.IsNotNull(N)), False),
        (pushed.Not(pushed.EqualTo(N, 15)), True),
        (pushed.EqualNullSafe(N, None), False),
        (pushed.EqualNullSafe(F, None), True),
        # A NaN is greater than all, and in no statistics.
        (pushed.GreaterThan(F, 5.0), True),
        (pushed.GreaterThanOrEqual(F, 5.0), True),
        (pushed.EqualTo(F, math.nan), True),
        (pushed.EqualTo(F, 5.0), False),
        (pushed.LessThan(F, 1.0), False),
        (pushed.EqualTo(S, "alpha"), False),
        (pushed.EqualTo(S, "cat"), True),
        (pushed.StringStartsWith(S, "be"), True),
        (pushed.StringStartsWith(S, "a"), False),
        (pushed.StringStartsWith(S, "e"), False),
        (pushed.StringEndsWith(S, "zzz"), True),
        (pushed.EqualTo(("x", "y"), 7), False),
        (pushed.EqualTo(("x", "y"), 5), True),
        # Other writers cut the milliseconds of the greatest moment off.
        (pushed.GreaterThan(T, MOMENT + timedelta(microseconds=500)), True),
        (pushed.GreaterThan(T, MOMENT + timedelta(milliseconds=2)), False),
        (pushed.GreaterThan(T, MOMENT.replace(tzinfo=None)), True),
        (pushed.EqualTo(P, "blue"), True),
        (pushed.EqualTo(P, "red"), False),
        (pushed.Not(pushed.EqualTo(P, "blue")), False),
        (pushed.Not(pushed.EqualTo(P, "red")), True),
        (pushed.Not(pushed.In(P, ("blue", "red"))), False),
        (pushed.IsNull(P), False),
        (pushed.IsNull(Q), True),
        (pushed.IsNotNull(Q), False),
        (pushed.EqualTo(Q, "x"), False),
        (pushed.EqualTo(U, 1), True),
        (pushed.IsNull(U), True),
    ],
    ids=str,
)
def test_a_file_is_passed_over_only_if_no_row_can_match(one: pushed.Filter, expected: bool) -> None:
    assert may_match([one], NUMBERS) is expected


def test_all_filters_must_be_passed() -> None:
    assert may_match([pushed.GreaterThan(N, 5), pushed.LessThan(N, 15)], NUMBERS)
    assert not may_match([pushed.GreaterThan(N, 5), pushed.LessThan(N, 6)], NUMBERS)


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        ("a b/c=%", "a b/c=%", pa.string()),
        (None, None, pa.string()),
        (-5, "-5", pa.int64()),
        (True, "true", pa.bool_()),
        (date(2026, 3, 1), "2026-03-01", pa.date32()),
        (MOMENT, "2026-03-01T12:30:15.123456Z", pa.timestamp("us", "UTC")),
        (MOMENT.replace(tzinfo=None), "2026-03-01 12:30:15.123456", pa.timestamp("us")),
        (Decimal("1E+3"), "1000", pa.decimal128(10, 2)),
        (1.5, "1.5", pa.float64()),
    ],
)
def test_a_partition_value_is_text_and_back(value: Any, text: str | None, kind: Any) -> None:
    assert as_text(value) == text
    assert from_text(text, kind) == value


@pytest.mark.parametrize("year", [1, 999, 9999])
def test_years_of_partition_values_have_four_digits(year: int) -> None:
    moment = MOMENT.replace(year=year)
    for value, text, kind in (
        (moment, f"{year:04d}-03-01T12:30:15.123456Z", pa.timestamp("us", "UTC")),
        (moment.replace(tzinfo=None), f"{year:04d}-03-01 12:30:15.123456", pa.timestamp("us")),
        (moment.date(), f"{year:04d}-03-01", pa.date32()),
    ):
        assert as_text(value) == text
        assert from_text(text, kind) == value


def test_other_writers_moments_are_read() -> None:
    assert from_text("2026-03-01 12:30:15", pa.timestamp("us", "UTC")) == MOMENT.replace(
        microsecond=0
    )


def test_a_partition_value_of_another_type_is_damage() -> None:
    with pytest.raises(DataError, match="not of type int32"):
        from_text("blue", pa.int32())


def test_folders_have_no_sign_that_means_something_elsewhere() -> None:
    folder = folder_of({"a": "x/../y z%\u00e9", "b": None})
    assert folder == "a=x%2F..%2Fy%20z%25%C3%A9/b=__HIVE_DEFAULT_PARTITION__/"


def test_rows_are_parted_by_value_and_stay_in_order() -> None:
    rows = pa.record_batch(
        {
            "p": ["b", None, "a", "b", ""],
            "q": pa.array([1, 1, 1, 2, 1], pa.int8()),
            "n": [0, 1, 2, 3, 4],
        }
    )
    found = {key: part["n"].to_pylist() for key, part in by_partition(rows, ["p", "q"])}
    assert found == {("b", "1"): [0], (None, "1"): [1, 4], ("a", "1"): [2], ("b", "2"): [3]}


class TestSchemas:
    def test_every_column_may_be_null(self) -> None:
        strict = StructType([StructField("c", IntegerType(), nullable=False)])
        rows = StructType([StructField("b", ArrayType(strict, False), nullable=False)])
        loose = as_table_schema(rows)
        assert '"nullable":false' not in loose.json()
        assert '"containsNull":false' not in loose.json()

    @pytest.mark.parametrize("kind", [VariantType(), DayTimeIntervalType(), NullType()], ids=str)
    def test_what_delta_has_no_type_for_is_refused(self, kind: DataType) -> None:
        with pytest.raises(SchemaMismatch, match=r"'s\.b\[\]' is .*, which Delta does not support"):
            as_table_schema(StructType().add("s", StructType().add("b", ArrayType(kind))))

    def test_names_that_differ_in_case_alone_are_refused(self) -> None:
        with pytest.raises(SchemaMismatch, match="twice"):
            as_table_schema(ddl("a integer; A integer"))

    def test_rows_may_lack_columns_and_have_smaller_numbers(self) -> None:
        table = ddl("a long; b double; c string")
        assert evolved(table, ddl("a byte; b float"), may_add=False) == table
        with pytest.raises(
            SchemaMismatch, match="a is bigint in the table, but tinyint in the rows"
        ):
            evolved(table, ddl("a byte"), may_add=False, may_widen=False)

    def test_a_larger_type_or_another_one_is_refused(self) -> None:
        with pytest.raises(SchemaMismatch, match="a is int in the table, but bigint in the rows"):
            evolved(ddl("a integer"), ddl("a long"), may_add=True)

    def test_new_columns_are_added_behind_if_they_may_be(self) -> None:
        table, rows = ddl("a integer; s {x integer}"), ddl("n string; s {y integer}; a integer")
        with pytest.raises(
            SchemaMismatch, match=r"not in the table: s\.y int, n string .*mergeSchema"
        ):
            evolved(table, rows, may_add=False)
        assert evolved(table, rows, may_add=True) == ddl(
            "a integer; s {x integer, y integer}; n string"
        )

    def test_another_case_is_another_name_and_refused(self) -> None:
        with pytest.raises(SchemaMismatch, match="Id is called id in the table"):
            evolved(ddl("id integer"), ddl("Id integer"), may_add=True)

    def test_partition_columns_are_checked(self) -> None:
        schema = ddl("a integer; b binary")
        check_partitioning(schema, ["a"])
        for columns, problem in (
            (["c"], "'c' does not exist"),
            (["b"], "binary"),
            (["a", "b"], "binary"),
        ):
            with pytest.raises(InputError, match=problem):
                check_partitioning(schema, columns)
        with pytest.raises(InputError, match="at least one column must not"):
            check_partitioning(ddl("a integer"), ["a"])

    def test_an_older_schema_is_readable_as_a_newer_one_and_not_the_other_way(self) -> None:
        older, newer = ddl("a integer; s {x integer}"), ddl("a integer; s {x integer, y long}")
        assert is_readable_as(older, newer)
        assert not is_readable_as(newer, older)


def test_small_files_share_a_split_and_large_ones_are_cut() -> None:
    files = [DataFile(f"f{number}", size, {}) for number, size in enumerate([10, 20, 10**9, 5])]
    splits = splits_of(files, split_bytes=100_000_000)
    assert [part.file.path for part in splits[0]] == ["f0", "f1"]
    cut = [part for split in splits for part in split if part.file.path == "f2"]
    assert [part.start for part in cut] == [0, *[part.end for part in cut[:-1]]]
    assert cut[-1].end == 10**9
    assert len(cut) == 10
    assert splits_of([]) == []


def test_a_change_tells_new_files_and_removed_ones() -> None:
    actions: list[dict[str, Any]] = [
        {"commitInfo": {}},
        {"add": {"path": "p=a%2520b/f", "size": 3, "partitionValues": {"p": "a b"}}},
        {"add": {"path": "g", "size": 3, "dataChange": False}},
        {"remove": {"path": "h", "dataChange": True}},
        {"remove": {"path": "i", "dataChange": False}},
        {"metaData": {"id": "one", "schemaString": '{"type": "struct", "fields": []}'}},
    ]
    text = "\n".join(map(json.dumps, actions)).encode()
    change = parse_change(text, version=3, path="log")
    assert [(one.path, one.partition) for one in change.added] == [("p=a%20b/f", {"p": "a b"})]
    assert change.removed == 1
    assert change.table_id == "one"


def test_a_damaged_log_is_told_with_its_line() -> None:
    with pytest.raises(DataError, match="line 2"):
        parse_change(b'{"commitInfo": {}}\n{"add": ', version=1, path="log")


def test_a_shallow_clone_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="shallow clone"):
        parse_change(b'{"add": {"path": "s3://other/f", "size": 1}}', version=1, path="log")


@pytest.mark.parametrize("table", ["", "bucket", "bucket/", "/x", "b/a//c", "b/../c", "b/a b"])
def test_a_table_is_a_bucket_and_a_prefix(table: str) -> None:
    with pytest.raises(BadConfig, match="table"):
        bucket_and_prefix(table)
    assert bucket_and_prefix("s3://lake/a/b/") == ("lake", "a/b")
