"""What an engine may ask of a disk.

Three things are durable only after their own sync: a file's bytes and length (`File.sync`), and
a folder's entries (`Disk.sync_folder`). A new file that was synced is still lost with the power
if its folder was not.

Every method raises the errors of `lakebed.base.errors`, never `OSError`: `NotFound`,
`AlreadyExists`, `NoSpace`, `WriteFailed`, and `SyncFailed` for a failed sync, after which the
handle is poisoned: it can be read and closed, nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from lakebed.base.layout import Buffer

PathLike = str | os.PathLike[str]


class ReadableFile(Protocol):
    """What a reader needs of an open file. Positions are always given: there is no cursor."""

    def size(self) -> int: ...

    def pread(self, offset: int, length: int) -> bytes:
        """The bytes at `offset`: fewer than asked for only at the end of the file."""

    def close(self) -> None:
        """Idempotent. Syncs nothing."""

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
        """All of `data`, or an error; not durable yet."""

    def write_and_sync(self, offset: int, chunks: Sequence[Buffer]) -> None:
        """All chunks, one behind the other, then a sync: durable when it returns."""

    def sync(self) -> None:
        """Make every byte written so far, and the length, durable (`fdatasync`)."""

    def zero_fill(self, offset: int, length: int) -> None:
        """Write zeros, so that later writes there change no metadata; not durable yet."""

    def truncate(self, size: int) -> None:
        """Cut or lengthen (with zeros). Never done to a sealed file."""

    def declare_sealed(self) -> None:
        """Its readers rely on that its bytes never change again. A simulated disk checks that."""

    def descriptor(self) -> int | None:
        """The operating system's, to send bytes from until `close`; None if there is none."""


class Lock(Protocol):
    """A held lock: let go by `release`, by the end of the process, and by nothing else."""

    def release(self) -> None:
        """Idempotent."""


class ReadableDisk(Protocol):
    """What a reader needs of a `Disk`: its files may be elsewhere."""

    def open(self, path: PathLike) -> ReadableFile: ...

    def exists(self, path: PathLike) -> bool: ...

    def is_folder(self, path: PathLike) -> bool: ...

    def names(self, folder: PathLike) -> list[str]:
        """The folder's entries, sorted."""


class Disk(ReadableDisk, Protocol):
    """A file system."""

    def create(self, path: PathLike, *, size: int = 0) -> File:
        """A new file of that length, reading as zeros, open for writing: the owner's alone."""

    def open(self, path: PathLike, *, writable: bool = False) -> File: ...

    def is_symlink(self, path: PathLike) -> bool:
        """Whether the entry itself is a symbolic link, wherever that leads."""

    def make_folder(self, path: PathLike) -> None:
        """One level, the owner's alone; `AlreadyExists` if it is there. See `make_folders`."""

    def remove_folder(self, path: PathLike) -> None:
        """An empty one."""

    def rename(self, source: PathLike, target: PathLike) -> None:
        """Atomically, replacing the target."""

    def unlink(self, path: PathLike) -> None: ...

    def sync_folder(self, folder: PathLike) -> None:
        """Make the folder's entries durable: files created, renamed and removed in it."""

    def sync_tree(self, folder: PathLike) -> None:
        """Make everything below the folder durable: files and entries. For many small files."""

    def lock(self, path: PathLike) -> Lock:
        """Take the file's exclusive lock, creating it; `Locked` at once if it is held.

        The lock is the kernel's: it ends with its process, and no forked child keeps it.
        """

    def free_bytes(self, folder: PathLike) -> int:
        """What this process may still write on the folder's file system."""

    def boot_id(self) -> bytes:
        """16 bytes that change when the machine, and so the page cache, starts anew."""

    def temporary_name(self, path: PathLike) -> str:
        """A name beside `path` that nobody else was given; it ends in `TEMPORARY_SUFFIX`."""


TEMPORARY_SUFFIX = ".tmp"
