"""Reads the files of a Delta table as Arrow batches with exactly the schema that was declared to
Spark.

The batches come directly from pyarrow's Parquet reader over S3, without a Python object per value.
Columns that an older file does not have are null; the values of partition columns come from the
table's log.
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
    """Yields the rows of these parts of files, in order, with the given schema."""
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
            present = set(opened.schema_arrow.names)
            columns = [name for name in schema.names if name in present]
            constants = {
                name: value for name, value in part.file.partition.items() if name not in present
            }
            for batch in opened.iter_batches(
                BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False
            ):
                if batch.num_rows:
                    yield conformed(batch, schema, constants=constants)
    except FileNotFoundError as error:
        raise NotFound(
            f"{place}: the file {part.file.path} is gone: either a vacuum removed it after the "
            "read was planned (run the query again), or it is lost"
        ) from error
    except pa.ArrowInvalid as error:
        raise DataError(
            f"this is not the Parquet file that the table's log describes: {error}", path=path
        ) from error


def conformed(
    batch: pa.RecordBatch, schema: pa.Schema, *, constants: Mapping[str, Any]
) -> pa.RecordBatch:
    """Returns the rows with exactly this schema.

    Columns are matched by name and cast to the type in the schema. A missing column gets its value
    in `constants`, or null.
    """
    import pyarrow as pa

    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index >= 0:
            column = batch.column(index)
            columns.append(column if column.type == field.type else column.cast(field.type))
        elif constants.get(field.name) is not None:
            scalar = pa.scalar(constants[field.name], field.type)
            columns.append(pa.repeat(scalar, batch.num_rows))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _groups_within(opened: ParquetFile, start: int, end: int) -> list[int]:
    metadata = opened.metadata
    groups = []
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(0)
        offset = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset is not None:
            offset = min(offset, column.dictionary_page_offset)
        if start <= offset < end:
            groups.append(group)
    return groups
