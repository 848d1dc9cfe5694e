"""What rows are landed in: a Delta table, or plain Parquet files."""

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
    """Used by the tasks of a batch, and by whoever commits it, in processes of their own."""

    def schema(self) -> StructType | None:
        """What the table has; None if there is no table."""

    def agree(self, wanted: StructType, *, is_given: bool) -> StructType:
        """Make the table, or its missing columns, and tell what it has then.

        Others may do the same at the same time: what is there first stays. Where columns have
        other types, that is an `InputError` if the schema was `given`, and else is left so.
        """

    def open_files(self, schema: StructType) -> TableFiles:
        """For the rows of a task; nobody sees them before the commit."""

    def landed(self, lanes: Collection[str]) -> dict[str, int]:
        """Up to which position each of these lanes is in the table; see `landed_range`."""

    def commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,
        transaction: Transaction,
        advances: Sequence[Advance] = (),
    ) -> None:
        """Once for each transaction, and each advance of a lane: the files of a second time are
        removed. There may be no file at all."""

    def remove(self, files: Sequence[WrittenFile]) -> None:
        """Files of no commit."""

    def optimize(self) -> int:
        """Make larger files of small ones; how many were replaced."""

    def vacuum(self, *, retention_h: float) -> int:
        """Remove files that nothing needs, and that are older; how many."""


def files_of(
    place: TableLocation,
    landing: Landing,
    schema: StructType,
    *,
    partition_columns: tuple[str, ...],
    clock: Clock,
) -> TableFiles:
    """For the rows of a task, at that place; by names that nobody else has."""
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
    """Of the rows, or of the dead letters, which are in no partitions."""
    from lakebed.spark.jobs.land.delta_target import DeltaTarget
    from lakebed.spark.jobs.land.parquet_target import ParquetTarget

    place = place_of_table(landing.dead_letters if is_dead else landing.table, s3)
    kind = DeltaTarget if landing.table_format == "delta" else ParquetTarget
    return kind(place, landing, () if is_dead else partition_columns, clock=SystemClock())


def ensure_buckets(landing: Landing, s3: Mapping[str, str]) -> None:
    """Make those that there are not."""
    for table in (landing.table, landing.dead_letters):
        place = place_of_table(table, s3)
        place.file_system(creates_buckets=True).create_dir(place.bucket)


def place_of_table(table: str, s3: Mapping[str, str]) -> TableLocation:
    return table_location(Options("land", {**s3, "table": table}, known=PLACE_OPTIONS))
