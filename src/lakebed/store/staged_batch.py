"""Batches that wait to be committed: in memory, in a file, or in an object of the store.

    StagedFile("/stage/part-00007.batches")
    StagedObject("stage", "query 7/41/0")

A staged batch is one Kafka record batch (version 2, any compression) or several, one behind the
other. They are read once, in their order, one record batch in memory at a time, and each is checked
as a whole: its framing, its checksum, its counts, every length in it, and the topic's limits.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lakebed.base.errors import DataError, DiskError, InputError, NotFound, TooLarge
from lakebed.base.files import Disk, File, PathLike
from lakebed.base.layout import Buffer
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.decoded_batch import DecodedBatch
from lakebed.keratin.format import record_bytes
from lakebed.keratin.record_batch import check, decode, rewrite_first_offset, size_of
from lakebed.kernels.format import RECORD_BATCH

# The path cannot be opened because of what it is: no plain file, nobody's to read, links in a ring.
_CALLERS_CODES = (None, errno.EACCES, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)

ReadObject = Callable[[str, str], Iterable[Buffer]]
"""The pieces of an object, by its bucket and its key."""


class StagedFile(NamedTuple):
    """A file that the process which has the store open can read."""

    path: str


class StagedObject(NamedTuple):
    """An object of the store, the newest version of it."""

    bucket: str
    key: str


Staged = Buffer | StagedFile | StagedObject


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """What became of one partition's batches.

    `count` messages from `base_offset` on; others may stand among them if it was interrupted. Of a
    version before the application's last neither is known: None and 0.
    """

    partition: int
    is_new: bool  # False: it was committed before
    base_offset: int | None
    count: int


class StagedSource(Protocol):
    """The bytes of a staged batch."""

    def take(self, length: int) -> bytes:
        """The next ones; fewer only at the end."""


def opened(
    staged: Staged, *, disk: Disk, read_object: ReadObject | None, where: str
) -> AbstractContextManager[StagedSource]:
    """`InputError` if it is nothing that can be read; `NotFound` if it is not there."""
    if isinstance(staged, StagedFile):
        return _opened_file(disk, staged.path, where)
    if isinstance(staged, StagedObject):
        if read_object is None:
            raise InputError(f"{where}: there are no objects here")
        return contextlib.nullcontext(_Object(read_object(staged.bucket, staged.key)))
    try:
        return contextlib.nullcontext(_Memory(memoryview(staged).cast("B")))
    except TypeError:
        raise InputError(
            f"{where}: a staged batch is bytes, a file or an object, not {type(staged).__name__}"
        ) from None


def record_batches(source: StagedSource, *, config: TopicConfig, where: str) -> Iterator[bytes]:
    """Its record batches, each of them checked; an error names the byte where one begins."""
    start = 0
    while head := source.take(RECORD_BATCH.size):
        with _naming_place(f"{where}, byte {start}"):
            size = size_of(head)
            _check_limit("a record batch", record_bytes(0, size), config.request_bytes_max)
            data = head + source.take(size - len(head))
            check(data)
            batch = rewrite_first_offset(data, 0)
            _check_messages(decode(batch), config.message_bytes_max)
        yield batch
        start += size
    if not start:
        raise InputError(f"{where}: nothing is staged there")


class _Memory:
    def __init__(self, view: memoryview) -> None:
        self._view = view

    def take(self, length: int) -> bytes:
        taken, self._view = self._view[:length], self._view[length:]
        return bytes(taken)


class _File:
    def __init__(self, file: File) -> None:
        self._file = file
        self._position = 0

    def take(self, length: int) -> bytes:
        data = self._file.pread(self._position, length)
        self._position += len(data)
        return data


class _Object:
    def __init__(self, pieces: Iterable[Buffer]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")  # of the last piece

    def take(self, length: int) -> bytes:
        taken = bytearray()
        while len(taken) < length:
            if not self._rest:
                self._rest = memoryview(next(self._pieces, b""))
                if not self._rest:
                    break
            wanted = length - len(taken)
            taken += self._rest[:wanted]
            self._rest = self._rest[wanted:]
        return bytes(taken)


@contextlib.contextmanager
def _opened_file(disk: Disk, path: PathLike, where: str) -> Iterator[StagedSource]:
    """Links are followed. A pipe or a device is never waited for: the disk opens plain files."""
    if disk.is_folder(path):
        raise InputError(f"{where}: {path} is a folder, not a file")
    try:
        file = disk.open(path)
    except NotFound as error:
        raise NotFound(f"{where}: {error}") from None
    except DiskError as error:
        if error.code in _CALLERS_CODES:
            raise InputError(f"{where}: {error}") from None
        raise
    with file:
        yield _File(file)


@contextlib.contextmanager
def _naming_place(place: str) -> Iterator[None]:
    """What is wrong with a record batch is wrong with the call, and at that place."""
    try:
        yield
    except DataError as error:
        raise InputError(f"{place}: not a record batch: {error}") from error
    except TooLarge as error:
        what = str(error).partition(f" is {error.size}, ")[0]
        raise TooLarge(f"{place}: {what}", size=error.size, limit=error.limit) from None


def _check_messages(decoded: DecodedBatch, bytes_max: int) -> None:
    if len(decoded.buffer) <= bytes_max:
        return
    columns = decoded.columns
    lengths = zip(columns.key_lengths, columns.value_lengths, strict=True)
    _check_limit("a message", max(max(key, 0) + max(value, 0) for key, value in lengths), bytes_max)


def _check_limit(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(f"the size of {what}, in bytes,", size=size, limit=limit)
