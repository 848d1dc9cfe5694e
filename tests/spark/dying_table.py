"""A table sink whose process is killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltalake import DeltaTable
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lakebed.spark.sources.table import TableSource
from tests.spark.sinks import Fate

TABLE_POINTS = ("task", "written", "committing", "committed", "done")
"""In a task when its files are written; before its commit; when the table was looked at; when the
log has it; and when all is done, but Spark does not know."""


class DyingTable(TableSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        taken = dict(options)
        self._fate = Fate.taken_from(taken)
        super().__init__(taken)

    @classmethod
    def name(cls) -> str:
        return "dying.table"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return DyingTableWriter(super().streamWriter(schema, overwrite), self._fate)


class DyingTableWriter(DataSourceStreamArrowWriter):
    def __init__(self, writer: Any, fate: Fate) -> None:
        self._writer = writer
        self._fate = fate

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._writer.write(iterator)
        self._fate.die("task")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._fate.die("written")
        commit = DeltaTable.create_write_transaction

        def dying(*arguments: Any, **settings: Any) -> None:
            self._fate.die("committing")
            commit(*arguments, **settings)
            self._fate.die("committed")

        DeltaTable.create_write_transaction = dying  # type: ignore[method-assign]
        try:
            self._writer.commit(messages, batchId)
        finally:
            DeltaTable.create_write_transaction = commit  # type: ignore[method-assign]
        self._fate.die("done")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.abort(messages, batchId)
