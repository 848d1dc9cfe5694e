"""Streams into a topic: `df.writeStream.format("lakebed.topic")`, exactly once.

    (df.select("key", "value").writeStream.format("lakebed.topic")
       .option("path", root).option("topic", "orders")
       .option("checkpointLocation", folder).start())

A micro-batch is a version of its query: of the id that the checkpoint keeps, or of `txnAppId`. A
query that was killed at any moment and started again with its checkpoint has each of its rows in
the topic once. With a new checkpoint it is another query; whoever gives it the `txnAppId` of the
old one must know that its batches count from 0 again, and are passed over until they come to new
numbers.

If rows that Spark computes anew after a kill are others (`rand()`, `uuid()`), it is those of the
first attempt that count. Where the tasks' messages carry the batches (an endpoint without
`stagingBucket`), nothing remembers that: there they must be the same. For the options see
`lakebed.spark.sinks.topic`; `txnVersion` is not one of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakebed.base.errors import InputError
from lakebed.spark.sinks import staged_commit
from lakebed.spark.sinks.columns import checked_columns
from lakebed.spark.sinks.query import BATCH_PROPERTY, QUERY_PROPERTY
from lakebed.spark.sinks.settings import SinkSettings, settings_of
from lakebed.spark.sinks.topic import refuse_overwrite
from lakebed.spark.staging import Run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def topic_stream_writer(
    options: Mapping[str, Any], schema: StructType, *, overwrite: bool
) -> TopicStreamWriter:
    """What a data source gives Spark; everything is checked here, before a task starts."""
    refuse_overwrite(is_wanted=overwrite)
    columns = checked_columns(schema)
    return TopicStreamWriter(settings_of(options, is_streaming=True), columns)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Of a query, or of one commit of it: Spark makes a new one for each."""

    def __init__(self, settings: SinkSettings, columns: dict[str, int]) -> None:
        self._settings = settings
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return staged_commit.stage(self._settings, self._columns, iterator, self._run())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._check(messages, batchId)
        staged_commit.commit(self._settings, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        staged_commit.abort(self._settings, messages)

    def _run(self) -> Run:
        """Of the task that is running."""
        context = TaskContext.get()
        found = {
            name: None if context is None else context.getLocalProperty(name)
            for name in (QUERY_PROPERTY, BATCH_PROPERTY)
        }
        application = self._settings.application or found[QUERY_PROPERTY]
        batch = found[BATCH_PROPERTY]
        if not application or not batch:
            raise InputError(
                f"lakebed.topic: the task does not say of which query it is ({QUERY_PROPERTY}, "
                f"{BATCH_PROPERTY}): a micro-batch cannot be told from another"
            )
        return Run(self._settings.target.topic, application, int(batch))

    def _check(self, messages: list[WriterCommitMessage | None], batch: int) -> None:
        for message in messages:
            if isinstance(message, staged_commit.StagedRows) and message.run.version != batch:
                raise InputError(
                    f"lakebed.topic: a task staged rows of batch {message.run.version}, "
                    f"and batch {batch} is committed"
                )
