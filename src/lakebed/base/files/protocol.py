"""The disk operations that an engine may use, and what they guarantee.

A file's bytes and length are durable only after `File.sync`, and a folder's entries only after
`Disk.sync_folder`. A new file that was synced is still lost in a power cut if its folder was not
synced.

The methods raise the errors of `lakebed.base.errors`, never `OSError`: for example `NotFound`,
`AlreadyExists`, `NoSpace`, `WriteFailed`, `DiskError` for a failed read, and `SyncFailed` for a
failed sync. After a failed sync the handle is poisoned: it can only be read and closed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from lakebed.base.layout import Buffer

PathLike = str | os.PathLike[str]


class ReadableFile(Protocol):
    """A file that is open for reading. Every read states its offset; there is no file position."""

    def size(self) -> int: ...

    def pread(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes at `offset`, or fewer if the file ends before."""

    def close(self) -> None:
        """Closes the file without a sync. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class File(ReadableFile, Protocol):
    """An open file. Any number of threads may read; only one may write at a time."""

    @property
    def path(self) -> str: ...

    def pwrite(self, offset: int, data: Buffer) -> None:
        """Writes all of `data` at `offset`, or raises. Not durable before a sync."""

    def write_and_sync(self, offset: int, chunks: Sequence[Buffer]) -> None:
        """Writes the chunks one after another from `offset` on, then syncs the file."""

    def sync(self) -> None:
        """Makes all bytes written so far, and the length of the file, durable (`fdatasync`)."""

    def zero_fill(self, offset: int, length: int) -> None:
        """Writes `length` zeros at `offset`, so that later writes to this range change no metadata
        of the file. Not durable before a sync.
        """

    def truncate(self, size: int) -> None:
        """Shortens the file, or extends it with zeros. Must not be called for a sealed file."""

    def declare_sealed(self) -> None:
        """Declares that the file will not be changed again. The simulated disk enforces this."""

    def descriptor(self) -> int | None:
        """Returns the file descriptor, for example for `sendfile`, or None if there is none. The
        descriptor is valid until `close`.
        """


class Lock(Protocol):
    """A lock that is held until `release` or the end of the process."""

    def release(self) -> None:
        """Releases the lock. Idempotent."""


class ReadableDisk(Protocol):
    """The operations of a `Disk` that readers need. An implementation may have remote files."""

    def open(self, path: PathLike) -> ReadableFile: ...

    def exists(self, path: PathLike) -> bool: ...

    def is_folder(self, path: PathLike) -> bool: ...

    def names(self, folder: PathLike) -> list[str]:
        """Returns the names of the entries of the folder, sorted."""


class Disk(ReadableDisk, Protocol):
    def create(self, path: PathLike, *, size: int = 0) -> File:
        """Creates a file of `size` bytes, all zero, and opens it for reading and writing. Its
        permissions allow access only to the user that runs this process. Raises `AlreadyExists` if
        the path exists. If it raises an error, it leaves no new file.
        """

    def open(self, path: PathLike, *, writable: bool = False) -> File: ...

    def is_symlink(self, path: PathLike) -> bool:
        """Returns whether `path` is a symbolic link."""

    def make_folder(self, path: PathLike) -> None:
        """Creates a folder that only the user of this process may access. Raises `AlreadyExists`
        if it exists.

        `durable.make_folders` also creates missing parent folders, and syncs them.
        """

    def remove_folder(self, path: PathLike) -> None:
        """Removes an empty folder."""

    def rename(self, source: PathLike, target: PathLike) -> None:
        """Renames a file atomically, and replaces `target` if that file exists."""

    def unlink(self, path: PathLike) -> None: ...

    def sync_folder(self, folder: PathLike) -> None:
        """Makes the creation, renaming and removal of files in the folder durable."""

    def sync_tree(self, folder: PathLike) -> None:
        """Makes all files and folders below the folder durable. Faster than single syncs for many
        small files.
        """

    def lock(self, path: PathLike) -> Lock:
        """Takes an exclusive lock on a file, and creates the file if needed. Raises `Locked`
        without waiting if the lock is held.

        The kernel releases the lock when the process ends. A forked child does not keep it.
        """

    def free_bytes(self, folder: PathLike) -> int:
        """Returns the free bytes of the folder's file system, without those reserved for root."""

    def boot_id(self) -> bytes:
        """Returns 16 bytes that change at each boot of the machine, when the page cache is lost."""

    def temporary_name(self, path: PathLike) -> str:
        """Returns an unused path in the folder of `path` that ends in `TEMPORARY_SUFFIX`."""


TEMPORARY_SUFFIX = ".tmp"
