"""`lakebed.table` as the source and the sink of streams, in a real session."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.upkeep import optimize
from tests.s3.endpoint import Endpoint
from tests.spark.table_locations import (
    delta,
    keys_below,
    new_place,
    options_of,
    rows_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.process]


@pytest.fixture
def source(node: Endpoint) -> TableLocation:
    return new_place(node)


@pytest.fixture
def sink(node: Endpoint) -> TableLocation:
    return new_place(node)


def save(frame: DataFrame, place: TableLocation, *, mode: str = "append", **options: Any) -> None:
    writer = frame.write.format("lakebed.table").options(**options_of(place), **options)
    writer.mode(mode).save()


def follow(
    spark: SparkSession,
    source: TableLocation,
    sink: TableLocation,
    checkpoint: Path,
    *,
    write: dict[str, Any] | None = None,
    **options: Any,
) -> list[int]:
    """Until there is nothing more; the rows of each batch."""
    frame = spark.readStream.format("lakebed.table").options(**options_of(source), **options).load()
    writer = frame.writeStream.format("lakebed.table").options(**options_of(sink), **(write or {}))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    return batches_of(query)


def batches_of(query: StreamingQuery) -> list[int]:
    query.awaitTermination()
    return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]


def ids(place: TableLocation) -> list[int]:
    return sorted(row["id"] for row in rows_of(place))


def test_a_table_is_followed_through_limits_compaction_and_restarts(
    spark: SparkSession, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    for number in range(3):
        save(spark.range(number * 10, number * 10 + 10, 1, 1), source)
    assert follow(spark, source, sink, tmp_path / "c", maxFilesPerTrigger=2) == [20, 10]
    optimize(source)  # nothing new
    save(spark.range(30, 40, 1, 1).selectExpr("id"), source)
    assert follow(spark, source, sink, tmp_path / "c", maxBytesPerTrigger="1B") == [10]
    assert follow(spark, source, sink, tmp_path / "c") == []
    assert ids(sink) == list(range(40))


def test_a_batch_that_is_repeated_after_a_crash_is_stored_once(
    spark: SparkSession, node: Endpoint, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    save(spark.range(0, 10, 1, 1), source)
    follow(spark, source, sink, tmp_path / "c")
    save(spark.range(10, 20, 1, 1), source)
    follow(spark, source, sink, tmp_path / "c")
    before = delta(sink).version()
    # As if it had died between the table's commit and its own.
    newest = max(int(one.name) for one in (tmp_path / "c/commits").iterdir() if one.name.isdigit())
    for name in (f"{newest}", f".{newest}.crc"):
        (tmp_path / "c/commits" / name).unlink(missing_ok=True)
    follow(spark, source, sink, tmp_path / "c")
    assert ids(sink) == list(range(20))
    assert delta(sink).version() == before
    assert len(list(keys_below(node, sink))) == 2
    save(spark.range(20, 25, 1, 1), source)
    follow(spark, source, sink, tmp_path / "c")
    assert ids(sink) == list(range(25))


@pytest.mark.slow
def test_two_queries_into_one_table_and_one_that_began_anew(
    spark: SparkSession, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    save(spark.range(5), source)
    for name in ("a", "b"):
        follow(spark, source, sink, tmp_path / name)
    assert ids(sink) == sorted([*range(5)] * 2)
    shutil.rmtree(tmp_path / "a")
    follow(spark, source, sink, tmp_path / "a", write={"txnAppId": "mine"})
    shutil.rmtree(tmp_path / "a")  # its batches begin at 0 again, and are known
    follow(spark, source, sink, tmp_path / "a", write={"txnAppId": "mine"})
    assert ids(sink) == sorted([*range(5)] * 3)


@pytest.mark.slow
def test_a_stream_begins_where_it_is_told(
    spark: SparkSession, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    save(spark.range(1), source)
    save(spark.range(1, 2), source, partitionBy="")
    assert follow(spark, source, sink, tmp_path / "latest", startingVersion="latest") == []
    save(spark.range(2, 4), source)
    assert sum(follow(spark, source, sink, tmp_path / "latest", startingVersion="latest")) == 2
    assert sum(follow(spark, source, sink, tmp_path / "two", startingVersion=2)) == 3
    assert ids(sink) == [1, 2, 2, 3, 3]


@pytest.mark.slow
def test_partition_columns_come_with_a_stream(
    spark: SparkSession, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    rows = spark.range(6).selectExpr(
        "id", "id % 2 = 0 AS even", "DATE'2026-01-01' AS day", "nullif(id % 3, 0) AS third"
    )
    save(rows, source, partitionBy="even,day,third")
    follow(spark, source, sink, tmp_path / "c", write={"partitionBy": "day"}, startingVersion=0)
    found = spark.read.format("lakebed.table").options(**options_of(sink)).load()
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, rows.collect()))


def test_removed_rows_end_a_stream_unless_it_is_told_what_to_do(
    spark: SparkSession, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    save(spark.range(0, 4, 1, 1), source)
    follow(spark, source, sink, tmp_path / "c")
    delta(source).delete("id = 0")  # rewrites the file
    save(spark.range(4, 6, 1, 1), source)
    with pytest.raises(
        PySparkException, match="changed rows, but a stream can only return new rows"
    ):
        follow(spark, source, sink, tmp_path / "c")
    assert follow(spark, source, sink, tmp_path / "c", skipChangeCommits=True) == [2]
    assert ids(sink) == list(range(6))
    delta(source).delete()
    with pytest.raises(PySparkException, match=r"removed rows.*ignoreDeletes"):
        follow(spark, source, sink, tmp_path / "c")
    assert follow(spark, source, sink, tmp_path / "c", ignoreDeletes=True) == []
    save(spark.range(9, 10), source, mode="overwrite")
    assert follow(spark, source, sink, tmp_path / "c", ignoreChanges=True) == [1]


@pytest.mark.slow
def test_new_columns_come_after_a_restart_and_a_new_table_is_told(
    spark: SparkSession, node: Endpoint, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    save(spark.range(2), source)
    follow(spark, source, sink, tmp_path / "c")
    save(spark.range(2, 3).selectExpr("id", "'x' AS word"), source, mergeSchema=True)
    follow(spark, source, sink, tmp_path / "c", write={"mergeSchema": True})
    assert {row["id"]: row["word"] for row in rows_of(sink)} == {0: None, 1: None, 2: "x"}
    store = source.object_store()
    for page in list(store.list(source.prefix)):
        store.delete([one["path"] for one in page])
    save(spark.range(1), source)
    with pytest.raises(PySparkException, match="deleted and created again"):
        follow(spark, source, sink, tmp_path / "c")


@pytest.mark.slow
def test_a_complete_stream_replaces_all_rows_each_time(
    spark: SparkSession, source: TableLocation, sink: TableLocation, tmp_path: Path
) -> None:
    for size in (3, 4):
        save(spark.range(size).selectExpr("id % 2 AS bit"), source)
        frame = spark.readStream.format("lakebed.table").options(**options_of(source)).load()
        counts = frame.groupBy("bit").count()
        writer = counts.writeStream.format("lakebed.table").options(**options_of(sink))
        writer = writer.outputMode("complete").option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert {row["bit"]: row["count"] for row in rows_of(sink)} == {0: 4, 1: 3}
