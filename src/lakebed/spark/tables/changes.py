"""Finds the files that each version of a Delta table added, for streams that read the table.

Raises an error for versions that a stream cannot return as new rows.
"""

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
    """What a stream does about versions of the table that removed rows. By default it fails."""

    ignores_deletes: bool = False  # skip versions that only removed rows
    ignores_changes: bool = (
        False  # return the files that such versions added, even if the rows are not new
    )
    skips_changes: bool = False  # skip all versions that removed rows


class ChangedRows(LakebedError):
    """A stream reached a version of the table that removed or changed rows. A stream can only
    return new rows.
    """

    exit_code = 65


class Changes:
    """Finds the files that a stream must read in each version of a table.

    `schema` is the schema of the returned rows. `has_all_columns` is False if the query reads only
    some columns.
    """

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
        """Returns all files that the table has at this version."""
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
                f"version {version} of {self._place} deletes rows with deletionVectors, which "
                "are not supported"
            )
        return [
            DataFile(file.path, file.size_bytes, self._typed(file.partition))
            for file in change.added
        ]

    def _typed(self, partition: dict[str, str | None]) -> dict[str, object]:
        """Converts the partition values of a file to the types of their columns.

        Columns that are not read are left out.
        """
        return {
            name: from_text(text, self._arrow.field(name).type)
            for name, text in partition.items()
            if name in self._arrow.names
        }

    def _is_skipped(self, change: Change) -> bool:
        """Returns whether the stream skips a version that removed rows.

        Raises `ChangedRows` if no option states what to do.
        """
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
            f"version {change.version} of {self._place} {what}, but a stream can only return new "
            f"rows: set {options}, or start after that version with a new checkpoint"
        )

    def _check_schema(self, change: Change) -> None:
        """Raises `InputError` if the version changed the schema so that its rows cannot be returned
        with the schema of the query.
        """
        if change.schema is None:
            return
        schema: StructType = StructType.fromJson(change.schema)
        if not self._has_all_columns:
            schema = StructType(
                [field for field in schema.fields if field.name in self._schema.names]
            )
        if schema.fields and not is_readable_as(schema, self._schema):
            raise InputError(
                f"version {change.version} of {self._place} has a different schema from the query: "
                "restart the query to continue with the new schema"
            )
