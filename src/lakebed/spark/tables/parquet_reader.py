"""Arrow batches of a table's files, of the very schema that Spark was told.

Straight from pyarrow's Parquet reader, over S3, without a Python object per value. Columns that a
file does not have, being older than they are, are null; partition columns come from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakebed.base.errors import DataError, NotFound
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.parts import FilePart

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyarrow.parquet import ParquetFile

BATCH_ROWS = 10_000


def read_parts(
    place: TableLocation, parts: Sequence[FilePart], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """In the order of the parts."""
    files = place.file_system()
    for part in parts:
        yield from read_part(files, place, part, schema)


def read_part(
    files: FileSystem, place: TableLocation, part: FilePart, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = place.key(part.file.path)
    try:
        with (
            files.open_input_file(path) as source,
            parquet.ParquetFile(
                source, pre_buffer=True, coerce_int96_timestamp_unit="us"
            ) as opened,
        ):
            groups = _groups_within(opened, part.start, part.end)
            if not groups:
                return
            there = set(opened.schema_arrow.names)
            wanted = [name for name in schema.names if name in there]
            constants = {
                name: value for name, value in part.file.partition.items() if name not in there
            }
            for batch in opened.iter_batches(
                BATCH_ROWS, row_groups=groups, columns=wanted, use_threads=False
            ):
                if batch.num_rows:
                    yield conformed(batch, schema, constants=constants)
    except FileNotFoundError as error:
        raise NotFound(
            f"{place}: the file {part.file.path} is gone: it was removed from the table and "
            "vacuumed since this was planned, or is lost"
        ) from error
    except pa.ArrowInvalid as error:
        raise DataError(f"no such Parquet file as the table says: {error}", path=path) from error


def conformed(
    batch: pa.RecordBatch, schema: pa.Schema, *, constants: Mapping[str, Any]
) -> pa.RecordBatch:
    """The same rows in that schema: columns by name, null where there is none."""
    import pyarrow as pa

    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at >= 0:
            column = batch.column(at)
            columns.append(column if column.type == field.type else column.cast(field.type))
        elif constants.get(field.name) is not None:
            scalar = pa.scalar(constants[field.name], field.type)
            columns.append(pa.repeat(scalar, batch.num_rows))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _groups_within(opened: ParquetFile, start: int, end: int) -> list[int]:
    metadata = opened.metadata
    found = []
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(0)
        at = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset is not None:
            at = min(at, column.dictionary_page_offset)
        if start <= at < end:
            found.append(group)
    return found
