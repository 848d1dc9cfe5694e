"""`lakebed.table` in a real session and against a real node: batches, read and written."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow.fs import FileSelector
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from lakebed.spark.tables.location import TableLocation
from tests.s3.endpoint import Endpoint
from tests.spark.table_locations import (
    SCHEMA,
    append,
    batch,
    delta,
    keys_below,
    numbers_of,
    options_of,
    rows_of,
    s3,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process]


FILE_AT_LEAST = "100KB"  # more than any file here has: each is a split of its own


def save(frame: DataFrame, place: TableLocation, *, mode: str = "append", **options: Any) -> None:
    writer = frame.write.format("lakebed.table").options(**options_of(place), **options)
    writer.mode(mode).save()


def load(spark: SparkSession, place: TableLocation, **options: Any) -> DataFrame:
    reader = spark.read.format("lakebed.table").options(**options_of(place), **options)
    return reader.load()


EVERY_TYPE = """
    id BIGINT, i8 TINYINT, i16 SMALLINT, i32 INT, f32 FLOAT, f64 DOUBLE, dec DECIMAL(38, 10),
    small DECIMAL(5, 2), text STRING, raw BINARY, flag BOOLEAN, day DATE, moment TIMESTAMP,
    local TIMESTAMP_NTZ, list ARRAY<INT>, lists ARRAY<ARRAY<STRING>>, dict MAP<STRING, INT>,
    pair STRUCT<a: INT, b: STRUCT<c: STRING>>, pairs ARRAY<STRUCT<a: INT>>,
    deep MAP<STRING, ARRAY<STRUCT<x: DOUBLE>>>
