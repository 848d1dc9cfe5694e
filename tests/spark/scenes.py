"""What is run on a session elsewhere: each is given it, and returns plain values.

They work with a classic session and with one of Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tests.spark.far_stores import BUCKET, Far

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakebed.spark.jobs.report import Report

Rows = list[tuple[Any, ...]]


def what_tasks_see(spark: SparkSession, path: str) -> list[str]:
    """Of a folder, one text for each of two tasks."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow as pa

        for batch in batches:
            try:
                seen = [str(os.listdir(path))] * batch.num_rows
            except OSError as error:
                seen = [type(error).__name__] * batch.num_rows
            yield pa.RecordBatch.from_pydict({"seen": seen})

    found = spark.range(0, 2, 1, 2).mapInArrow(look, "seen string")
    return [row.seen for row in found.collect()]


def count_by_path(spark: SparkSession, far: Far) -> int:
    """The tasks would have to see the files."""
    rows = spark.read.format("lakebed.topic").option("path", far.path).option("topic", "events")
    return rows.load().count()


def messages(spark: SparkSession, far: Far, topic: str) -> Rows:
    options = far.options(topic=topic, partitionBytes="40KiB")
    rows = spark.read.format("lakebed.topic").options(**options).load()
    return _collected(rows.select("partition", "offset", "key", "value"))


def filtered_messages(spark: SparkSession, far: Far) -> Rows:
    filters = '[["partition", "=", 1], ["offset", ">=", 590]]'
    options = far.options(topic="events", filters=filters, columns="partition,offset")
    rows = spark.read.format("lakebed.topic").options(**options).load()
    return _collected(rows)


def records(spark: SparkSession, far: Far) -> Rows:
    options = far.options(log="audit", partitionBytes="70KiB")
    rows = spark.read.format("lakebed.aof").options(**options).load()
    return _collected(rows.select("record_id", "ext_id", "payload"))


def objects(spark: SparkSession, far: Far) -> Rows:
    options = far.options(bucket=BUCKET, prefix="objects/")
    rows = spark.read.format("lakebed.objects").options(**options).load()
    return _collected(rows.select("key", "size"))


def object_views(spark: SparkSession, far: Far) -> list[Rows]:
    """Versions, manifests and chunks of some objects."""
    found = []
    for view, columns in (
        ("versions", ["key", "version_id", "size", "is_latest", "hlc"]),
        ("manifests", ["key", "version_id", "size", "chunk_count", "problem"]),
        ("chunks", ["key", "version_id", "chunk_index", "length", "problem"]),
    ):
        options = far.options(view=view, bucket=BUCKET, prefix="objects/")
        rows = spark.read.format("lakebed.objects").options(**options).load()
        found.append(_collected(rows.select(*columns)))
    return found


def manifest_records(spark: SparkSession, far: Far) -> Rows:
    options = far.options(log="audit", partitionBytes="1KiB")
    rows = spark.read.format("lakebed.manifest").options(**options).load()
    return _collected(rows.select("record", "chunk_index", "chunk_offset", "type", "segment_id"))


def manifest_states(spark: SparkSession, far: Far) -> Rows:
    """Now, and as of the first record."""
    found: Rows = []
    for more in ({}, {"asOf": 0}):
        options = far.options(log="audit", view="state", **more)
        rows = spark.read.format("lakebed.manifest").options(**options).load()
        found += _collected(rows.select("segment_id", "in_tier0", "in_tier1", "in_tier2"))
    return found


def write_messages(spark: SparkSession, far: Far, topic: str, staging_bucket: str) -> None:
    """Twice, as one transaction."""
    more = {"stagingBucket": staging_bucket} if staging_bucket else {}
    options = far.options(topic=topic, createTopic="true", partitions=2, txnAppId="scene", **more)
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "cast(id as string) key", "if(id % 10 = 0, null, cast(id as string)) value"
    )
    for _ in range(2):
        writing = rows.write.format("lakebed.topic").options(**options).option("txnVersion", 7)
        writing.mode("append").save()


