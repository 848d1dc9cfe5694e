"""Lists, writes and reads the Parquet files of an export, in a folder or below a prefix of a
bucket.

Each task that has rows writes one file, named by the number of the task: `part-00000.parquet`. A
repeated task replaces the file. In a folder, a file gets its name only when it is complete. In a
bucket, a task that fails may leave an incomplete object, which it then tries to remove. The file
`_SUCCESS` is written last and means that all files are there and complete. A `FilesLocation` is
plain data and is sent to the workers.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from lakebed.base.errors import (
    AlreadyExists,
    Corrupt,
    DiskError,
    LakebedError,
    NotFound,
    from_os_error,
)
from lakebed.base.units import MIB
from lakebed.kernels.disk import real_disk
from lakebed.spark.tables.location import TableLocation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

SUCCESS = "_SUCCESS"
SUFFIX = ".parquet"
ROW_GROUP_BYTES = 32 * MIB
BATCH_ROWS = 10_000

_OURS = re.compile(r"part-[0-9]{5,9}\.parquet(\.[0-9a-f]{32}\.tmp)?|_SUCCESS")
_NUMBER = re.compile(r"(?<=/part-)[0-9]{5,9}(?=\.parquet$)")


class FoundFile(NamedTuple):
    """A listed file. `path` is in the form that its file system uses: for S3 it starts with the
    bucket.
    """

    path: str
    size_bytes: int


class WrittenFile(NamedTuple):
    path: str
    size_bytes: int
    row_count: int


@dataclass(frozen=True)
class FilesLocation:
    """Where files are: a folder that all workers share, or a prefix in a bucket.

    Exactly one of `folder` and `prefix` is set.
    """

    folder: str = ""
    prefix: TableLocation | None = None

    def __str__(self) -> str:
        return self.folder if self.prefix is None else self.prefix.uri

    @property
    def base(self) -> str:
        if self.prefix is None:
            return os.path.abspath(self.folder)
        return f"{self.prefix.bucket}/{self.prefix.prefix}"

    def file_system(self) -> FileSystem:
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem() if self.prefix is None else self.prefix.file_system()

    def list_files(self) -> list[FoundFile]:
        """Returns all files below the location, sorted by path.

        If the location is itself a file, returns only this file. Raises `NotFound` if the location
        is neither a file nor a folder.
        """
        from pyarrow.fs import FileSelector, FileType

        files = self.file_system()
        with _converted_errors(self):
            info = files.get_file_info(self.base)
            if info.type is FileType.File:
                return [FoundFile(info.path, info.size)]
            if info.type is FileType.NotFound:
                raise NotFound(f"{self}: no such file or folder")
            below = files.get_file_info(FileSelector(self.base, recursive=True))
        listed = [
            FoundFile(entry.path, entry.size) for entry in below if entry.type is FileType.File
        ]
        return sorted(listed)

    def prepare(self, *, overwrite: bool) -> None:
        """Prepares the location for an export; creates the folder if it does not exist. Raises
        `AlreadyExists` if there are already files.

        With `overwrite`, the files of an earlier export are removed, and `AlreadyExists` is raised
        only if there is any other file.
        """
        try:
            existing = self.list_files()
        except NotFound:
            existing = []
        if existing and not overwrite:
            raise AlreadyExists(
                f"{self}: cannot export to it, because it already has files, such as "
                f"{existing[0].path}"
            )
        for file in existing:
            name = file.path.removeprefix(self.base).lstrip("/")
            if not _OURS.fullmatch(name):
                raise AlreadyExists(
                    f"{self}: cannot be overwritten, because {file.path} is not a file of an "
                    "earlier export"
                )
        self.remove(file.path for file in existing)
        with _converted_errors(self):
            if self.prefix is None:
                self.file_system().create_dir(self.base)

    def remove(self, paths: Iterable[str]) -> None:
        to_remove = list(paths)
        with _converted_errors(self):
            if self.prefix is None:
                for path in to_remove:
                    real_disk().unlink(path)
            elif to_remove:
                import obstore

                keys = [path.removeprefix(f"{self.prefix.bucket}/") for path in to_remove]
                obstore.delete(self.prefix.object_store(), keys)

    def mark_whole(self) -> None:
        """Writes the empty file `_SUCCESS`, which means that the export is complete."""
        with (
            _converted_errors(self),
            self.file_system().open_output_stream(f"{self.base}/{SUCCESS}") as stream,
        ):
            stream.write(b"")


def parquet_files(location: FilesLocation) -> list[FoundFile]:
    """Returns the files below the location whose names end with `.parquet`, sorted by path.

    The files of an export are sorted by number, which may have more than five digits.

    Files are skipped if a part of their path below the location starts with a dot or an underscore.
    If the location is itself a file, returns only this file. Raises `NotFound` if there are no such
    files.
    """
    files = [file for file in location.list_files() if not _is_hidden(file.path, location)]
    files = [file for file in files if file.path.endswith(SUFFIX) or file.path == location.base]
    if not files:
        raise NotFound(
            f"{location}: no file name ends with {SUFFIX}; files and folders whose names start "
            "with . or _ are skipped"
        )
    return sorted(files, key=lambda file: _NUMBER.sub(lambda number: f"{number[0]:0>9}", file.path))


def write_file(
    location: FilesLocation,
    number: int,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    compression: str,
) -> WrittenFile | None:
    """Writes all batches to the Parquet file with this number. Runs in a task.

    Returns None, and writes nothing, if there are no rows.
    """
    groups = _row_groups(batches, schema)
    first = next(groups, None)
    if first is None:
        return None
    path = f"{location.base}/part-{number:05d}{SUFFIX}"
    temporary = path if location.prefix is not None else f"{path}.{uuid4().hex}.tmp"
    files = location.file_system()
    with _converted_errors(location):
        try:
            row_count = _write(files, temporary, chain([first], groups), schema, compression)
        except BaseException:
            # A stream that is closed early leaves an incomplete file or object.
            with contextlib.suppress(LakebedError):
                location.remove([temporary])
            raise
        if temporary != path:
            real_disk().rename(temporary, path)
        return WrittenFile(path, files.get_file_info(path).size, row_count)


def read_batches(
    location: FilesLocation,
    path: str,
    *,
    part: int,
    part_count: int,
    columns_of: Callable[[pa.Schema], Sequence[str]],
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one part of a Parquet file. Runs in a task.

    The row groups of the file are divided into `part_count` parts; `part` is the number of the
    part, from 0. `columns_of` gets the file's schema and returns the columns to read.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with _converted_errors(location), location.file_system().open_input_file(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
            columns = list(columns_of(file.schema_arrow))
            count = file.num_row_groups
            groups = range(count * part // part_count, count * (part + 1) // part_count)
            if groups:
                yield from file.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=columns)
        except pa.ArrowInvalid as error:
            raise Corrupt(f"not a valid Parquet file: {_first_line(error)}", path=path) from error


def schema_of(location: FilesLocation, path: str) -> pa.Schema:
    """Returns the Arrow schema of a Parquet file. Raises `Corrupt` if the file is not a valid
    Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with _converted_errors(location), location.file_system().open_input_file(path) as stream:
        try:
            return parquet.ParquetFile(stream).schema_arrow
        except pa.ArrowInvalid as error:
            raise Corrupt(f"not a valid Parquet file: {_first_line(error)}", path=path) from error


