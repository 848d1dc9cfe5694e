"""The data source `lakebed.table`: reads and writes a Delta table in a bucket, in batches and as a
stream.

    spark.read.format("lakebed.table").option("path", root).option("table", "lake/events").load()

The table is given by `path` (the root of a store whose S3 API is served for this run) or
`s3Endpoint` with `accessKey`, `secretKey`, `region` and `caFile`; and `table` = `bucket/prefix`.
Options for reading:

    columns             names separated by commas; all by default
    versionAsOf         a version of the table
    timestampAsOf       the version at that moment: milliseconds, or `2026-01-31T12:00:00Z`
    partitionBytes      how much a task reads; 64 MiB by default
    filters             conditions that all rows meet, as JSON; files that cannot match are
                        skipped: see `lakebed.spark.conditions`

Streams take only `columns` and `partitionBytes` of these. They also take `startingVersion` (a
number, or `latest`; by default all current rows, and then new rows), `maxFilesPerTrigger` or
`maxBytesPerTrigger`, and what to do about versions that removed rows, at which a stream fails by
default: `ignoreDeletes`, `ignoreChanges` (rewritten rows are returned again), `skipChangeCommits`
(nothing of such versions is returned). Options for writing:

    partitionBy         columns separated by commas, for a new table
    mergeSchema         add columns that the table lacks
    overwriteSchema     with mode `overwrite`: replace the table's schema by that of the rows
    txnAppId txnVersion for a batch: a commit that is repeated with the same values is stored once
    compression         zstd, snappy, gzip, lz4 or none
    fileBytes           the size at which a new file is started; 128 MiB by default
    createBucket        create the bucket if it does not exist

The modes are `append` and `overwrite`; the latter replaces all rows in one commit. Each batch of a
stream is stored once, identified by the query's id (or `txnAppId`) and the batch number. A batch
write without `txnAppId` and `txnVersion` stores its rows again if it is run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from lakebed.spark.conditions import OPTION, REFUSED, conditions_of
from lakebed.spark.options import Options
from lakebed.spark.sinks.table import TableWriter, WriteOptions
from lakebed.spark.sinks.table_stream import TableStreamWriter
from lakebed.spark.sources.table_reader import TableReader
from lakebed.spark.sources.table_stream import StreamOptions, TableStreamReader
from lakebed.spark.tables.location import PLACE_OPTIONS, table_location
from lakebed.spark.tables.parts import SPLIT_BYTES
from lakebed.spark.tables.schemas import arrow_schema, only
from lakebed.spark.tables.snapshot import check_readable, load_table, schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "lakebed.table"
_READ: Final = ("columns", "partitionBytes", OPTION, REFUSED, "versionAsOf", "timestampAsOf")
_STREAM: Final = (
    "startingVersion",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreDeletes",
    "ignoreChanges",
    "skipChangeCommits",
)
_WRITE: Final = (
    "partitionBy",
    "mergeSchema",
    "overwriteSchema",
    "txnAppId",
    "txnVersion",
    "compression",
    "fileBytes",
    "createBucket",
)


class TableSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Returns the schema of the rows: the requested columns at the requested version."""
        options = self._options(_READ + _STREAM)
        table = load_table(
            table_location(options),
            version=options.number("versionAsOf"),
            moment_us=options.moment_us("timestampAsOf"),
        )
        check_readable(table)
        return only(schema_of(table), options.names("columns"))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options(_READ)
        options.at_most_one_of("versionAsOf", "timestampAsOf")
        return TableReader(
            table_location(options),
            schema,
            version=options.number("versionAsOf"),
            moment_us=options.moment_us("timestampAsOf"),
            split_bytes=options.size("partitionBytes") or SPLIT_BYTES,
            filters=conditions_of(options, lambda: arrow_schema(schema)),
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._options(("columns", "partitionBytes", *_STREAM))
        return TableStreamReader(table_location(options), schema, StreamOptions.of(options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = self._options(_WRITE)
        return TableWriter(
            table_location(options),
            schema,
            WriteOptions.of(options, is_stream=False),
            overwrites=overwrite,
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = self._options([name for name in _WRITE if name != "txnVersion"])
        return TableStreamWriter(
            table_location(options),
            schema,
            WriteOptions.of(options, is_stream=True),
            overwrites=overwrite,
        )

    def _options(self, known: tuple[str, ...] | list[str]) -> Options:
        return Options(NAME, self.options, known=[*PLACE_OPTIONS, *known])
