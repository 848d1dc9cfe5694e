"""Streams of `lakebed.topic` in a real session: limits, available-now, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import window

from lakebed.store.read_only import ReadOnlyStore
from tests.spark.feeds import fill, writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def drain(spark: SparkSession, scratch: Path, **options: Any) -> list[int]:
    """Take what is there, and end; how many rows each micro-batch had."""
    stream = (
        spark.readStream.format("lakebed.topic")
        .options(path=str(scratch / "store"), topic="events", **options)
        .load()
    )
    query = (
        stream.select("partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(scratch / "out"))
    )
    query.awaitTermination()
    return [int(progress["numInputRows"]) for progress in query.recentProgress]


def test_a_watermark_drops_nothing_of_a_skewed_topic(spark: SparkSession, tmp_path: Path) -> None:
    with writing(tmp_path / "store") as store:
        for partition, step_ms in zip(
            store.topic("events", partitions=3).partitions, (4000, 1000, 100), strict=True
        ):
            times_ms = list(range(1000, 41_000, step_ms))
            partition.append_batch([b"x"] * len(times_ms), timestamps_ms=times_ms).result()
    query = (
        spark.readStream.format("lakebed.topic")
        .options(path=str(tmp_path / "store"), topic="events", maxRowsPerTrigger="120")
        .load()
        .withWatermark("timestamp", "2 seconds")
        .groupBy(window("timestamp", "2 seconds"))
        .count()
        .writeStream.format("memory")
        .queryName("skewed")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress
    dropped = [each["stateOperators"][0]["numRowsDroppedByWatermark"] for each in progress]
    assert sum(each["numInputRows"] for each in progress) == 10 + 40 + 400
    assert sum(1 for each in progress if each["numInputRows"]) >= 4
    assert sum(dropped) == 0
    counts = spark.sql("select max(count) as count from skewed group by window").collect()
    assert sum(row["count"] for row in counts) == 10 + 40 + 400


def test_a_stream_with_limits_ends_restarts_and_reads_each_message_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with writing(tmp_path / "store") as store:
        partitions = store.topic("events", partitions=2).partitions
        fill(partitions[0], 100)
        fill(partitions[1], 300)
        counts = drain(spark, tmp_path, maxRowsPerTrigger="250")
        assert sum(counts) == 400
        assert max(counts) <= 250
        fill(partitions[0], 60)
        assert sum(drain(spark, tmp_path, maxRowsPerTrigger="250")) == 60
    found = spark.read.parquet(str(tmp_path / "out"))
    expected = {(0, number) for number in range(160)} | {(1, number) for number in range(300)}
    rows = [tuple(row) for row in found.collect()]
    assert len(rows) == len(expected)
    assert set(rows) == expected
    with ReadOnlyStore(tmp_path / "store") as reading:
        assert reading.pins.active_offsets() == []
