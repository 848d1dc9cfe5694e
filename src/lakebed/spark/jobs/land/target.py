"""The table into which rows are landed: a Delta table, or plain Parquet files."""

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
    """A table, used by the tasks of a batch and by the process that commits it."""

    def schema(self) -> StructType | None:
        """Returns the schema of the table, or None if there is no table."""

    def agree(self, requested: StructType, *, is_given: bool) -> StructType:
        """Creates the table, or its missing columns, and returns the resulting schema.

        Several processes may do this at the same time: the first one wins. If a column already has
        another type, that is an `InputError` if `is_given`; otherwise the column keeps its type.
        """

    def open_files(self, schema: StructType) -> TableFiles:
        """Returns a writer for the rows of a task. The rows are invisible until the commit."""

    def landed(self, lanes: Collection[str]) -> dict[str, int]:
        """Returns the position up to which each lane is in the table; see `landed_range`."""

    def commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,
        transaction: Transaction,
        advances: Sequence[Advance] = (),
    ) -> None:
        """Commits once for each transaction and each advance of a lane; the files of a
        repetition are removed. `files` may be empty.
        """

    def remove(self, files: Sequence[WrittenFile]) -> None:
        """Removes files that are part of no commit."""

    def optimize(self) -> int:
        """Merges small files into larger ones. Returns how many were replaced."""

    def vacuum(self, *, retention_h: float) -> int:
        """Removes files that are not needed and older than this. Returns how many."""


def files_of(
    place: TableLocation,
    landing: Landing,
    schema: StructType,
    *,
    partition_columns: tuple[str, ...],
    clock: Clock,
) -> TableFiles:
    """Returns a writer for the rows of a task, with file names that no other task uses."""
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
    """Returns the table of the rows, or that of the dead letters, which is not partitioned."""
    from lakebed.spark.jobs.land.delta_target import DeltaTarget
    from lakebed.spark.jobs.land.parquet_target import ParquetTarget

    place = place_of_table(landing.dead_letters if is_dead else landing.table, s3)
    kind = DeltaTarget if landing.table_format == "delta" else ParquetTarget
    return kind(place, landing, () if is_dead else partition_columns, clock=SystemClock())


def ensure_buckets(landing: Landing, s3: Mapping[str, str]) -> None:
    """Creates the buckets that do not exist."""
    for table in (landing.table, landing.dead_letters):
        place = place_of_table(table, s3)
        place.file_system(creates_buckets=True).create_dir(place.bucket)


def place_of_table(table: str, s3: Mapping[str, str]) -> TableLocation:
    return table_location(Options("land", {**s3, "table": table}, known=PLACE_OPTIONS))
