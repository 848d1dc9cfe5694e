"""The jobs `export` (a topic to Parquet files) and `import` (Parquet files to a topic), without
loss.

    files = FilesLocation(folder="/backup/orders")
    export_topic(spark, backend, "orders", files)
    import_topic(spark, files, Publication(backend=backend, topic="orders"))

An exported file has the columns of `lakebed.topic`. An imported file needs only the column `value`;
it may also have `key`, `timestamp`, `headers` and `partition`. The columns `topic` and `offset` are
ignored. Files are imported in the order of their paths, and rows in the order of the file. So if
partitions are kept, each partition gets its messages back in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lakebed.base.errors import InputError, NotFound
from lakebed.base.units import MIB
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.parquet_files import (
    FilesLocation,
    FoundFile,
    parquet_files,
    read_batches,
    schema_of,
    write_file,
)
from lakebed.spark.jobs.publication import Publication, publish
from lakebed.spark.jobs.report import Report
from lakebed.spark.jobs.span import Origin, Span, resolve
from lakebed.spark.jobs.watcher import NullWatcher, Watcher
from lakebed.spark.query_watch import watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

EXPORT, IMPORT = "export", "import"
FILE_BYTES = 64 * MIB  # approximate, before compression
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")

_LEFT_OUT = ("topic", "offset")
_WRITTEN = "path string, size bigint, rows bigint"


def export_topic(
    spark: SparkSession,
    backend: Backend,
    topic: str,
    to: FilesLocation,
    *,
    span: Span | None = None,
    overwrite: bool = False,
    compression: str = "zstd",
    file_bytes: int = FILE_BYTES,
    watcher: Watcher | None = None,
) -> Report:
    """Exports a topic to Parquet files. Raises `AlreadyExists` if the target already has files.

    With `overwrite`, the files of an earlier export are removed first, and only other files raise
    `AlreadyExists`. An export that fails while it writes may leave files, but not `_SUCCESS`.
    """
    if compression not in COMPRESSIONS:
        raise InputError(f"the compression of an export must be one of {', '.join(COMPRESSIONS)}")
    watcher = watcher or NullWatcher()
    resolved = resolve(backend, Origin(topic), span or Span())
    to.prepare(overwrite=overwrite)
    rows = resolved.read(spark, partitionBytes=str(file_bytes))
    writing = partial(_write_rows, to, compression)
    with watched(spark, watcher, EXPORT, total=resolved.row_count, size_bytes=resolved.size_bytes):
        written = rows.mapInArrow(writing, _WRITTEN).collect()
    visible = {file.path for file in to.list_files()}
    missing = [file.path for file in written if file.path not in visible]
    if missing:
        raise NotFound(
            f"{missing[0]}: a worker wrote this file, but the driver cannot see it: {to} must be a "
            "folder that all machines share"
        )
    to.mark_whole()
    return Report(
        job=EXPORT,
        row_count=sum(file.rows for file in written),
        size_bytes=resolved.size_bytes,
        facts={
            "topic": topic,
            "to": str(to),
            "files": len(written),
            "file_bytes": sum(file["size"] for file in written),
        },
    )


def import_topic(
    spark: SparkSession,
    origin: FilesLocation,
    to: Publication,
    *,
    watcher: Watcher | None = None,
) -> Report:
    """Publishes the rows of Parquet files to a topic.

    Raises `NotFound` if there are no Parquet files, and `InputError` if the columns of the first
    file cannot be imported. If another file has other columns, the query fails.
    """
    watcher = watcher or NullWatcher()
    files = parquet_files(origin)
    columns = importable_columns(schema_of(origin, files[0].path), files[0].path)
    if to.keeps_partitions and "partition" not in columns:
        raise InputError(
            f"{files[0].path}: cannot keep partitions, because the file has no column 'partition'"
        )
    pieces = cut(files, piece_bytes=FILE_BYTES)
    size_bytes = sum(file.size_bytes for file in files)
    reading = partial(_read_rows, origin, pieces, columns)
    numbers = spark.range(0, len(pieces), 1, len(pieces))
    rows = numbers.mapInArrow(reading, _ddl(columns))
    with watched(spark, watcher, IMPORT, total=len(files), size_bytes=size_bytes, unit="files"):
        published = publish(rows, to, job=IMPORT)
    return Report(
        job=IMPORT,
        row_count=published.row_count,
        size_bytes=0 if published.was_done_before else size_bytes,
        facts={"from": str(origin), "to": to.topic, "files": len(files)} | published.facts(),
    )


class FilePiece(NamedTuple):
    """One of `part_count` parts of a file; `part` is its number, from 0."""

    path: str
    part: int
    part_count: int


def cut(files: Sequence[FoundFile], *, piece_bytes: int) -> list[tuple[FilePiece, ...]]:
    """Assigns the files, in order, to tasks; returns the file pieces of each task.

    Small files share a task, and a large file is divided among several tasks.
    """
    tasks: list[tuple[FilePiece, ...]] = []
    held: list[FilePiece] = []
    held_bytes = 0
    for file in files:
        part_count = max(-(-file.size_bytes // piece_bytes), 1)
        if held and held_bytes + file.size_bytes > piece_bytes:
            tasks.append(tuple(held))
            held, held_bytes = [], 0
        if part_count > 1:
            tasks += [(FilePiece(file.path, part, part_count),) for part in range(part_count)]
        else:
            held.append(FilePiece(file.path, 0, 1))
            held_bytes += file.size_bytes
    return [*tasks, tuple(held)] if held else tasks


def importable_columns(schema: pa.Schema, path: str) -> tuple[str, ...]:
    """Returns the columns of a file that are imported.

    The file may have the columns `topic` and `offset`, but they are not imported. Raises
    `InputError` if the file has any other column that messages do not have, or no column `value`.
    """
    from lakebed.spark.arrow.messages import FIELDS

    importable = [name for name in FIELDS.names if name not in _LEFT_OUT]
    for name in schema.names:
        if name not in FIELDS.names:
            raise InputError(
                f"{path}: the column {name!r} cannot be imported; the columns of an import are "
                f"{', '.join(importable)} ({' and '.join(_LEFT_OUT)} are ignored)"
            )
    if "value" not in schema.names:
        raise InputError(f"{path}: the file has no column 'value', which an import needs")
    return tuple(name for name in importable if name in schema.names)


def _write_rows(
    to: FilesLocation, compression: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Writes the rows of this task to a Parquet file. Yields one row that describes the file."""
    import pyarrow as pa
    from pyspark import TaskContext

    from lakebed.spark.arrow.messages import FIELDS

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    written = write_file(to, number, batches, FIELDS.schema(), compression=compression)
    if written is not None:
        yield pa.RecordBatch.from_pydict(
            {"path": [written.path], "size": [written.size_bytes], "rows": [written.row_count]}
        )


