"""Rows of a data source as plain values: through a session, or from its reader alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition


def load(spark: SparkSession, name: str, **options: object) -> DataFrame:
    reading = spark.read.format(name)
    for option, value in options.items():
        reading = reading.option(option, str(value))
    return reading.load()


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """Times as milliseconds since 1970, whatever the session's time zone is."""
    table = frame.toArrow()
    return plain(table)


def reader_of(
    source: type[DataSource], *filters: Filter, **options: object
) -> tuple[DataSourceReader, list[Filter]]:
    """A reader that is narrowed by filters, and those that it looks at row by row."""
    made = source({name: str(value) for name, value in options.items()})
    reader: Any = made.reader(None)  # type: ignore[arg-type]
    if filters:
        reader.narrow(filters)
    return reader, getattr(reader, "left", [])


def read(reader: DataSourceReader) -> list[dict[str, Any]]:
    """All partitions, one after the other."""
    return [row for one in reader.partitions() for row in read_one(reader, one)]


def read_one(reader: DataSourceReader, partition: InputPartition) -> list[dict[str, Any]]:
    batches = batches_of(reader, partition)
    return [row for batch in batches for row in plain(pa.Table.from_batches([batch]))]


def batches_of(reader: DataSourceReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    for batch in reader.read(partition):
        assert isinstance(batch, pa.RecordBatch)
        assert batch.num_rows, "an empty batch"
        batch.validate(full=True)
        yield batch


def plain(table: pa.Table) -> list[dict[str, Any]]:
    return [{name: _value(value) for name, value in row.items()} for row in table.to_pylist()]


def _value(value: object) -> object:
    if isinstance(value, datetime):
        assert value.tzinfo is not None
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return value
