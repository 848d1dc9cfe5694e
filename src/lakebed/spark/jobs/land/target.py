"""The interface of a table into which the job `land` writes: a Delta table, or plain Parquet
files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from lakebed.base.clock import Clock, SystemClock
from lakebed.spark.options import Options
from lakebed.spark.tables.commit import Advance, Transaction
from lakebed.spark.tables.files import FileOptions, TableFiles, WrittenFile
from lakebed.spark.tables.location import PLACE_OPTIONS, TableLocation, table_location
from lakebed.spark.tables.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakebed.spark.jobs.land.config import Landing


class Target(Protocol):
    """A table into which rows are landed. Tasks write its files, and one process commits them."""

    def schema(self) -> StructType | None:
        """Returns the schema of the table, or None if the table does not exist."""

    def agree(self, requested: StructType, *, is_given: bool) -> StructType:
        """Creates the table, or adds the columns that it does not have. Returns the resulting
        schema.

        Several processes may do this at the same time: the first one wins. Existing columns keep
        their types. Raises `InputError` if the table has another partitioning or, with `is_given`
        (the schema was not inferred from messages), if a requested column does not fit the existing
        one; a smaller integer or float fits.
        """

    def open_files(self, schema: StructType) -> TableFiles:
        """Returns a writer for the rows of a task. The rows are invisible until the commit."""

    def landed(self, lanes: Collection[str]) -> dict[str, int]:
        """Returns the position up to which each partition or log was landed into the table.

        `lanes` are their names in the table; see `landed_range`. Those that were never landed are
        missing in the result.
        """

    def commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,
        transaction: Transaction,
        advances: Sequence[Advance] = (),
    ) -> None:
        """Adds the files to the table, and records how far each partition or log was landed.

        If the same transaction or the same advances were committed before, no rows are added again,
        and those of `files` that the earlier commit does not name are removed. `files` may be
        empty.
        """

    def remove(self, files: Sequence[WrittenFile]) -> None:
        """Removes files that were written for this table but never committed."""

    def optimize(self) -> int:
        """Merges small files into larger ones. Returns how many small files were replaced.

        Raises `InputError` if tables of this kind cannot be optimized.
        """

    def vacuum(self, *, retention_h: float) -> int:
        """Removes files that are no longer needed and older than `retention_h` hours.

        Returns the number of removed files.
        """


def files_of(
    place: TableLocation,
    landing: Landing,
    schema: StructType,
    *,
    partition_columns: tuple[str, ...],
    clock: Clock,
) -> TableFiles:
    """Returns a writer for the rows of a task, whose file names no other task uses."""
    return TableFiles(
        place,
        arrow_schema(schema),
        FileOptions(uuid4().hex, partition_columns, landing.compression, landing.file_bytes),
        files=place.file_system(),
        clock=clock,
    )


def target_of(
    landing: Landing,
    s3: Mapping[str, str],
    *,
    is_dead: bool = False,
    partition_columns: tuple[str, ...] = (),
) -> Target:
    """Returns the table for rows, or if `is_dead`, the table for dead letters.

    The table for dead letters is not partitioned.
    """
    from lakebed.spark.jobs.land.delta_target import DeltaTarget
    from lakebed.spark.jobs.land.parquet_target import ParquetTarget

    place = place_of_table(landing.dead_letters if is_dead else landing.table, s3)
    kind = DeltaTarget if landing.table_format == "delta" else ParquetTarget
    return kind(place, landing, () if is_dead else partition_columns, clock=SystemClock())


def ensure_buckets(landing: Landing, s3: Mapping[str, str]) -> None:
    """Creates the buckets of the table and of its dead letters if they do not exist."""
    for table in (landing.table, landing.dead_letters):
        place = place_of_table(table, s3)
        place.file_system(creates_buckets=True).create_dir(place.bucket)


def place_of_table(table: str, s3: Mapping[str, str]) -> TableLocation:
    return table_location(Options("land", {**s3, "table": table}, known=PLACE_OPTIONS))