"""


def full_row(number: int) -> tuple[Any, ...]:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    return (
        number,
        -128,
        -32768,
        2**31 - 1,
        0.5,
        1e300,
        Decimal("1234567890123456789012345678.0123456789"),
        Decimal("-999.99"),
        "ünï \U0001f600 \x00",
        b"\x00\xff",
        True,
        date(1969, 12, 31),
        moment,
        moment.replace(tzinfo=None),
        [1, None, 3],
        [["a", None], None, []],
        {"k": 1, "null": None},
        (1, ("c",)),
        [(1,), None],
        {"x": [(1.5,), None], "y": None},
    )


def test_every_type_and_null_comes_back_and_deltalake_reads_the_same(
    spark: SparkSession, place: TableLocation
) -> None:
    frame = spark.createDataFrame([full_row(1), (2, *[None] * 19)], EVERY_TYPE)
    save(frame, place)
    found = load(spark, place)
    assert found.schema == frame.schema
    assert found.orderBy("id").collect() == frame.orderBy("id").collect()
    first, second = sorted(rows_of(place), key=lambda row: row["id"])
    assert first["text"] == "ünï \U0001f600 \x00"
    assert first["dec"] == Decimal("1234567890123456789012345678.0123456789")
    assert first["pair"] == {"a": 1, "b": {"c": "c"}}
    assert first["moment"] == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert {name for name, value in second.items() if value is not None} == {"id"}


def test_partitions_of_many_types_are_written_read_and_passed_over(
    spark: SparkSession, place: TableLocation
) -> None:
    frame = spark.range(12).selectExpr(
        "id",
        "CAST(id % 3 AS INT) AS number",
        "CASE WHEN id % 3 > 0 THEN concat('a/b ', id % 3) END AS word",
        "date_add(DATE'2026-01-01', CAST(id % 3 AS INT)) AS day",
        "TIMESTAMP'2026-01-01 00:00:00.123456Z' + make_dt_interval(CAST(id % 3 AS INT)) AS moment",
        "CAST(id % 3 AS DECIMAL(5, 2)) AS dec",
        "id % 3 = 1 AS flag",
    )
    names = "number,word,day,moment,dec,flag"
    save(frame, place, partitionBy=names)
    found = load(spark, place)
    assert found.orderBy("id").collect() == frame.orderBy("id").collect()
    assert delta(place).metadata().partition_columns == names.split(",")
    all_files = len(delta(place).file_uris())
    for condition in (
        ["number", "=", 1],
        ["word", "=", "a/b 1"],
        ["day", "=", "2026-01-02"],
        ["moment", "=", "2026-01-02T00:00:00.123456Z"],
        ["dec", "=", "1.00"],
        ["flag", "=", True],
    ):
        chosen = narrowed(spark, place, condition)
        assert chosen.count() == 4, condition
        assert splits(chosen) == all_files / 3, condition
    assert splits(load(spark, place, partitionBytes=FILE_AT_LEAST)) == all_files
    assert load(spark, place).where("word IS NULL").count() == 4


def narrowed(spark: SparkSession, place: TableLocation, condition: list[Any]) -> DataFrame:
    filters = json.dumps([condition])
    return load(spark, place, partitionBytes=FILE_AT_LEAST, filters=filters)


def splits(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def test_filters_on_values_pass_over_files_and_give_the_same_rows(
    spark: SparkSession, place: TableLocation
) -> None:
    for start in (0, 1000, 2000, 3000):
        rows = spark.range(start, start + 1000, 1, 1).selectExpr(
            "id", "concat('word-', lpad(id, 6, '0')) AS word", "struct(id * 2 AS twice) AS s",
            "timestamp_millis(id * 1000) AS moment",
        )  # fmt: skip
        save(rows, place)
    for condition, count, files in (
        (["id", ">=", 2500], 1500, 2),
        (["id", "=", 1500], 1, 1),
        (["id", "in", [5, 3500]], 2, 2),
        (["word", "=", "word-002000"], 1, 1),
        (["word", "startswith", "word-0010"], 100, 1),
        (["moment", ">=", "1970-01-01T00:55:00Z"], 700, 1),
        (["id", "<", 0], 0, 1),  # Spark makes a task of its own where there is none
        (["word", "is not null"], 4000, 4),
    ):
        chosen = narrowed(spark, place, condition)
        assert chosen.count() == count, condition
        assert splits(chosen) == files, condition
    assert splits(load(spark, place)) == 1


def test_columns_are_read_alone_and_in_their_order(
    spark: SparkSession, place: TableLocation
) -> None:
    save(spark.range(3).selectExpr("id", "id + 1 AS b", "'x' AS c"), place, partitionBy="c")
    found = load(spark, place, columns="c,b")
    assert found.columns == ["c", "b"]
    assert sorted(tuple(row) for row in found.collect()) == [("x", 1), ("x", 2), ("x", 3)]
    assert load(spark, place, columns="c").count() == 3
    with pytest.raises(PySparkException, match="the column 'nope' does not exist"):
        load(spark, place, columns="nope")


def test_a_table_is_read_as_it_was(
    spark: SparkSession, node: Endpoint, place: TableLocation
) -> None:
    save(spark.range(1), place)
    save(spark.range(2), place)
    client = s3(node)
    log = f"{place.prefix}/_delta_log/{2:020d}.json"
    (entry,) = client.list_objects_v2(Bucket=place.bucket, Prefix=log)["Contents"]
    client.close()
    save(spark.range(5), place, mode="overwrite")
    assert load(spark, place).count() == 5
    assert load(spark, place, versionAsOf=2).count() == 3
    assert load(spark, place, versionAsOf=1).count() == 1
    moment = entry["LastModified"]
    assert load(spark, place, timestampAsOf=moment.isoformat()).count() == 3
    before = (moment - timedelta(milliseconds=1)).isoformat()
    assert load(spark, place, timestampAsOf=before).count() == 1
    with pytest.raises(PySparkException, match="version 77 does not exist"):
        load(spark, place, versionAsOf=77)


def test_schemas_are_checked_and_evolve_if_they_may(
    spark: SparkSession, place: TableLocation
) -> None:
    save(spark.range(2), place)
    more = spark.range(2, 4).selectExpr("id", "named_struct('a', 1) AS s")
    with pytest.raises(PySparkException, match=r"not in the table: s struct<a:int>.*mergeSchema"):
        save(more, place)
    save(more, place, mergeSchema=True)
    save(spark.range(4, 5).selectExpr("id", "named_struct('b', 'x') AS s"), place, mergeSchema=True)
    found = load(spark, place).orderBy("id").selectExpr("id", "s.a", "s.b").collect()
    assert [tuple(row) for row in found] == [
        (0, None, None),
        (1, None, None),
        (2, 1, None),
        (3, 1, None),
        (4, None, "x"),
    ]
    with pytest.raises(PySparkException, match="id is bigint in the table, but string in the rows"):
        save(spark.range(1).selectExpr("CAST(id AS STRING) AS id"), place)
    assert len(rows_of(place)) == 5


def test_a_batch_with_a_transaction_is_stored_once(
    spark: SparkSession, place: TableLocation
) -> None:
    for _ in range(2):
        save(spark.range(3), place, txnAppId="nightly", txnVersion=20260101)
    assert load(spark, place).count() == 3
    save(spark.range(3), place, txnAppId="nightly", txnVersion=20260102)
    assert load(spark, place).count() == 6
    for _ in range(2):  # and so is an overwrite
        save(spark.range(1), place, mode="overwrite", txnAppId="nightly", txnVersion=20260103)
    assert load(spark, place).count() == 1
    assert delta(place).version() == 3


def test_a_write_that_fails_leaves_neither_rows_nor_files(
    spark: SparkSession, node: Endpoint, place: TableLocation
) -> None:
    """The last task fails once the others have stored their files.

    A task that Spark kills while it uploads may store its file after the clean-up: vacuum's work.
    """
    save(spark.range(1), place)

    def fail_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows_in in batches:
            yield rows_in
            if 19_999 in rows_in["id"].to_pylist():
                source = place.file_system()
                folder = FileSelector(place.key("").rstrip("/"))
                while len([i for i in source.get_file_info(folder) if i.is_file]) < 1 + 3:
                    pass
                raise ValueError("no more")

    rows = spark.range(0, 20_000, 1, 4).mapInArrow(fail_last, "id BIGINT")
    with pytest.raises(PySparkException, match="no more"):
        save(rows, place)
    assert load(spark, place).count() == 1
    assert len(list(keys_below(node, place))) == 1


def test_what_cannot_be_is_told(spark: SparkSession, place: TableLocation) -> None:
    one = spark.range(1)
    for options, problem in (
        ({"txnAppId": "x"}, "set both options"),
        ({"compression": "best"}, "one of zstd, snappy"),
        ({"partitionBy": "nope"}, "the column 'nope' does not exist"),
        ({"partionBy": "id"}, "did you mean partitionBy"),
    ):
        with pytest.raises(PySparkException, match=problem):
            save(one, place, **options)
    with pytest.raises(PySparkException, match="not a Delta table"):
        load(spark, place)
    with pytest.raises(PySparkException, match="which Delta does not support"):
        save(one.selectExpr("INTERVAL '1' DAY AS i"), place)


@pytest.mark.parametrize("compression", ["snappy", "none", "gzip", "lz4"])
def test_files_are_read_whatever_they_are_compressed_by(
    spark: SparkSession, place: TableLocation, compression: str
) -> None:
    save(spark.range(100), place, compression=compression)
    assert load(spark, place).agg(F.sum("id")).collect()[0][0] == 4950


def test_a_table_that_only_grows_refuses_an_overwrite_at_once(
    spark: SparkSession, place: TableLocation
) -> None:
    append(place, batch(1), SCHEMA)
    delta(place).alter.set_table_properties({"delta.appendOnly": "true"})
    frame = spark.createDataFrame([(2, "x")], "n bigint, p string")
    writer = frame.write.format("lakebed.table").options(**options_of(place))
    with pytest.raises(PySparkException, match=r"delta\.appendOnly is true"):
        writer.mode("overwrite").save()
    writer.mode("append").save()
    assert numbers_of(place) == [1, 2]
