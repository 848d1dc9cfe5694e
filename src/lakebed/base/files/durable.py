"""Durable file operations that all engines use.

A file is replaced atomically: after a crash at any point, it has either the old contents or the new
ones. A crash may leave a temporary file, whose name ends in `.tmp`. A temporary file is never read,
and the owner of the folder removes it with `remove_temporaries`.
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
    """Replaces the contents of `path` with `data`, or creates the file. Durable when it returns.

    If it raises an error, the file has the old contents or the new ones, never a mix. If it has the
    new ones, a power cut may bring back the old ones.
    """
    build_atomically(disk, path, lambda file: file.write_and_sync(0, [data]))


def build_atomically(disk: Disk, path: PathLike, build: Callable[[File], None]) -> None:
    """Replaces a file like `replace_atomically`, with contents that may be too large for memory.

    `build` gets a new, empty file in the same folder, and must write the contents and sync them. If
    `build` raises an error, `path` is not changed.
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
    """Returns the contents of a small file. Raises `Corrupt` if it is larger than `size_max`."""
    with disk.open(path) as file:
        size = file.size()
        if size > size_max:
            raise Corrupt(
                "the file is too long", path=path, expected=f"at most {size_max} bytes", found=size
            )
        return file.pread(0, size)


def make_folders(disk: Disk, path: PathLike) -> None:
    """Creates a folder and its missing parent folders, durably. The folder may already exist.

    Every parent folder is synced, even if it existed: its creator may have crashed before syncing.
    Parent folders that this process may not read are not synced.
    """
    path = os.fspath(path)
    parent = os.path.dirname(path) or "."
    if parent not in (path, "."):
        make_folders(disk, parent)
    if not disk.is_folder(path):
        try:
            disk.make_folder(path)
        except AlreadyExists:
            if not disk.is_folder(path):  # a file has that name
                raise
    try:
        disk.sync_folder(parent)
    except SyncFailed:
        raise
    except DiskError as error:
        if error.code != errno.EACCES:
            raise


def remove_temporaries(disk: Disk, folder: PathLike) -> list[str]:
    """Removes the files whose names end in `.tmp`, which interrupted replacements left, from the
    folder. Returns their names.
    """
    removed = [name for name in disk.names(folder) if name.endswith(TEMPORARY_SUFFIX)]
    for name in removed:
        with contextlib.suppress(NotFound):
            disk.unlink(os.path.join(os.fspath(folder), name))
    return removed