def _write(
    files: FileSystem, path: str, groups: Iterable[pa.Table], schema: pa.Schema, compression: str
) -> int:
    import pyarrow.parquet as parquet

    row_count = 0
    with (
        files.open_output_stream(path) as stream,
        parquet.ParquetWriter(stream, schema, compression=compression) as writer,
    ):
        for group in groups:
            row_count += group.num_rows
            writer.write_table(group, row_group_size=group.num_rows)
    return row_count


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Joins batches into tables of at least 32 MiB, one for each row group; the last table may be
    smaller.
    """
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch.cast(schema))
        size_bytes += batch.nbytes
        if size_bytes >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held, schema=schema)
            held, size_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held, schema=schema)


def _is_hidden(path: str, location: FilesLocation) -> bool:
    names = path.removeprefix(location.base).split("/")
    return any(name.startswith((".", "_")) for name in names)


@contextmanager
def _converted_errors(location: FilesLocation) -> Iterator[None]:
    """Converts an `OSError` of the `with` block, from a disk or from S3, to a Lakebed error that
    names the file or the location.
    """
    try:
        yield
    except OSError as error:
        if location.prefix is None:
            path = error.filename if isinstance(error.filename, str) else location.folder
            raise from_os_error(error, operation="access", path=path) from error
        text = _first_line(error)
        if "NO_SUCH_BUCKET" in text:
            raise NotFound(f"{location}: bucket {location.prefix.bucket} does not exist") from error
        raise DiskError("access", str(location), why=text) from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
