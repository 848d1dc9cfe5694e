"""A Delta table that rows are landed in. Its log is what tasks agree by: new columns are commits of
their own, which the task that needs them makes; whoever is slower takes what is there then."""

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
    """A `Target`."""

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

    def agree(self, wanted: StructType, *, is_given: bool) -> StructType:
        wanted = as_table_schema(wanted)
        for _ in range(ATTEMPTS_MAX):
            there = self.schema()
            if there is None:
                schema = wanted
            elif is_given:
                schema = evolved(there, wanted, may_add=True)
            else:
                schema = extended(there, wanted)
            try:  # also if it has all: how it is partitioned is looked at
                self._commit((), schema, None, may_add_columns=True)
            except SchemaMismatch:
                continue  # somebody else added such a column meanwhile
            return schema
        raise Busy(f"{self._place}: others changed the schema {ATTEMPTS_MAX} times meanwhile")

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
        found = {lane: table.transaction_version(lane) for lane in lanes}
        return {lane: at for lane, at in found.items() if at is not None}

    def commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,
        transaction: Transaction,
        advances: Sequence[Advance] = (),
    ) -> None:
        self._commit(files, schema, transaction, advances, may_add_columns=False)

    def remove(self, files: Sequence[WrittenFile]) -> None:
        remove_files(self._place, [one.path for one in files])

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
