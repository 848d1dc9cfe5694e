"""Reads the staged batches of a batch commit: from memory, files, or objects of the store.

`lakebed.store.batch_commit` describes batch commits.

    StagedFile("/stage/part-00007.batches")
    StagedObject("stage", "query 7/41/0")

A staged batch is one Kafka record batch (version 2, any compression), or several record batches one
after another. Each record batch is read once, in order, and checked completely: its framing,
checksum, counts, every length in it, and the topic's limits. A file or an object is not loaded
whole: only one record batch and one piece of an object are in memory at a time.
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

# The path itself is wrong: not a regular file, not readable, or a loop of symbolic links.
_CALLERS_CODES = (None, errno.EACCES, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)

ReadObject = Callable[[str, str], Iterable[Buffer]]
"""Returns the pieces of an object, by its bucket and its key."""


class StagedFile(NamedTuple):
    """A staged batch in a file, which the process that has the store open must be able to read."""

    path: str


class StagedObject(NamedTuple):
    """A staged batch in an object of the store; its newest version is read."""

    bucket: str
    key: str


Staged = Buffer | StagedFile | StagedObject


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """The result of a batch commit in one partition.

    The commit appended `count` messages, the first of them at `base_offset`. If the commit was
    interrupted, other messages can be between them; after many interruptions `base_offset` is
    unknown (None). If the version is older than the application's last one, both are unknown:
    `base_offset` is None and `count` is 0.
    """

    partition: int
    is_new: bool  # False if an earlier call had committed this version or a later one
    base_offset: int | None
    count: int


class StagedSource(Protocol):
    """The bytes of a staged batch."""

    def take(self, length: int) -> bytes:
        """Returns the next `length` bytes of the staged batch; fewer only at its end."""


def opened(
    staged: Staged, *, disk: Disk, read_object: ReadObject | None, place: str
) -> AbstractContextManager[StagedSource]:
    """Opens a staged batch for reading.

    Raises `InputError` if `staged` is of the wrong type, is a file that cannot be read, or is an
    object and `read_object` is None. Raises `NotFound` if the file or object does not exist. Error
    messages begin with `place`, except those of the object store and of a failing disk.
    """
    if isinstance(staged, StagedFile):
        return _opened_file(disk, staged.path, place)
    if isinstance(staged, StagedObject):
        if read_object is None:
            raise InputError(f"{place}: cannot read a StagedObject: there is no object store")
        return contextlib.nullcontext(_Object(read_object(staged.bucket, staged.key)))
    try:
        return contextlib.nullcontext(_Memory(memoryview(staged).cast("B")))
    except TypeError:
        raise InputError(
            f"{place}: must be bytes, a StagedFile or a StagedObject, not {type(staged).__name__}"
        ) from None


def record_batches(source: StagedSource, *, config: TopicConfig, place: str) -> Iterator[bytes]:
    """Checks and yields the record batches of a staged batch.

    Raises `InputError` if a record batch is invalid, and `TooLarge` if it is above the topic's
    limits (`config`); the messages of these errors begin with `place` and the byte offset of the
    record batch. Raises `InputError` also if the staged batch is empty.
    """
    start = 0
    while head := source.take(RECORD_BATCH.size):
        with _naming_place(f"{place}, byte {start}"):
            size = size_of(head)
            _check_limit("a record batch", record_bytes(0, size), config.request_bytes_max)
            data = head + source.take(size - len(head))
            check(data)
            batch = rewrite_first_offset(data, 0)
            _check_messages(decode(batch), config.message_bytes_max)
        yield batch
        start += size
    if not start:
        raise InputError(f"{place}: the staged batch is empty")


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
        self._unread = memoryview(b"")  # of the last piece

    def take(self, length: int) -> bytes:
        taken = bytearray()
        while len(taken) < length:
            if not self._unread:
                self._unread = memoryview(next(self._pieces, b""))
                if not self._unread:
                    break
            missing = length - len(taken)
            taken += self._unread[:missing]
            self._unread = self._unread[missing:]
        return bytes(taken)


@contextlib.contextmanager
def _opened_file(disk: Disk, path: PathLike, place: str) -> Iterator[StagedSource]:
    """Opens a staged file, following links.

    Only regular files are opened, so that the call never blocks on a pipe or a device.
    """
    if disk.is_folder(path):
        raise InputError(f"{place}: {path} is a folder, not a file")
    try:
        file = disk.open(path)
    except NotFound as error:
        raise NotFound(f"{place}: {error}") from None
    except DiskError as error:
        if error.code in _CALLERS_CODES:
            raise InputError(f"{place}: {error}") from None
        raise
    with file:
        yield _File(file)


@contextlib.contextmanager
def _naming_place(place: str) -> Iterator[None]:
    """Makes the messages of errors about a record batch begin with `place`.

    A `DataError` becomes an `InputError`; a `TooLarge` keeps its type.
    """
    try:
        yield
    except DataError as error:
        raise InputError(f"{place}: not a valid record batch: {error}") from error
    except TooLarge as error:
        excess = "above the maximum of " if error.size is None else f"{error.size}, "
        what = str(error).partition(f" is {excess}")[0]
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
