"""Batch writes to a topic: `df.write.format("lakebed.topic").mode("append")`.

    (df.select("key", "value").write.format("lakebed.topic").mode("append")
       .option("path", root).option("topic", "orders")
       .option("txnAppId", "nightly").option("txnVersion", "20260131").save())

Messages are appended after all tasks are done, to one partition after another. Each partition gets
all of its messages or none, and its readers see all of them at the same time. A commit that is
killed may leave some partitions without their messages.

With `txnAppId` and `txnVersion` a write happens once, and repeating it completes it. The versions
of an application must increase: a write whose version is not larger than the last one is ignored.
Without these options, a repeated write appends its messages again (at least once).

Options: `path` or `endpoint` (with `accessKey`, `secretKey`, `caFile`), `topic`; `createTopic`,
with `partitions`; `compression` (none, gzip, snappy, lz4, zstd) and `batchBytes` of the record
batches; `stagingPath` (with `path`; by default below the root), `stagingBucket` (with `endpoint`;
without it the whole write must fit into one request). The columns are described in
`lakebed.spark.sinks.columns`. A message with a key, and no partition of its own, goes to the same
partition as with any other producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakebed.base.errors import InputError
from lakebed.spark.sinks import staged_commit
from lakebed.spark.sinks.columns import checked_columns
from lakebed.spark.sinks.settings import SinkSettings, settings_of
from lakebed.spark.staging import Run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def topic_writer(options: Mapping[str, Any], schema: StructType, *, overwrite: bool) -> TopicWriter:
    """Creates the writer for a batch write to a topic.

    Checks all options and columns, before a task starts.
    """
    refuse_overwrite(is_requested=overwrite)
    columns = checked_columns(schema)
    return TopicWriter(settings_of(options, is_streaming=False), columns)


def refuse_overwrite(*, is_requested: bool) -> None:
    if is_requested:
        raise InputError('lakebed.topic: a topic cannot be overwritten: use mode("append")')


class TopicWriter(DataSourceArrowWriter):
    """Writes one batch to a topic. Copies are sent to the tasks and to the process that commits."""

    def __init__(self, settings: SinkSettings, columns: dict[str, int]) -> None:
        self._settings = settings
        self._columns = columns
        application = settings.application or f"spark write {token_hex(16)}"
        self._run = Run(settings.target.topic, application, settings.version or 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return staged_commit.stage(self._settings, self._columns, iterator, self._run)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staged_commit.commit(self._settings, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        staged_commit.abort(self._settings, messages)
