"""What the engines do with a disk again and again, once.

All of it is crash-safe: whatever the moment of a crash, what is found afterwards is the old
state or the new one. A temporary file left behind by a crash ends in `.tmp`, is never read, and
is removed by `remove_temporaries` when its folder's owner opens it.
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
    """Make `path` hold `data`: durable when it returns; old or new, never a mix, if it does not.

    If it raises, the file holds the old bytes or the new ones; a `SyncFailed` leaves it open
    which of the two a power cut would leave.
    """
    build_atomically(disk, path, lambda file: file.write_and_sync(0, [data]))


def build_atomically(disk: Disk, path: PathLike, build: Callable[[File], None]) -> None:
    """As `replace_atomically`, for what is too large to hold: `build` writes it and syncs it.

    `build` is given a new, empty file beside `path`, and leaves it with all of its bytes durable.
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
    """Create a folder with all above it, durably. Fine if it is there, or comes meanwhile.

    Every folder above is synced, also where nothing was missing: whoever made them may have
    crashed before that sync. Those this process may not read were made by somebody else.
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
    """Remove what interrupted replacements left behind; the names removed."""
    removed = [name for name in disk.names(folder) if name.endswith(TEMPORARY_SUFFIX)]
    for name in removed:
        with contextlib.suppress(NotFound):
            disk.unlink(os.path.join(os.fspath(folder), name))
    return removed
