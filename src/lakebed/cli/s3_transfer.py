"""`lakebed s3 put` and `lakebed s3 get`: store files as objects, and objects as files.

An object is stored completely or not at all. A file is written under a temporary name, and renamed
when it is complete and verified. So a damaged object never becomes a file of the given name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.invocation import invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Column, Item, Text, Value
from lakebed.cli.s3_arguments import (
    ObjectPlace,
    VersionOption,
    open_bucket_to_write,
    parse_object_place,
)
from lakebed.cli.store_access import open_to_read, quiet
from lakebed.cli.values import moment_ms_text

if TYPE_CHECKING:
    from lakebed.api.read_surface import StoredObject
    from lakebed.cli.input_lines import Read

STREAM = "-"
_MIB = 1 << 20
_TEMPORARY_NAME = ".lakebed-get"


def put(
    context: typer.Context,
    place: ObjectPlace,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to store, or - for standard input.")
    ],
    content_type: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="The content type. Default: guessed from the file name or the key."
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Metadata of the object; may be repeated."),
    ] = None,
    if_none_match: Annotated[
        bool,
        typer.Option("--if-none-match", help="Store the object only if the key does not exist."),
    ] = False,
    if_match: Annotated[
        str | None,
        typer.Option(
            metavar="ETAG", help="Store the object only if the current object has this ETag."
        ),
    ] = None,
) -> None:
    """Store a file as an object, and wait until the object is durable.

    \b
    Examples:
      Store a file:
        lakebed s3 put photos/2025/city.jpg city.jpg
      Store standard input, with metadata:
        tar c data | lakebed s3 put backups/data.tar - --metadata host=ada
    """
    from lakebed.cli.s3_content import content_of
    from lakebed.seglake.body import READ_BYTES

    run = invocation(context)
    where = parse_object_place(place)
    names = (file, where.key)
    content = content_of(names, content_type=content_type, metadata=metadata or ())
    if file != STREAM:
        _check_source(file)
    with (
        open_bucket_to_write(run, where.bucket) as store,
        Progress("put") as progress,
        HeldInterrupts() as interrupts,
        _opened(file, interrupts) as (read, size),
    ):

        def pieces() -> Iterator[bytes]:
            done = 0
            while piece := read(READ_BYTES):
                yield piece
                done += len(piece)
                _show(progress, done, size)
                interrupts.raise_kept()

        info = store.open_bucket(where.bucket).put(
            where.key,
            pieces(),
            content=content,
            if_match=if_match,
            if_none_match="*" if if_none_match else None,
        )
    line = f"{where}: stored {info.size} bytes, version {info.shown_version_id}"
    run.output.show(Item(OBJECT, info), Text(line))


def get(
    context: typer.Context,
    place: ObjectPlace,
    file: Annotated[
        str,
        typer.Argument(metavar="[FILE]", help="The file to write. Default: - (standard output)."),
    ] = STREAM,
    version_id: VersionOption = None,
    byte_range: Annotated[
        str | None,
        typer.Option(
            "--range",
            metavar="A-B",
            help="Get only the bytes A to B, both included, counted from 0. A- is from A to the "
            "end; -N is the last N bytes.",
        ),
    ] = None,
) -> None:
    """Get an object, or with --range a part of it, and verify every byte.

    FILE is replaced only when all requested bytes were received: if the object is damaged (exit
    code 65) or the command is interrupted, the old file stays. If the object is written to standard
    output, the bytes before the damage are written.

    \b
    Examples:
      Get an object as a file:
        lakebed s3 get photos/2025/city.jpg city.jpg
      Get its first KiB:
        lakebed s3 get photos/2025/city.jpg --range 0-1023 | file -
    """
    from lakebed.base.errors import InputError
    from lakebed.cli.s3_content import parse_range

    run = invocation(context)
    where = parse_object_place(place)
    wanted = None if byte_range is None else parse_range(byte_range)
    if file == STREAM and run.output.as_json:
        raise InputError(
            "--json needs a FILE: without it, the object itself is written to standard output"
        )
    target = None if file == STREAM else _target(file)
    with quiet("lakebed.seglake"), open_to_read(run) as store, Progress("get") as progress:
        bucket = store.open_bucket(where.bucket)
        reader = bucket.get(where.key, version_id=version_id, byte_range=wanted)
        pieces = _counted(reader, progress)
        if target is None:
            for piece in pieces:
                run.output.write(piece)
            return
        _write(target, pieces)
    run.output.show(
        Item(OBJECT, reader.info),
        Value("start", reader.start),
        Value("end", reader.end),
        Value("file", file),
        Text(f"{where}: {len(reader)} bytes written to {file}"),
    )


# The object's bytes.


def _check_source(path: str) -> None:
    """Raises an error unless the path is that of a regular file.

    Called before the store is opened, so that a wrong name fails early.
    """
    from lakebed.base.errors import InputError, NotFound

    if not os.path.exists(path):
        raise NotFound(f"{path}: no such file or folder")
    if not os.path.isfile(path):
        raise InputError(
            f"{path}: not a regular file; to store a pipe, redirect it to standard input and give -"
        )


@contextmanager
def _opened(path: str, interrupts: HeldInterrupts) -> Iterator[tuple[Read, int | None]]:
    """Opens the source. Yields a function that reads it, and its size in bytes; None instead of the
    size for standard input."""
    from lakebed.cli.input_lines import reads_of, standard_input
    from lakebed.kernels.disk import real_disk

    if path == STREAM:
        yield standard_input(interrupts), None
        return
    with real_disk().open(path) as source:
        yield reads_of(source), source.size()


def _counted(reader: StoredObject, progress: Progress) -> Iterator[bytes]:
    done = 0
    for piece in reader:
        yield bytes(piece)
        done += len(piece)
        _show(progress, done, len(reader))


def _show(progress: Progress, done: int, size: int | None) -> None:
    if size is None:
        progress.count(done // _MIB, "MiB")
    else:
        progress.update(done // _MIB, max(done, size) // _MIB)


# The file.


def _target(path: str) -> str:
    """Returns the path of the file to write, with symbolic links resolved.

    Raises an error if the path is not that of a regular file or of a new file in a folder.
    """
    from lakebed.base.errors import BadName, InputError, NotFound

    if "\0" in path:
        raise BadName(f"{path}: not a valid file name")
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise InputError(f"{path}: is a folder: give the name of a file")
    if os.path.exists(target) and not os.path.isfile(target):
        raise InputError(
            f"{path}: not a regular file; omit FILE and redirect standard output to it"
        )
    if not os.path.isdir(os.path.dirname(target)):
        raise NotFound(f"{path}: its folder does not exist")
    return target


def _write(target: str, pieces: Iterator[bytes]) -> None:
    """Writes the file atomically and durably: under a temporary name, which is then renamed."""
    from lakebed.base.errors import NotFound
    from lakebed.kernels.disk import real_disk

    disk = real_disk()
    folder = os.path.dirname(target)
    temporary = disk.temporary_name(os.path.join(folder, _TEMPORARY_NAME))
    try:
        with disk.create(temporary) as file:
            end = 0
            for piece in pieces:
                file.pwrite(end, piece)
                end += len(piece)
            file.sync()
        disk.rename(temporary, target)
    except BaseException:
        with suppress(NotFound):
            disk.unlink(temporary)
        raise
    disk.sync_folder(folder)


def _of_content(key: str) -> Column:
    return Column(key, lambda info: getattr(info.content, key))


OBJECT = (
    Column("bucket"),
    Column("key"),
    Column("version_id", "shown_version_id"),
    Column("is_latest"),
    Column("state"),
    Column("size"),
    Column("etag"),
    Column("modified", "modified_ms", json=moment_ms_text),
    Column("modified_ms"),
    _of_content("content_type"),
    _of_content("cache_control"),
    _of_content("content_disposition"),
    _of_content("content_encoding"),
    _of_content("content_language"),
    _of_content("expires"),
    _of_content("metadata"),
    Column("checksums", json=lambda sums: {each.algorithm.value: each.value for each in sums}),
    Column("part_sizes"),
)
"""The JSON members of an object."""
