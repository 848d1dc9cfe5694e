"""Streams into a topic, exactly once: `df.writeStream.format("lakebed.topic")`.

    (df.select("key", "value").writeStream.format("lakebed.topic")
       .option("path", root).option("topic", "orders")
       .option("checkpointLocation", folder).start())

A micro-batch is committed as a version of an application. The application is `txnAppId`, or else
the query's id, which the checkpoint keeps. A query may be killed at any moment: after a restart
with its checkpoint, the topic has each row once. With a new checkpoint it is another query. If that
query gets the `txnAppId` of the old one, its batches start at 0 again, and they are ignored until
their numbers exceed those of the old query.

If Spark computes different rows when it repeats a batch (`rand()`, `uuid()`), the rows of the first
attempt count. This is not so for an endpoint without `stagingBucket`: then no attempt is recorded,
so a repeated batch must have the same rows. For the options see `lakebed.spark.sinks.topic`; a
stream cannot set `txnVersion`.
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
    """Creates the writer for a stream into a topic.

    Checks all options and columns, before a task starts.
    """
    refuse_overwrite(is_requested=overwrite)
    columns = checked_columns(schema)
    return TopicStreamWriter(settings_of(options, is_streaming=True), columns)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream to a topic. Spark creates a new writer for each
    commit.
    """

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
        """Returns the identity of the commit for which the current task stages rows."""
        context = TaskContext.get()
        properties = {
            name: None if context is None else context.getLocalProperty(name)
            for name in (QUERY_PROPERTY, BATCH_PROPERTY)
        }
        application = self._settings.application or properties[QUERY_PROPERTY]
        batch = properties[BATCH_PROPERTY]
        if not application or not batch:
            raise InputError(
                f"lakebed.topic: the task has no query id or batch number ({QUERY_PROPERTY}, "
                f"{BATCH_PROPERTY}), so its micro-batch cannot be identified"
            )
        return Run(self._settings.target.topic, application, int(batch))

    def _check(self, messages: list[WriterCommitMessage | None], batch: int) -> None:
        for message in messages:
            if isinstance(message, staged_commit.StagedRows) and message.run.version != batch:
                raise InputError(
                    f"lakebed.topic: cannot commit batch {batch}, because a task staged rows of "
                    f"batch {message.run.version}"
                )
