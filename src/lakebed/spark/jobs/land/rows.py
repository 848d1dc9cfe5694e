"""Creates the columns of a table that describe the message, as opposed to the fields of its JSON
value.

    raw     topic partition offset timestamp key value headers [day [hour]]
    json    _topic _partition _offset _timestamp _key [_day [_hour]] and the fields of the values

These are the default columns for topics. For a log they are `log record_id segment timestamp
timestamp_ns ext_id payload`; with JSON, they have the prefix too, and `payload` is left out. Days
and hours are in UTC; they are null for years outside 1 to 9999.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lakebed.spark.arrow.columns import TIMESTAMP

if TYPE_CHECKING:
    from lakebed.spark.jobs.land.config import Landing

DEAD_LETTER: Final = pa.schema(
    [
        ("topic", pa.string()),  # or the log's name
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # or the id of the record
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("error", pa.string()),
    ]
)

_US_OF_YEAR_1: Final = -62_135_596_800_000_000
_US_OF_YEAR_10000: Final = 253_402_300_800_000_000
_MESSAGE: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
LOG_NAMES: Final[Mapping[str, str]] = {  # columns of a dead letter, and the matching ones of a log
    "topic": "log",
    "offset": "record_id",
    "timestamp": "timestamp",
    "value": "payload",
}


class MessageRows:
    """Converts messages to the columns of a table that describe the message."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        fields = landing.kind.fields
        self._names = [f"{landing.prefix}{name}" for name in landing.message_columns]
        times = {"none": (), "day": ("day",), "hour": ("day", "hour")}[landing.time_partition]
        self.partition_columns = tuple(f"{landing.prefix}{name}" for name in times)
        types = {"day": pa.date32(), "hour": pa.int32()}
        self.arrow = pa.schema(
            [
                *(
                    pa.field(name, fields.schema().field(column).type)
                    for name, column in zip(self._names, landing.message_columns, strict=True)
                ),
                *(
                    pa.field(name, types[time])
                    for name, time in zip(self.partition_columns, times, strict=True)
                ),
            ]
        )
        self.schema = spark_schema(self.arrow)
        needed = {*landing.message_columns, *(LOG_NAMES.values() if landing.is_log else _MESSAGE)}
        if landing.values == "raw":  # there are no dead letters
            needed = {*landing.message_columns, *(["timestamp"] if times else [])}
        self.read_columns = tuple(name for name in fields.names if name in needed)

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Returns the columns that describe the messages of the batch, in the order of `schema`."""
        columns = [batch.column(name) for name in self._landing.message_columns]
        if self.partition_columns:
            columns += times_of(batch.column("timestamp"))[: len(self.partition_columns)]
        return columns

    def dead_letters(self, batch: pa.RecordBatch, errors: Mapping[int, str]) -> pa.RecordBatch:
        """Returns dead letters for some rows of the batch. `errors` has the reasons, by row
        index.
        """
        indices = sorted(errors)
        rows = batch.take(pa.array(indices, pa.int64()))
        names = LOG_NAMES if self._landing.is_log else {name: name for name in _MESSAGE}
        columns = []
        for field in DEAD_LETTER:
            if field.name == "error":
                columns.append(pa.array([errors[index] for index in indices], pa.string()))
            elif field.name in names:
                columns.append(rows.column(names[field.name]))
            elif field.name == "partition":
                columns.append(pa.array(np.zeros(len(rows), np.int32)))
            else:
                columns.append(pa.nulls(len(rows), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER)


def times_of(stamps: pa.Array) -> list[pa.Array]:
    """Returns a column with the day and a column with the hour of each timestamp, in UTC.

    Both are null for years outside 1 to 9999.
    """
    numbers = stamps.cast(pa.int64())
    is_known = compute.and_(
        compute.greater_equal(numbers, _US_OF_YEAR_1), compute.less(numbers, _US_OF_YEAR_10000)
    )
    valid = compute.if_else(is_known, stamps, pa.scalar(None, TIMESTAMP))
    return [valid.cast(pa.date32()), compute.hour(valid).cast(pa.int32())]


def spark_schema(schema: pa.Schema) -> StructType:
    """Converts an Arrow schema to a Spark schema. Needs no Spark session."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)
