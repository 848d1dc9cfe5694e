"""A table sink whose process is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deltalake import DeltaTable

from lakebed.spark.sources.table import TableSource
from tests.spark.dying import DyingSource, DyingWriter

TABLE_POINTS = ("task", "written", "committing", "committed", "done")
"""In a task when its files are written; before its commit; when the table was looked at; when the
log has it; and when all is done, but Spark does not know."""


class DyingTableWriter(DyingWriter):
    @contextmanager
    def committing(self) -> Iterator[None]:
        self._fate.die("written")
        commit = DeltaTable.create_write_transaction

        def dying(*arguments: Any, **settings: Any) -> None:
            self._fate.die("committing")
            commit(*arguments, **settings)
            self._fate.die("committed")

        DeltaTable.create_write_transaction = dying  # type: ignore[method-assign]
        try:
            yield
        finally:
            DeltaTable.create_write_transaction = commit  # type: ignore[method-assign]


class DyingTable(DyingSource, TableSource):
    dying = DyingTableWriter

    @classmethod
    def name(cls) -> str:
        return "dying.table"
