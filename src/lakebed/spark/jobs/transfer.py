"""Topics to Parquet files, and Parquet files to topics: what goes out comes in again as it was.

    files = FilesPlace(folder="/backup/orders")
    export_topic(spark, backend, "orders", files)
    import_topic(spark, files, Publishing(backend=backend, topic="orders"))

A file has the columns of `lakebed.topic`; to come in it needs `value` alone, and may have key,
timestamp, headers and partition (topic and offset are left out). Files come in by their names,
and their rows in order, so that a partition that went out comes in as it was.
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
FILE_BYTES = 64 * MIB  # about, and before they are compressed
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
    """`AlreadyExists` if there is something where the files are to be. If it fails, files may be
    left, and `_SUCCESS` is not among them."""
    if compression not in COMPRESSIONS:
        raise InputError(f"compression must be one of {', '.join(COMPRESSIONS)}")
    watcher = watcher or NullWatcher()
    found = resolve(backend, Origin(topic), span or Span())
    to.prepare(overwrite=overwrite)
    rows = found.read(spark, partitionBytes=str(file_bytes))
    writing = partial(_write_rows, to, compression)
    with watched(spark, watcher, EXPORT, total=found.row_count, size_bytes=found.size_bytes):
        written = rows.mapInArrow(writing, _WRITTEN).collect()
    there = {one.path for one in to.list_files()}
    missing = [one.path for one in written if one.path not in there]
    if missing:
        raise NotFound(f"{missing[0]}: a worker wrote it and it is not there: is {to} shared?")
    to.mark_whole()
    return Report(
        job=EXPORT,
        row_count=sum(one.rows for one in written),
        size_bytes=found.size_bytes,
        facts={
            "topic": topic,
            "to": str(to),
            "files": len(written),
            "file_bytes": sum(one["size"] for one in written),
        },
    )


def import_topic(
    spark: SparkSession,
    origin: FilesLocation,
    to: Publication,
    *,
    watcher: Watcher | None = None,
) -> Report:
    """`NotFound` if there is no file; `InputError` if their columns are no messages'."""
    watcher = watcher or NullWatcher()
    files = parquet_files(origin)
    columns = importable_columns(schema_of(origin, files[0].path), files[0].path)
    if to.keeps_partitions and "partition" not in columns:
        raise InputError(f"{files[0].path}: there is no column partition, which is to be kept")
    pieces = cut(files, piece_bytes=FILE_BYTES)
    size_bytes = sum(one.size_bytes for one in files)
    reading = partial(_read_rows, origin, pieces, columns)
    numbers = spark.range(0, len(pieces), 1, len(pieces))
    rows = numbers.mapInArrow(reading, _ddl(columns))
    with watched(spark, watcher, IMPORT, total=len(files), size_bytes=size_bytes, unit="files"):
        done = publish(rows, to, job=IMPORT)
    return Report(
        job=IMPORT,
        row_count=done.row_count,
        size_bytes=0 if done.was_done_before else size_bytes,
        facts={"from": str(origin), "to": to.topic, "files": len(files)} | done.facts(),
    )


class FilePiece(NamedTuple):
    """One of so many parts of a file."""

    path: str
    part: int
    part_count: int


def cut(files: Sequence[FoundFile], *, piece_bytes: int) -> list[tuple[FilePiece, ...]]:
    """What each task reads, in the order of the files: small ones share a task, large ones have
    several."""
    found: list[tuple[FilePiece, ...]] = []
    held: list[FilePiece] = []
    held_bytes = 0
    for one in files:
        part_count = max(-(-one.size_bytes // piece_bytes), 1)
        if held and held_bytes + one.size_bytes > piece_bytes:
            found.append(tuple(held))
            held, held_bytes = [], 0
        if part_count > 1:
            found += [(FilePiece(one.path, part, part_count),) for part in range(part_count)]
        else:
            held.append(FilePiece(one.path, 0, 1))
            held_bytes += one.size_bytes
    return [*found, tuple(held)] if held else found


def importable_columns(schema: pa.Schema, path: str) -> tuple[str, ...]:
    """Those that messages are made of; `InputError` if there are others, or no value."""
    from lakebed.spark.arrow.messages import FIELDS

    known = [name for name in FIELDS.names if name not in _LEFT_OUT]
    for name in schema.names:
        if name not in FIELDS.names:
            raise InputError(
                f"{path}: a column {name!r} cannot be published; those that can be are "
                f"{', '.join(known)}"
            )
    if "value" not in schema.names:
        raise InputError(f"{path}: there is no column value")
    return tuple(name for name in known if name in schema.names)


def _write_rows(
    to: FilesLocation, compression: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: its rows as a file, of which one row tells."""
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
    """In a task: the rows of its pieces. The numbers are those of pieces; a task has one."""
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
    """`InputError` if a file has others than the first one has: nothing is left out in silence."""
    found = importable_columns(schema, path)
    odd = sorted(set(found) ^ set(columns))
    if odd:
        raise InputError(f"{path}: not all files have the columns {', '.join(odd)}")
    return columns


def conformed(rows: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """The same rows as Spark was told that they are; a time without a zone is UTC."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        array = rows.column(field.name)
        if pa.types.is_timestamp(array.type) and array.type.tz is None:
            array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
        try:
            if pa.types.is_timestamp(field.type) and pa.types.is_integer(array.type):
                raise pa.ArrowInvalid(f"{array.type} does not say since when, nor in which unit")
            # A topic has milliseconds: what is finer than Spark's microseconds may go.
            is_fine = pa.types.is_timestamp(array.type) and array.type.unit == "ns"
            arrays.append(array.cast(field.type, safe=not is_fine))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"{path}: the column {field.name}: {reason}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _ddl(columns: Sequence[str]) -> str:
    from lakebed.spark.arrow.messages import FIELDS

    return FIELDS.ddl(columns)