def _read_rows(
    origin: FilesLocation,
    pieces: Sequence[Sequence[FilePiece]],
    columns: Sequence[str],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the file pieces that this task reads.

    `numbers` contains the indexes of this task's entries in `pieces`.
    """
    from lakebed.spark.arrow.messages import FIELDS

    schema = FIELDS.schema(columns)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for path, part, part_count in pieces[number]:
                checked = partial(_same_columns, columns, path)
                for rows in read_batches(
                    origin, path, part=part, part_count=part_count, columns_of=checked
                ):
                    yield conformed(rows, schema, path)


def _same_columns(columns: Sequence[str], path: str, schema: pa.Schema) -> Sequence[str]:
    """Returns `columns`, the imported columns of the first file.

    Raises `InputError` if the imported columns of this file differ from them, so that no column is
    silently dropped.
    """
    importable = importable_columns(schema, path)
    differing = sorted(set(importable) ^ set(columns))
    if differing:
        raise InputError(
            f"{path}: all files must have the same columns; these differ: {', '.join(differing)}"
        )
    return columns


def conformed(rows: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """Casts the rows of a file to the schema that was declared to Spark.

    A timestamp without a zone is taken as UTC. Raises `InputError` if a column cannot be cast.
    """
    import pyarrow as pa

    arrays = []
    for field in schema:
        array = rows.column(field.name)
        if pa.types.is_timestamp(array.type) and array.type.tz is None:
            array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
        try:
            if pa.types.is_timestamp(field.type) and pa.types.is_integer(array.type):
                raise pa.ArrowInvalid(
                    f"{array.type} is not a timestamp: its unit and epoch are unknown"
                )
            # Topics store milliseconds, so nanoseconds may be truncated to Spark's microseconds.
            is_fine = pa.types.is_timestamp(array.type) and array.type.unit == "ns"
            arrays.append(array.cast(field.type, safe=not is_fine))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"{path}: the column {field.name!r} cannot be imported: {reason}"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _ddl(columns: Sequence[str]) -> str:
    from lakebed.spark.arrow.messages import FIELDS

    return FIELDS.ddl(columns)
