"""Durable file operations that all engines use.

All of them are crash-safe: whenever a crash happens, the old state or the new one is found
afterwards. A temporary file left by a crash ends in `.tmp`, is never read, and is removed by
`remove_temporaries` when its folder's owner opens it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

from lakebed.base.errors import (
    AlreadyExists,
    Corrupt,
    DiskError,
    LakebedError,
    NotFound,
    SyncFailed,
)
from lakebed.base.files.protocol import TEMPORARY_SUFFIX, Disk, File, PathLike, ReadableDisk
from lakebed.base.layout import Buffer


def replace_atomically(disk: Disk, path: PathLike, data: Buffer) -> None:
    """Replaces the contents of `path` with `data`. Durable when it returns.

    If it raises, the file holds the old bytes or the new ones, never a mix. After `SyncFailed` it
    is not known which of the two a power cut would leave.
    """
    build_atomically(disk, path, lambda file: file.write_and_sync(0, [data]))


def build_atomically(disk: Disk, path: PathLike, build: Callable[[File], None]) -> None:
    """As `replace_atomically`, for what is too large to hold: `build` writes it and syncs it.

    `build` gets a new, empty file in the same folder and must make all of its bytes durable.
    Whatever it raises, `path` stays as it was.
    """
    temporary = disk.temporary_name(path)
    try:
        with disk.create(temporary) as file:
            build(file)
        disk.rename(temporary, path)
    except LakebedError:
        with contextlib.suppress(LakebedError):
            disk.unlink(temporary)
        raise
    disk.sync_folder(os.path.dirname(os.fspath(path)) or ".")


def read_file(disk: ReadableDisk, path: PathLike, *, size_max: int) -> bytes:
    """All of a small file."""
    with disk.open(path) as file:
        size = file.size()
        if size > size_max:
            raise Corrupt("too long", path=path, expected=f"at most {size_max} bytes", found=size)
        return file.pread(0, size)


def make_folders(disk: Disk, path: PathLike) -> None:
    """Creates a folder and all folders above it, durably. Existing folders are fine.

    Every folder above is synced, even if it existed: its creator may have crashed before that sync.
    Folders that this process may not read belong to others and are left alone.
    """
    path = os.fspath(path)
    parent = os.path.dirname(path) or "."
    if parent not in (path, "."):
        make_folders(disk, parent)
    if not disk.is_folder(path):
        try:
            disk.make_folder(path)
        except AlreadyExists:
            if not disk.is_folder(path):  # but a file
                raise
    try:
        disk.sync_folder(parent)
    except SyncFailed:
        raise
    except DiskError as error:
        if error.code != errno.EACCES:
            raise


def remove_temporaries(disk: Disk, folder: PathLike) -> list[str]:
    """Removes what interrupted replacements left, and returns the names removed."""
    removed = [name for name in disk.names(folder) if name.endswith(TEMPORARY_SUFFIX)]
    for name in removed:
        with contextlib.suppress(NotFound):
            disk.unlink(os.path.join(os.fspath(folder), name))
    return removed
