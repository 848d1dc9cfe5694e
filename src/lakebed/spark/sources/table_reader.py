"""Reads a Delta table at one version, in splits of whole row groups.

The version is chosen when the read is planned, so that all tasks read the same version; its files
exist until a vacuum. Files that cannot meet the conditions of the option `filters` are skipped, by
their partition values and statistics. The conditions are then applied to the rows of the other
files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from lakebed.base.events import event
from lakebed.spark.conditions import kept
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.parquet_reader import read_parts
from lakebed.spark.tables.parts import FilePart, splits_of
from lakebed.spark.tables.schemas import arrow_schema
from lakebed.spark.tables.snapshot import check_readable, files_of, load_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)


class TableSplit(InputPartition):
    """The parts of files that one task reads."""

    def __init__(self, parts: list[FilePart]) -> None:
        super().__init__(None)
        self.parts = parts


class TableReader(DataSourceReader):
    """Reads a table at one version for a batch query.

    `schema` is the schema of the returned rows, which may have only some columns of the table.
    """

    def __init__(
        self,
        place: TableLocation,
        schema: StructType,
        *,
        version: int | None,
        moment_us: int | None,
        split_bytes: int,
        filters: Sequence[Filter] = (),
    ) -> None:
        self._place = place
        self._schema = schema
        self._version = version
        self._moment_us = moment_us
        self._split_bytes = split_bytes
        self._filters = list(filters)

    def partitions(self) -> list[InputPartition]:
        table = load_table(self._place, version=self._version, moment_us=self._moment_us)
        check_readable(table)
        files = list(files_of(table, self._filters))
        splits = splits_of(files, split_bytes=self._split_bytes)
        event(
            _log,
            "table_read_planned",
            table=self._place,
            version=table.version(),
            files=len(files),
            bytes=sum(file.size_bytes for file in files),
            splits=len(splits),
        )
        return [TableSplit(parts) for parts in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, TableSplit):  # if the plan is empty, Spark passes another object
            schema = arrow_schema(self._schema)
            for batch in read_parts(self._place, partition.parts, schema):
                rows = kept(batch, self._filters)
                if rows.num_rows:
                    yield rows
