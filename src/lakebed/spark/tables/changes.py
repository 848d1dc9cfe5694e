"""The files that versions of a table brought, for who follows it, and which versions to fail at."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from lakebed.base.errors import InputError, LakebedError
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.log import Change, read_change
from lakebed.spark.tables.partition_values import from_text
from lakebed.spark.tables.schemas import arrow_schema, is_readable_as
from lakebed.spark.tables.snapshot import (
    DataFile,
    UnsupportedTable,
    check_readable,
    files_of,
    load_table,
)


@dataclass(frozen=True)
class ChangePolicy:
    """What is done about versions that removed rows; by default nobody goes on behind them."""

    ignores_deletes: bool = False  # those that only removed: nothing comes of them
    ignores_changes: bool = False  # what they added comes, also if it was there before
    skips_changes: bool = False  # nothing comes of them


class ChangedRows(LakebedError):
    """A version that a stream cannot give as new rows."""

    exit_code = 65


class Changes:
    """`schema` is what the reader gives rows in."""

    def __init__(
        self,
        place: TableLocation,
        schema: StructType,
        policy: ChangePolicy,
        *,
        has_all_columns: bool,
    ) -> None:
        self._place = place
        self._schema = schema
        self._arrow = arrow_schema(schema)
        self._policy = policy
        self._has_all_columns = has_all_columns
        self._source = place.file_system()

    def all_files(self, version: int) -> list[DataFile]:
        """Of the table as it was then."""
        table = load_table(self._place, version=version)
        check_readable(table)
        return list(files_of(table))

    def added_files(self, version: int) -> list[DataFile]:
        change = read_change(self._source, self._place, version)
        self._check_schema(change)
        if change.removed and self._is_skipped(change):
            return []
        if change.has_deletion_vectors:
            raise UnsupportedTable(
                f"version {version} of {self._place} deletes rows by deletionVectors"
            )
        return [
            DataFile(one.path, one.size_bytes, self._typed(one.partition)) for one in change.added
        ]

    def _typed(self, partition: dict[str, str | None]) -> dict[str, object]:
        """Of the columns that are read."""
        return {
            name: from_text(text, self._arrow.field(name).type)
            for name, text in partition.items()
            if name in self._arrow.names
        }

    def _is_skipped(self, change: Change) -> bool:
        """`ChangedRows` if nobody said what to do."""
        if self._policy.skips_changes:
            return True
        if self._policy.ignores_changes:
            return False
        if self._policy.ignores_deletes and not change.added:
            return True
        what = "changed rows" if change.added else "removed rows"
        options = "skipChangeCommits or ignoreChanges"
        if not change.added:
            options = f"ignoreDeletes, {options}"
        raise ChangedRows(
            f"version {change.version} of {self._place} {what}, which a stream cannot tell: give "
            f"{options}, or begin behind it with another checkpoint"
        )

    def _check_schema(self, change: Change) -> None:
        """Of columns that were not asked for nobody needs to know."""
        if change.schema is None:
            return
        schema: StructType = StructType.fromJson(change.schema)
        if not self._has_all_columns:
            schema = StructType([one for one in schema.fields if one.name in self._schema.names])
        if schema.fields and not is_readable_as(schema, self._schema):
            raise InputError(
                f"version {change.version} of {self._place} has another schema: start the query "
                "again to go on with it"
            )
