"""Messages published again: a range of a topic, or of a log in whatever tiers, to a topic.

    replay(spark, backend, Origin("orders"), Publishing(backend=backend, topic="again"),
           span=Span(start={None: 100}))

Keys, values, headers and timestamps stay, tombstones too; of one partition messages stay in their
order as long as they go to one partition. Of a log the payloads become values. What is read is
staged first; then each partition gets all of its messages at once, or none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakebed.spark.backends import Backend
from lakebed.spark.jobs.publication import Publication, publish
from lakebed.spark.jobs.report import Report
from lakebed.spark.jobs.span import Origin, Span, resolve
from lakebed.spark.jobs.watcher import NullWatcher, Watcher
from lakebed.spark.query_watch import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = "replay"


def replay(
    spark: SparkSession,
    backend: Backend,
    origin: Origin,
    to: Publication,
    *,
    span: Span | None = None,
    watcher: Watcher | None = None,
) -> Report:
    """`NotFound` if one of both is missing; `DataLost` if something of the range is gone."""
    watcher = watcher or NullWatcher()
    found = resolve(backend, origin, span or Span())
    if to.keeps_partitions and to.creates_topic and to.partitions is None:
        to = replace(to, partitions=found.partition_count)
    columns = "payload,timestamp" if origin.is_log else "partition,timestamp,key,value,headers"
    rows: DataFrame = found.read(spark, columns=columns)
    if origin.is_log:
        rows = rows.withColumnRenamed("payload", "value")
    size_bytes = found.size_bytes
    with watched(spark, watcher, JOB, total=found.row_count, size_bytes=size_bytes):
        done = publish(rows, to, job=JOB)
    noun = "log" if origin.is_log else "topic"
    return Report(
        job=JOB,
        row_count=done.row_count,
        size_bytes=0 if done.was_done_before else size_bytes,
        facts={noun: origin.name, "to": to.topic} | done.facts(),
    )
