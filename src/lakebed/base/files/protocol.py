"""What an engine may ask of a disk.

A file's bytes and length are durable only after `File.sync`, and a folder's entries only after
`Disk.sync_folder`. A new file that was synced is still lost in a power cut if its folder was not.

Every method raises the errors of `lakebed.base.errors`, never `OSError`: `NotFound`,
`AlreadyExists`, `NoSpace`, `WriteFailed`, and `SyncFailed` for a failed sync. After a failed sync
the handle is poisoned: it can only be read and closed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from lakebed.base.layout import Buffer

PathLike = str | os.PathLike[str]


class ReadableFile(Protocol):
    """An open file for reading. Every call gives a position; there is no cursor."""

    def size(self) -> int: ...

    def pread(self, offset: int, length: int) -> bytes:
        """Returns the bytes at `offset`. Fewer than requested are returned only at the end of
        the file.
        """

    def close(self) -> None:
        """Idempotent. Does not sync."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class File(ReadableFile, Protocol):
    """An open file. Thread-safe for reads; one writer at a time."""

    @property
    def path(self) -> str: ...

    def pwrite(self, offset: int, data: Buffer) -> None:
        """Writes all of `data` or raises. Not durable until a sync."""

    def write_and_sync(self, offset: int, chunks: Sequence[Buffer]) -> None:
        """Writes the chunks one after another, then syncs. Durable when it returns."""

    def sync(self) -> None:
        """Makes all bytes written so far, and the length, durable (`fdatasync`)."""

    def zero_fill(self, offset: int, length: int) -> None:
        """Writes zeros, so that later writes there change no metadata. Not durable until a sync."""

    def truncate(self, size: int) -> None:
        """Shortens the file, or lengthens it with zeros. Never done to a sealed file."""

    def declare_sealed(self) -> None:
        """States that the bytes never change again. A simulated disk checks this."""

    def descriptor(self) -> int | None:
        """The operating system's descriptor, for sending bytes until `close`, or None."""


class Lock(Protocol):
    """A held lock. Released only by `release` or by the end of the process."""

    def release(self) -> None:
        """Idempotent."""


class ReadableDisk(Protocol):
    """The part of a `Disk` that readers need. Its files may be remote."""

    def open(self, path: PathLike) -> ReadableFile: ...

    def exists(self, path: PathLike) -> bool: ...

    def is_folder(self, path: PathLike) -> bool: ...

    def names(self, folder: PathLike) -> list[str]:
        """Returns the folder's entries, sorted."""


class Disk(ReadableDisk, Protocol):
    def create(self, path: PathLike, *, size: int = 0) -> File:
        """Creates a file of that length, which reads as zeros, open for writing and accessible
        to its owner only.
        """

    def open(self, path: PathLike, *, writable: bool = False) -> File: ...

    def is_symlink(self, path: PathLike) -> bool:
        """Returns whether the entry itself is a symbolic link."""

    def make_folder(self, path: PathLike) -> None:
        """Creates one folder, accessible to its owner only. Raises `AlreadyExists`. See
        `make_folders`.
        """

    def remove_folder(self, path: PathLike) -> None:
        """Removes an empty folder."""

    def rename(self, source: PathLike, target: PathLike) -> None:
        """Renames atomically, replacing the target."""

    def unlink(self, path: PathLike) -> None: ...

    def sync_folder(self, folder: PathLike) -> None:
        """Makes the folder's entries durable: files created, renamed and removed in it."""

    def sync_tree(self, folder: PathLike) -> None:
        """Makes all files and entries below the folder durable. Meant for many small files."""

    def lock(self, path: PathLike) -> Lock:
        """Takes the file's exclusive lock, creating the file. Raises `Locked` at once if it is
        held.

        The kernel holds the lock: it ends with its process, and no forked child keeps it.
        """

    def free_bytes(self, folder: PathLike) -> int:
        """Returns how much this process may still write on the folder's file system."""

    def boot_id(self) -> bytes:
        """Returns 16 bytes that change when the machine, and so its page cache, restarts."""

    def temporary_name(self, path: PathLike) -> str:
        """Returns a unique name in the folder of `path` that ends in `TEMPORARY_SUFFIX`."""


TEMPORARY_SUFFIX = ".tmp"
