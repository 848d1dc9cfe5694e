"""Writes a stream to a Delta table: each batch of the query once, even if a process is killed.

The tasks report the id of their query; the commit is recorded under that id, or under the option
`txnAppId` if it is set, and the batch number. When Spark repeats a batch after a crash, the commit
finds the batch in the table and removes the new files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakebed.base.errors import InputError
from lakebed.spark.sinks.query import QUERY_PROPERTY
from lakebed.spark.sinks.table import (
    FilesWritten,
    WriteOptions,
    commit_messages,
    is_failed_task,
    plan_write,
    remove_written,
    write_files,
)
from lakebed.spark.tables.commit import Transaction
from lakebed.spark.tables.location import TableLocation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream to a table.

    Spark creates one writer for the tasks of a batch, and another one for its commit.
    """

    def __init__(
        self, place: TableLocation, schema: StructType, options: WriteOptions, *, overwrites: bool
    ) -> None:
        self._place = place
        self._options = options
        self._target = options.target(schema, overwrites=overwrites)
        self._plan = plan_write(place, self._target, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        job = uuid4().hex
        files = write_files(self._place, self._plan, self._options, iterator, job=job)
        return FilesWritten(files, self._plan, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        application = self._options.application or _query_of(messages)
        if application is None:
            if any(isinstance(message, FilesWritten) and message.files for message in messages):
                raise InputError(
                    "cannot commit the batch, because Spark did not give the tasks the id of their "
                    "query: set the option txnAppId"
                )
            return
        transaction = Transaction(application, batchId)
        commit_messages(self._place, self._target, messages, transaction=transaction)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        if is_failed_task(messages):
            remove_written(self._place, messages, job=None)


def _query_of(messages: list[WriterCommitMessage | None]) -> str | None:
    for message in messages:
        if isinstance(message, FilesWritten) and message.query:
            return message.query
    return None
