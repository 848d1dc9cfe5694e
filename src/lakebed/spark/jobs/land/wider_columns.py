"""Widens columns of a Delta table so that they fit rescued values: `land --widen`.

Delta cannot change `bigint` to `double` in place, so tasks write the files again with the new type,
and one commit replaces the old files. Rescued numbers move from the rescue column to their own
column. If another commit comes first, the rewrite starts again from the new version of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from lakebed.base.clock import SystemClock
from lakebed.base.errors import Busy, InputError
from lakebed.spark.jobs.land.executor_call import call_on_executor, call_on_executors
from lakebed.spark.jobs.land.json_decoder import FIELDS
from lakebed.spark.jobs.land.target import files_of, place_of_table
from lakebed.spark.jobs.land.task import rescue_field
from lakebed.spark.tables import snapshot
from lakebed.spark.tables.commit import replace_files
from lakebed.spark.tables.files import WrittenFile, remove_files
from lakebed.spark.tables.parquet_reader import read_parts
from lakebed.spark.tables.parts import FilePart, splits_of
from lakebed.spark.tables.schemas import arrow_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from lakebed.spark.jobs.land.config import Landing

ATTEMPTS_MAX: Final = 5
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_I64: Final = range(-(1 << 63), 1 << 63)


class Rewrite(msgspec.Struct, frozen=True):
    """A planned rewrite of one version of a table, to widen the columns in `names`.

    `schema_json` is the schema after the rewrite.
    """

    version: int
    schema_json: str
    names: list[str]
    split_count: int

    @property
    def schema(self) -> StructType:
        schema: StructType = StructType.fromJson(msgspec.json.decode(self.schema_json))
        return schema


def widen(spark: SparkSession, landing: Landing, s3: Mapping[str, str]) -> list[str]:
    """Widens the integer columns of a table that have rescued numbers, so that these fit.

    Returns the names of the widened columns. Raises `InputError` if a wider type cannot hold the
    existing integers exactly, and `Busy` if other writers keep changing the table.
    """
    for _ in range(ATTEMPTS_MAX):
        plan = call_on_executor(spark, partial(_plan, landing, s3))
        if plan is None:
            return []
        rewrite = msgspec.convert(plan, Rewrite)
        written = call_on_executors(
            spark, partial(_write_split, landing, s3, rewrite), count=rewrite.split_count
        )
        files = [file for part in written for file in msgspec.convert(part, list[WrittenFile])]
        if call_on_executor(spark, partial(_replace, landing, s3, rewrite, files)):
            return rewrite.names
    raise Busy(
        f"{landing.table}: other writers changed the table during each of {ATTEMPTS_MAX} attempts; "
        "try again"
    )


# These functions run on executors.


def _plan(landing: Landing, s3: Mapping[str, str]) -> Rewrite | None:
    """Plans the rewrite of the table. Returns None if no rescued value would fit a wider column."""
    place, rescue = place_of_table(landing.table, s3), rescue_field(landing)
    table = snapshot.find_table(place)
    if table is None or rescue.name not in (schema := snapshot.schema_of(table)).names:
        return None
    snapshot.check_writable(table)
    snapshot.check_overwritable(table)
    splits = _splits(table)
    parts = [part for split in splits for part in split]
    batches = read_parts(place, parts, arrow_schema(StructType([rescue])))
    texts = (text for batch in batches for text in batch.column(0).to_pylist() if text is not None)
    wider = wider_types(schema, texts)
    if not wider:
        return None
    fields = [
        StructField(
            field.name, wider.get(field.name, field.dataType), field.nullable, field.metadata
        )
        for field in schema.fields
    ]
    return Rewrite(table.version(), StructType(fields).json(), sorted(wider), len(splits))


def _write_split(
    landing: Landing, s3: Mapping[str, str], rewrite: Rewrite, number: int
) -> list[WrittenFile]:
    place = place_of_table(landing.table, s3)
    table = snapshot.load_table(place, version=rewrite.version)
    before = arrow_schema(snapshot.schema_of(table))
    columns = tuple(snapshot.partition_columns_of(table))
    files = files_of(place, landing, rewrite.schema, partition_columns=columns, clock=SystemClock())
    try:
        for batch in read_parts(place, _splits(table)[number], before):
            files.write(widened(batch, rewrite.schema, rewrite.names, rescue_field(landing).name))
        return files.finish()
    except BaseException:
        files.remove()
        raise


def _replace(
    landing: Landing, s3: Mapping[str, str], rewrite: Rewrite, files: list[WrittenFile]
) -> bool:
    place = place_of_table(landing.table, s3)
    if replace_files(place, files, rewrite.schema, version=rewrite.version):
        return True
    remove_files(place, [file.path for file in files])
    return False


def _splits(table: DeltaTable) -> list[list[FilePart]]:
    return splits_of(snapshot.files_of(table))


# The functions below do no I/O.


def wider_types(schema: StructType, texts: Iterable[str]) -> dict[str, DataType]:
    """Returns the new types of the integer columns that must be widened to fit rescued numbers.

    `texts` are the values of the rescue column: JSON objects.
    """
    whole = {
        field.name: field.dataType for field in schema.fields if isinstance(field.dataType, _WHOLE)
    }
    wider: dict[str, DataType] = {}
    for text in texts:
        for name, raw in FIELDS.decode(text).items():
            if name not in whole or isinstance(wider.get(name), DoubleType):
                continue
            match _number(raw):
                case float():
                    wider[name] = DoubleType()
                case int() as value if value in _I64 and not isinstance(whole[name], LongType):
                    wider[name] = LongType()
    return wider


def widened(
    batch: pa.RecordBatch, schema: StructType, names: list[str], rescue: str
) -> pa.RecordBatch:
    """Returns the rows with the wider schema, and moves rescued numbers that now fit to their
    columns.

    `names` are the widened columns; `rescue` is the name of the column with rescued fields.
    """
    arrow = arrow_schema(schema)
    texts: list[str | None] = batch.column(rescue).to_pylist()
    cells: dict[str, dict[int, Any]] = {name: {} for name in names}
    for index, text in enumerate(texts):
        if text is None:
            continue
        fields = FIELDS.decode(text)
        for name in [name for name in names if name in fields]:
            value = _number(fields[name])
            if _fits(value, schema[name].dataType):
                cells[name][index] = value
                del fields[name]
        texts[index] = msgspec.json.encode(fields).decode() if fields else None
    columns = []
    for field in arrow:
        column = batch.column(field.name)
        if field.name == rescue:
            column = pa.array(texts, field.type)
        elif field.name in cells:
            column = _cast(column, field)
            if cells[field.name]:
                values = column.to_pylist()
                for index, value in cells[field.name].items():
                    values[index] = value
                column = pa.array(values, field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _number(raw: msgspec.Raw) -> int | float | None:
    """Decodes a JSON number. Returns None if it is not a number, or too large for a `double`."""
    try:
        value = msgspec.json.decode(raw)
        float(value if isinstance(value, int) else 0)
    except (msgspec.DecodeError, OverflowError):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def _fits(value: int | float | None, data_type: DataType) -> bool:
    if isinstance(data_type, DoubleType):
        return isinstance(value, float) or (isinstance(value, int) and int(float(value)) == value)
    return isinstance(value, int) and value in _I64


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"the column {field.name!r} has integers that {field.type} cannot hold exactly, so the "
            "column cannot be widened; the table is unchanged, and rescued values stay rescued"
        ) from error
