"""Batch writes to a topic: `df.write.format("lakebed.topic").mode("append")`.

    (df.select("key", "value").write.format("lakebed.topic").mode("append")
       .option("path", root).option("topic", "orders")
       .option("txnAppId", "nightly").option("txnVersion", "20260131").save())

Messages are appended when all tasks are done, to one partition after the other: of each, all of its
messages or none, and readers see them at once. A commit that is killed in between leaves some
partitions with theirs and some without. With `txnAppId` and `txnVersion` a write is done once,
however often it is repeated, and whoever repeats it completes it: the versions of an application
grow, and one that is not larger than the last is passed over. Without them a rerun is another
write: its messages are there once more (at least once).

Options: `path` or `endpoint` (with `accessKey`, `secretKey`, `caFile`), `topic`; `createTopic`,
with `partitions`; `compression` (none, gzip, snappy, lz4, zstd) and `batchBytes` of the record
batches; `stagingPath` (with `path`; by default below the root), `stagingBucket` (with `endpoint`;
without it what is written must be small enough for one request). The columns are those of
`lakebed.spark.sinks.columns`. Messages with a key go to the partition that they go to everywhere.
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
    """What a data source gives Spark; everything is checked here, before a task starts."""
    refuse_overwrite(is_wanted=overwrite)
    columns = checked_columns(schema)
    return TopicWriter(settings_of(options, is_streaming=False), columns)


def refuse_overwrite(*, is_wanted: bool) -> None:
    if is_wanted:
        raise InputError('lakebed.topic: a topic is appended to, not overwritten: mode("append")')


class TopicWriter(DataSourceArrowWriter):
    """One write. Pickled: to the tasks, and to where it is committed."""

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
