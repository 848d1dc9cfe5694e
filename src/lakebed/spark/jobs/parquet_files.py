"""Parquet files in a folder or below a prefix of a bucket: found, and written one a task.

Files are named by the number of the task that writes them, `part-00000.parquet`: whoever writes
one again writes the same. In a folder a file appears when it is whole; in a bucket an object does.
`_SUCCESS` says that all of them are there. A place is plain and travels to the workers.
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


class FoundFile(NamedTuple):
    """`path` as the file system of its place has it."""

    path: str
    size_bytes: int


class WrittenFile(NamedTuple):
    path: str
    size_bytes: int
    row_count: int


@dataclass(frozen=True)
class FilesLocation:
    """One of both is given: a folder that all workers share, or a prefix in a bucket."""

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
        """All files below it, by their paths; a single file is one. `NotFound` if it is missing."""
        from pyarrow.fs import FileSelector, FileType

        files = self.file_system()
        with _naming_place(self):
            here = files.get_file_info(self.base)
            if here.type is FileType.File:
                return [FoundFile(here.path, here.size)]
            if here.type is FileType.NotFound:
                raise NotFound(f"{self}: there is nothing")
            below = files.get_file_info(FileSelector(self.base, recursive=True))
        found = [FoundFile(one.path, one.size) for one in below if one.type is FileType.File]
        return sorted(found)

    def prepare(self, *, overwrite: bool) -> None:
        """Make room: `AlreadyExists` if there is something. To overwrite removes what an export
        wrote, and nothing else."""
        try:
            found = self.list_files()
        except NotFound:
            found = []
        if found and not overwrite:
            raise AlreadyExists(f"{self}: there is something already, as {found[0].path}")
        for one in found:
            name = one.path.removeprefix(self.base).lstrip("/")
            if not _OURS.fullmatch(name):
                raise AlreadyExists(f"{self}: {name} is there, which no export wrote")
        self.remove(one.path for one in found)
        with _naming_place(self):
            if self.prefix is None:
                self.file_system().create_dir(self.base)

    def remove(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        with _naming_place(self):
            if self.prefix is None:
                for path in wanted:
                    real_disk().unlink(path)
            elif wanted:
                import obstore

                keys = [path.removeprefix(f"{self.prefix.bucket}/") for path in wanted]
                obstore.delete(self.prefix.object_store(), keys)

    def mark_whole(self) -> None:
        """Write `_SUCCESS`."""
        with (
            _naming_place(self),
            self.file_system().open_output_stream(f"{self.base}/{SUCCESS}") as stream,
        ):
            stream.write(b"")


def parquet_files(place: FilesLocation) -> list[FoundFile]:
    """In the order of their names; what begins with a dot or an underscore is left out."""
    found = [one for one in place.list_files() if not _is_hidden(one.path, place)]
    found = [one for one in found if one.path.endswith(SUFFIX) or one.path == place.base]
    if not found:
        raise NotFound(f"{place}: there is no file that ends with {SUFFIX}")
    return found


def write_file(
    place: FilesLocation,
    number: int,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    compression: str,
) -> WrittenFile | None:
    """In a task: all batches as one file; None if there are no rows."""
    groups = _row_groups(batches, schema)
    first = next(groups, None)
    if first is None:
        return None
    path = f"{place.base}/part-{number:05d}{SUFFIX}"
    temporary = path if place.prefix is not None else f"{path}.{uuid4().hex}.tmp"
    files = place.file_system()
    with _naming_place(place):
        try:
            row_count = _write(files, temporary, chain([first], groups), schema, compression)
        except BaseException:
            # A stream that is closed early leaves what it has, wherever it is.
            with contextlib.suppress(LakebedError):
                place.remove([temporary])
            raise
        if temporary != path:
            real_disk().rename(temporary, path)
        return WrittenFile(path, files.get_file_info(path).size, row_count)


def read_batches(
    place: FilesLocation,
    path: str,
    *,
    part: int,
    part_count: int,
    columns_of: Callable[[pa.Schema], Sequence[str]],
) -> Iterator[pa.RecordBatch]:
    """In a task: one of so many about equal parts of a file, by its row groups. Which columns are
    read is asked of the file's schema."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with _naming_place(place), place.file_system().open_input_file(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
            columns = list(columns_of(file.schema_arrow))
            count = file.num_row_groups
            groups = range(count * part // part_count, count * (part + 1) // part_count)
            if groups:
                yield from file.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=columns)
        except pa.ArrowInvalid as error:
            raise Corrupt(f"no Parquet: {_first_line(error)}", path=path) from error


def schema_of(place: FilesLocation, path: str) -> pa.Schema:
    """Of one file."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with _naming_place(place), place.file_system().open_input_file(path) as stream:
        try:
            return parquet.ParquetFile(stream).schema_arrow
        except pa.ArrowInvalid as error:
            raise Corrupt(f"no Parquet: {_first_line(error)}", path=path) from error


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
    """Rows until there are enough for a row group."""
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


def _is_hidden(path: str, place: FilesLocation) -> bool:
    names = path.removeprefix(place.base).split("/")
    return any(name.startswith((".", "_")) for name in names)


@contextmanager
def _naming_place(place: FilesLocation) -> Iterator[None]:
    """What the system or an S3 refuses, as errors of ours."""
    try:
        yield
    except OSError as error:
        if place.prefix is None:
            path = error.filename if isinstance(error.filename, str) else place.folder
            raise from_os_error(error, operation="write", path=path) from error
        text = _first_line(error)
        if "NO_SUCH_BUCKET" in text:
            raise NotFound(f"{place}: there is no bucket {place.prefix.bucket}") from error
        raise DiskError("use", str(place), why=text) from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
