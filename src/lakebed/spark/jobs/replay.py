"""The job `replay`: publishes a range of a topic or a log again, to another topic or the same one.

    replay(spark, backend, Origin("orders"), Publication(backend=backend, topic="again"),
           span=Span(start={None: 100}))

Keys, values, headers, timestamps and tombstones are kept. Messages of one source partition that go
to the same target partition keep their order. The records of a log, in any tier, become messages
whose values are the payloads. All messages are staged first; then each partition gets all of its
messages in one write, or none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakebed.base.errors import InputError
from lakebed.base.units import shown
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
    """Publishes the messages or records of `origin` that are in `span` to the topic of `to`.

    Raises `NotFound` if the origin does not exist, or if the target topic does not exist and the
    publication does not create it; `InputError` if `origin` is a log and partitions are to be kept.
    If part of the range was removed, the query fails: Spark raises an error whose text contains
    that of a `DataLost`.
    """
    check(origin, to)
    watcher = watcher or NullWatcher()
    resolved = resolve(backend, origin, span or Span())
    if to.keeps_partitions and to.creates_topic and to.partitions is None:
        to = replace(to, partitions=resolved.partition_count)
    columns = "payload,timestamp" if origin.is_log else "partition,timestamp,key,value,headers"
    rows: DataFrame = resolved.read(spark, columns=columns)
    if origin.is_log:
        rows = rows.withColumnRenamed("payload", "value")
    size_bytes = resolved.size_bytes
    with watched(spark, watcher, JOB, total=resolved.row_count, size_bytes=size_bytes):
        published = publish(rows, to, job=JOB)
    noun = "log" if origin.is_log else "topic"
    return Report(
        job=JOB,
        row_count=published.row_count,
        size_bytes=0 if published.was_done_before else size_bytes,
        facts={noun: origin.name, "to": to.topic} | published.facts(),
    )


def check(origin: Origin, to: Publication) -> None:
    """Raises `InputError` if `origin` is a log, which has no partitions, and partitions are to be
    kept.
    """
    if origin.is_log and to.keeps_partitions:
        raise InputError(f"cannot keep partitions, because {shown(origin.name)} is a log")