def stream_messages(spark: SparkSession, far: Far, to_topic: str, checkpoint: str) -> None:
    """All there is from one topic to another; what was there before is not copied again."""
    rows = (
        spark.readStream.format("lakebed.topic").options(**far.options(topic="events")).load()
    ).select("partition", "timestamp", "key", "value", "headers")
    target = far.options(topic=to_topic, createTopic="true", partitions=2, stagingBucket="stage")
    query = (
        rows.writeStream.format("lakebed.topic")
        .options(**target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    _ended(query)


def stream_records_to_table(spark: SparkSession, far: Far, table: str, checkpoint: str) -> None:
    rows = spark.readStream.format("lakebed.aof").options(**far.options(log="audit")).load()
    query = (
        rows.select("ext_id", "payload")
        .writeStream.format("lakebed.table")
        .options(**far.table_options(table))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    _ended(query)


def write_table(spark: SparkSession, far: Far, table: str) -> None:
    rows = spark.range(0, 1000, 1, 2).selectExpr("id", "id % 3 as rest")
    rows.write.format("lakebed.table").options(**far.table_options(table)).mode("append").save()


def table_rows(spark: SparkSession, far: Far, table: str) -> Rows:
    rows = spark.read.format("lakebed.table").options(**far.table_options(table)).load()
    return _collected(rows)


def _collected(rows: DataFrame) -> Rows:
    return sorted((tuple(_plain(value) for value in row) for row in rows.collect()), key=repr)


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray) else value


def _ended(query: Any) -> None:
    try:
        query.awaitTermination()
    finally:
        query.stop()


# Jobs.


def run_land(spark: SparkSession, far: Far, checkpoint: str) -> Report:
    from lakebed.spark.jobs.land import LandConfig, land

    s3 = far.keys | {"s3Endpoint": far.s3_endpoint}
    return land(
        spark,
        LandConfig(
            source=far.backend,
            topics=("events",),
            table=f"{BUCKET}/landed/{{name}}",
            s3=s3,
            checkpoint=checkpoint,
            creates_bucket=True,
        ),
    )


def landed_rows(spark: SparkSession, far: Far) -> Rows:
    options = far.table_options(f"{BUCKET}/landed/events")
    rows = spark.read.format("lakebed.table").options(**options).load()
    return sorted(_collected(rows.select("partition", "offset", "value")))


def run_verify(spark: SparkSession, far: Far) -> Report:
    from lakebed.spark.jobs.verify import verify

    return verify(spark, far.backend)


def run_replay(spark: SparkSession, far: Far, topic: str) -> list[Report]:
    """Twice, under one name: the log's records, from all tiers."""
    from lakebed.spark.jobs.publication import Publication
    from lakebed.spark.jobs.replay import replay
    from lakebed.spark.jobs.span import Origin

    to = Publication(backend=far.backend, topic=topic, name="once", creates_topic=True)
    return [replay(spark, far.backend, Origin("audit", is_log=True), to) for _ in range(2)]


def run_transfer(spark: SparkSession, far: Far, topic: str) -> list[Report]:
    """To a bucket, and from there to another topic."""
    from lakebed.spark.jobs.parquet_files import FilesLocation
    from lakebed.spark.jobs.publication import Publication
    from lakebed.spark.jobs.transfer import export_topic, import_topic
    from lakebed.spark.options import Options
    from lakebed.spark.tables.location import PLACE_OPTIONS, table_location

    options = Options("scene", far.table_options(f"{BUCKET}/exported"), known=PLACE_OPTIONS)
    files = FilesLocation(prefix=table_location(options))
    to = Publication(
        backend=far.backend, topic=topic, creates_topic=True, partitions=2, keeps_partitions=True
    )
    there = export_topic(spark, far.backend, "events", files, file_bytes=40_000)
    return [there, import_topic(spark, files, to)]


def run_tier_history(spark: SparkSession, far: Far) -> Report:
    from lakebed.spark.jobs.tier_history import tier_history

    return tier_history(spark, far.backend, ["audit"])
