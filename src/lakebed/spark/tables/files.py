"""Writes the Parquet files of a task: rows divided by partition, in files of bounded size.

Readers do not see a file before a commit names it. Each file has a name that no other task or
attempt uses. A task that fails removes its files as far as it can; a vacuum removes the files of
killed tasks.

Memory is bounded: rows are collected until there are enough for a row group, and if all open files
together hold too many bytes, the rows of the file that holds the most are written.
"""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import InputError
from lakebed.base.events import event
from lakebed.base.units import MIB
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.parquet_reader import conformed
from lakebed.spark.tables.partition_values import as_text, folder_of
from lakebed.spark.tables.stats import Path, leaf_paths, stats_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

FILE_BYTES: Final = 128 * MIB
ROW_GROUP_BYTES: Final = 32 * MIB
HELD_BYTES_MAX: Final = 128 * MIB
OPEN_FILES_MAX: Final = 32

_log = logging.getLogger(__name__)

Key = tuple[str | None, ...]


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file, with everything that the table's log stores about it.

    `partition` has the values of the partition columns as text.
    """

    path: str
    size_bytes: int
    partition: dict[str, str | None]
    rows: int
    stats: str
    written_ms: int


@dataclass(frozen=True)
class FileOptions:
    """How the files of a task are written. `job` is part of every file name."""

    job: str
    partition_columns: tuple[str, ...] = ()
    compression: str = "zstd"
    file_bytes: int = FILE_BYTES


class TableFiles:
    """Writes the Parquet files of one task. The rows of a partition keep their order."""

    def __init__(
        self,
        place: TableLocation,
        schema: pa.Schema,
        options: FileOptions,
        *,
        files: FileSystem,
        clock: Clock,
    ) -> None:
        """Creates a writer for rows with this schema, which includes the partition columns."""
        self._place = place
        self._schema = schema
        self._options = options
        self._files = files
        self._clock = clock
        self._open: OrderedDict[Key, _OpenFile] = OrderedDict()  # the most recently used is last
        self._written: list[WrittenFile] = []
        self._started: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes the rows of a batch. Columns are matched by name; missing columns become null.

        Raises `InputError` if a column that cannot be null has a null.
        """
        if not batch.num_rows:
            return
        rows = conformed(batch, self._schema, constants={})
        for field, column in zip(self._schema, rows.columns, strict=True):
            if not field.nullable and column.null_count:
                raise InputError(
                    f"{self._place}: the column {field.name!r} cannot be null in this table, but "
                    "a row has no value for it"
                )
        for key, part in by_partition(rows, self._options.partition_columns):
            self._open_file(key).hold(part)
        while sum(file.held_bytes for file in self._open.values()) > HELD_BYTES_MAX:
            max(self._open.values(), key=lambda file: file.held_bytes).flush()
        for key in [key for key, file in self._open.items() if file.is_full]:
            self._finish(key)

    def finish(self) -> list[WrittenFile]:
        """Completes and stores all files, and returns them for the commit."""
        for key in list(self._open):
            self._finish(key)
        return self._written

    def remove(self) -> None:
        """Removes all files that were written or started, as far as possible."""
        for file in self._open.values():
            file.drop()
        self._open.clear()
        remove_files(self._place, self._started)

    def _open_file(self, key: Key) -> _OpenFile:
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._finish(next(iter(self._open)))
            partition = dict(zip(self._options.partition_columns, key, strict=True))
            name = f"part-{self._options.job}-{uuid4()}.{self._options.compression}.parquet"
            path = folder_of(partition) + name
            self._started.append(path)
            stream = self._files.open_output_stream(self._place.key(path))
            file = self._open[key] = _OpenFile(
                path, partition, stream, self._file_schema(), self._options
            )
        self._open.move_to_end(key)
        return file

    def _file_schema(self) -> pa.Schema:
        import pyarrow as pa

        stored = [
            field for field in self._schema if field.name not in self._options.partition_columns
        ]
        return pa.schema(stored)

    def _finish(self, key: Key) -> None:
        file = self._open[key]
        written = file.finish(written_ms=self._clock.wall_ns() // NS_PER_MS)
        del self._open[key]
        self._written.append(written)


class _OpenFile:
    def __init__(
        self,
        path: str,
        partition: dict[str, str | None],
        stream: Any,
        schema: pa.Schema,
        options: FileOptions,
    ) -> None:
        import pyarrow.parquet as parquet

        self._path = path
        self._partition = partition
        self._stream = stream
        self._schema = schema
        self._bytes_max = options.file_bytes
        self._metadata: list[Any] = []
        self._writer = parquet.ParquetWriter(
            stream,
            schema,
            compression=options.compression,
            store_schema=False,  # all readers, also Lakebed's, use the types of Parquet itself
            coerce_timestamps="us",
            metadata_collector=self._metadata,
        )
        self._held: list[pa.RecordBatch] = []
        self._with_nan: set[Path] = set()
        self.held_bytes = 0

    @property
    def is_full(self) -> bool:
        return bool(self._stream.tell() >= self._bytes_max)

    def hold(self, rows: pa.RecordBatch) -> None:
        rows = rows.select(self._schema.names)
        self._held.append(rows)
        self.held_bytes += rows.nbytes
        if self.held_bytes >= min(ROW_GROUP_BYTES, self._bytes_max):
            self.flush()

    def flush(self) -> None:
        """Writes the rows that are held in memory as one row group."""
        import pyarrow as pa

        if not self._held:
            return
        rows = pa.Table.from_batches(self._held, schema=self._schema)
        self._held, self.held_bytes = [], 0
        self._with_nan.update(_columns_with_nan(rows))
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def finish(self, *, written_ms: int) -> WrittenFile:
        self.flush()
        self._writer.close()
        size_bytes = self._stream.tell()
        self._stream.close()
        metadata = self._metadata[0]
        return WrittenFile(
            path=self._path,
            size_bytes=size_bytes,
            partition=self._partition,
            rows=metadata.num_rows,
            stats=stats_json(metadata, self._schema, unbounded=frozenset(self._with_nan)),
            written_ms=written_ms,
        )

    def drop(self) -> None:
        """Closes the file without the rows that are held in memory. The other rows may remain in
        the bucket.
        """
        for closes in (self._writer.close, self._stream.close):
            with contextlib.suppress(Exception):
                closes()


def by_partition(
    rows: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Divides the rows by the values of the partition columns. Rows keep their order.

    Yields the values of each combination as text, with its rows.
    """
    import numpy as np
    import pyarrow as pa

    if not columns:
        yield (), rows
        return
    keys: list[Key] = [()]
    codes = np.zeros(rows.num_rows, np.int64)  # the index in `keys` of each row
    for name in columns:
        encoded = rows.column(name).dictionary_encode()
        values = [as_text(value) for value in encoded.dictionary.to_pylist()]
        # Two values may have the same text, such as null and the empty string.
        codes_by_text: dict[str | None, int] = {}
        numbers = np.array(
            [codes_by_text.setdefault(text, len(codes_by_text)) for text in [*values, None]]
        )
        indices = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        pairs, codes = np.unique(codes * len(codes_by_text) + numbers[indices], return_inverse=True)
        texts = list(codes_by_text)
        keys = [
            (*keys[pair // len(codes_by_text)], texts[pair % len(codes_by_text)]) for pair in pairs
        ]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    moved = rows if len(keys) == 1 else rows.take(pa.array(order))
    for key, start, end in zip(keys, starts, [*starts[1:], rows.num_rows], strict=True):
        yield key, moved.slice(start, end - start)


def remove_files(place: TableLocation, paths: Sequence[str]) -> None:
    """Removes files below the location. The caller makes sure that the table does not need them.

    A failure is only logged; a vacuum can remove the files later.
    """
    import obstore
    from obstore.exceptions import BaseError

    if not paths:
        return
    try:
        obstore.delete(place.object_store(), [f"{place.prefix}/{path}" for path in paths])
    except (BaseError, FileNotFoundError, OSError) as error:
        event(_log, "files_not_removed", level=logging.WARNING, table=place, why=error)


def _columns_with_nan(rows: pa.Table) -> Iterator[Path]:
    import pyarrow as pa
    import pyarrow.compute as compute

    for path in leaf_paths(rows.schema):
        if path is None:
            continue
        data_type = rows.schema.field(path[0]).type
        for name in path[1:]:
            data_type = data_type.field(name).type
        if not pa.types.is_floating(data_type):
            continue
        column = rows[path[0]]
        if len(path) > 1:
            column = compute.struct_field(column, list(path[1:]))
        if compute.any(compute.is_nan(column)).as_py():
            yield path
