"""A Delta table into which the job `land` writes rows.

Tasks agree on the schema through the table's log. A task that needs new columns adds them with a
separate commit. If another task commits first, the task loads the table again, and adds only the
columns that are still missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from lakebed.base.clock import Clock
from lakebed.base.errors import Busy
from lakebed.spark.jobs.land.shapes import extended
from lakebed.spark.jobs.land.target import files_of
from lakebed.spark.sinks.table import FilesWritten, commit_messages
from lakebed.spark.tables import upkeep
from lakebed.spark.tables.commit import Advance, Plan, Transaction
from lakebed.spark.tables.commit import Target as RowsTarget
from lakebed.spark.tables.files import TableFiles, WrittenFile, remove_files
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.schemas import SchemaMismatch, as_table_schema, evolved
from lakebed.spark.tables.snapshot import find_table, schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakebed.spark.jobs.land.config import Landing

ATTEMPTS_MAX: Final = 20


class DeltaTarget:
    """A Delta table as a target of the job `land`; implements `Target`."""

    def __init__(
        self,
        place: TableLocation,
        landing: Landing,
        partition_columns: tuple[str, ...],
        *,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._place = place
        self._landing = landing
        self._partition_columns = partition_columns

    def schema(self) -> StructType | None:
        table = find_table(self._place)
        return None if table is None else schema_of(table)

    def agree(self, requested: StructType, *, is_given: bool) -> StructType:
        requested = as_table_schema(requested)
        for _ in range(ATTEMPTS_MAX):
            current = self.schema()
            if current is None:
                schema = requested
            elif is_given:
                schema = evolved(current, requested, may_add=True)
            else:
                schema = extended(current, requested)
            try:  # even without new columns: this checks the partitioning
                self._commit((), schema, None, may_add_columns=True)
            except SchemaMismatch:
                continue  # another task added such a column first
            return schema
        raise Busy(
            f"{self._place}: other writers changed the schema during each of {ATTEMPTS_MAX} "
            "attempts; try again"
        )

    def open_files(self, schema: StructType) -> TableFiles:
        return files_of(
            self._place,
            self._landing,
            schema,
            partition_columns=self._partition_columns,
            clock=self._clock,
        )

    def landed(self, lanes: Collection[str]) -> dict[str, int]:
        table = find_table(self._place)
        if table is None:
            return {}
        versions = {lane: table.transaction_version(lane) for lane in lanes}
        return {lane: version for lane, version in versions.items() if version is not None}

    def commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,
        transaction: Transaction,
        advances: Sequence[Advance] = (),
    ) -> None:
        self._commit(files, schema, transaction, advances, may_add_columns=False)

    def remove(self, files: Sequence[WrittenFile]) -> None:
        remove_files(self._place, [file.path for file in files])

    def optimize(self) -> int:
        return upkeep.optimize(self._place).files_removed

    def vacuum(self, *, retention_h: float) -> int:
        return len(upkeep.vacuum(self._place, retention_h=retention_h))

    def _commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,
        transaction: Transaction | None,
        advances: Sequence[Advance] = (),
        *,
        may_add_columns: bool,
    ) -> None:
        message = FilesWritten(list(files), Plan(schema, self._partition_columns))
        target = RowsTarget(schema, self._partition_columns, may_add_columns=may_add_columns)
        commit_messages(self._place, target, [message], transaction=transaction, advances=advances)
