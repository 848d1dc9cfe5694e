"""Reads a Delta table as a stream: first all rows of one version, then the files that each later
version added.

With the option `startingVersion`, it reads only the files that versions from that one on added. An
offset is a version, and how many of its files were read. In the version that the stream starts
with, `isInitial` means that all files of the table are read, not only those that the version added:

    {"tableId": "…", "version": 7, "index": 2, "isInitial": false}

A version that only rewrote rows (a compaction) adds nothing. A version that removed rows ends the
query with an error, unless an option states how to handle such versions. A version whose rows
cannot be returned with the query's schema always ends the query; the error states what to do. A
table that was deleted and created again is recognised by its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakebed.base.errors import InputError, LakebedError
from lakebed.spark.options import Options
from lakebed.spark.sources.table_reader import TableSplit
from lakebed.spark.tables.changes import ChangePolicy, Changes
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.parquet_reader import read_parts
from lakebed.spark.tables.parts import SPLIT_BYTES, splits_of
from lakebed.spark.tables.schemas import arrow_schema
from lakebed.spark.tables.snapshot import DataFile, check_readable, load_table

if TYPE_CHECKING:
    import pyarrow as pa

LATEST = "latest"


@dataclass(frozen=True)
class StreamOptions:
    """The parsed options of a stream that reads a table."""

    starting_version: int | None = None  # None: start with all current rows
    starts_at_latest: bool = False
    files_max: int | None = None
    bytes_max: int | None = None
    split_bytes: int = SPLIT_BYTES
    has_all_columns: bool = True
    policy: ChangePolicy = field(default_factory=ChangePolicy)

    @classmethod
    def of(cls, options: Options) -> StreamOptions:
        options.at_most_one_of("maxFilesPerTrigger", "maxBytesPerTrigger")
        is_latest = (options.text("startingVersion") or "").lower() == LATEST
        return cls(
            starting_version=None if is_latest else options.number("startingVersion"),
            starts_at_latest=is_latest,
            files_max=options.number("maxFilesPerTrigger", minimum=1),
            bytes_max=options.size("maxBytesPerTrigger"),
            split_bytes=options.size("partitionBytes") or SPLIT_BYTES,
            has_all_columns=not options.has("columns"),
            policy=ChangePolicy(
                ignores_deletes=options.flag("ignoreDeletes", default=False),
                ignores_changes=options.flag("ignoreChanges", default=False),
                skips_changes=options.flag("skipChangeCommits", default=False),
            ),
        )


@dataclass(frozen=True)
class Position:
    """The position of a stream in a table: directly before file number `index` of a version."""

    table_id: str
    version: int
    index: int
    is_initial: bool

    def offset(self) -> dict[str, Any]:
        return {
            "tableId": self.table_id,
            "version": self.version,
            "index": self.index,
            "isInitial": self.is_initial,
        }

    @classmethod
    def of(cls, offset: dict[str, Any]) -> Position:
        try:
            return cls(
                str(offset["tableId"]),
                int(offset["version"]),
                int(offset["index"]),
                bool(offset["isInitial"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LakebedError(
                f"the checkpoint has an offset that is not one of lakebed.table: {offset}"
            ) from error


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table as a stream.

    It runs in one process on the driver's machine, except for `read`, which runs in tasks.
    """

    def __init__(self, place: TableLocation, schema: StructType, options: StreamOptions) -> None:
        self._place = place
        self._schema = schema
        self._options = options
        self._target: Position | None = None  # if set, this run does not read further

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        table = load_table(self._place)
        check_readable(table)
        table_id = str(table.metadata().id)
        if self._options.starts_at_latest:
            return Position(table_id, table.version() + 1, 0, False).offset()
        version = self._options.starting_version
        if version is None:
            return Position(table_id, table.version(), 0, True).offset()
        if version > table.version() + 1:
            raise InputError(
                f"startingVersion is {version}, but the newest version of {self._place} is "
                f"{table.version()}"
            )
        return Position(table_id, version, 0, False).offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.files_max is not None:
            return ReadMaxFiles(self._options.files_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = Position.of(start)
        newest = self._newest(begin)
        files_max = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        total = 0
        at = begin
        for files, (position, file) in enumerate(self._files(begin, newest), start=1):
            total += file.size_bytes
            is_over = (files_max is not None and files > files_max) or (
                bytes_max is not None and total > bytes_max and files > 1
            )
            if is_over:
                return position.offset()
            at = replace(position, index=position.index + 1)
        return (newest if newest.version > at.version else at).offset()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        table = load_table(self._place)
        return Position(str(table.metadata().id), table.version() + 1, 0, False).offset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        table = load_table(self._place)
        self._target = Position(str(table.metadata().id), table.version() + 1, 0, False)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        files = [file for _, file in self._files(Position.of(start), Position.of(end))]
        splits = splits_of(files, split_bytes=self._options.split_bytes)
        return [TableSplit(parts) for parts in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TableSplit), "not a partition of this source"
        yield from read_parts(self._place, partition.parts, arrow_schema(self._schema))

    def _newest(self, begin: Position) -> Position:
        """Returns the position after the newest version of the table.

        If this run stops at an earlier version, returns the position after that version.
        """
        table = load_table(self._place)
        check_readable(table)
        self._check_same(begin, str(table.metadata().id))
        newest = Position(begin.table_id, table.version() + 1, 0, False)
        if self._target is not None and self._target.version < newest.version:
            newest = self._target
        return newest

    def _files(self, start: Position, end: Position) -> Iterator[tuple[Position, DataFile]]:
        """Yields the files between the positions `start` (inclusive) and `end` (exclusive).

        Each file comes with its position.
        """
        changes = Changes(
            self._place,
            self._schema,
            self._options.policy,
            has_all_columns=self._options.has_all_columns,
        )
        for version in range(start.version, end.version + 1):
            is_last = version == end.version
            if is_last and end.index == 0 and not end.is_initial:
                return
            is_initial = start.is_initial and version == start.version
            files = changes.all_files(version) if is_initial else changes.added_files(version)
            first = start.index if version == start.version else 0
            last = end.index if is_last else len(files)
            for index in range(first, last):
                yield Position(start.table_id, version, index, is_initial), files[index]

    def _check_same(self, begin: Position, table_id: str) -> None:
        if begin.table_id != table_id:
            raise InputError(
                f"{self._place} was deleted and created again after this query read it (its id is "
                f"{table_id}, and was {begin.table_id}): start with a new checkpoint"
            )
