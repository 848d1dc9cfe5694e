"""Writes the records of a group commit into the chunks of a manifest log, and seals chunks.

Invariants:

- a file is named `*.mlog.tmp` until its first record is committed, and `*.mlog` afterwards;
- records and the chunk's header that counts them are written together and then synced once. A crash
  may leave a new header without its records: the chunk's checksum then does not match, and the
  committed records are found by checking the records one by one;
- a chunk is sealed by a separate write and sync after all its records are durable. So a sealed
  chunk whose checksum does not match is damaged. The next chunk is created after that sync;
- items that could not be written, for example because the disk is full, stay in the backlog, and
  the next commit writes them first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from lakebed.aof.manifest.chunk import encode_header
from lakebed.aof.manifest.format import FLAG_SEALED, RECORDS_START
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.records import Position
from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk, File, make_folders
from lakebed.kernels import crc64nvme


class Write(NamedTuple):
    """An item of a commit: encoded records to write, from a position."""

    position: Position
    ordinal: int  # the number of records before the first
    data: bytes


class Seal(NamedTuple):
    """An item of a commit: seal the chunk, so that no more records are added to it."""

    chunk_index: int


class Nothing(NamedTuple):
    """An empty item of a commit, submitted to make the sink write its backlog."""


Item = Write | Seal | Nothing


@dataclass
class OpenChunk:
    """The chunk to which records are added."""

    index: int
    base_record: int  # the number of records in earlier chunks
    end: int = RECORDS_START  # the end of the committed bytes
    crc64: int = 0  # over [RECORDS_START, end)
    is_named: bool = False  # whether its file has its final name

    def header(self, *, flags: int = 0) -> bytes:
        return encode_header(
            chunk_index=self.index,
            base_record=self.base_record,
            end=self.end,
            chunk_crc64=self.crc64,
            flags=flags,
        )


class ChunkSink:
    """Writes and syncs the items that one manifest log's commit barrier passes to it.

    The barrier calls it from one thread at a time.
    """

    def __init__(
        self,
        disk: Disk,
        paths: ManifestPaths,
        *,
        chunk_bytes: int,
        growth_bytes: int,
        tail: OpenChunk | None,
        on_committed: Callable[[int], None],
        on_sealed: Callable[[], None],
        on_failure: Callable[[LakebedError], None],
    ) -> None:
        """`tail` is the unsealed chunk in which writing continues; None: it begins a new chunk.

        `on_committed` is called with the number of bytes that have just become durable.
        """
        self._disk = disk
        self._paths = paths
        self._chunk_bytes = chunk_bytes
        self._growth_bytes = growth_bytes
        self._chunk = tail
        self._on_committed = on_committed
        self._on_sealed = on_sealed
        self._on_failure = on_failure
        self._file: File | None = None  # the chunk's file
        self._size = 0  # the size of that file
        self._backlog: list[Item] = []

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    def commit(self, items: Sequence[Item]) -> Sequence[None]:
        self._backlog.extend(items)
        try:
            while self._backlog:
                del self._backlog[: self._commit_some()]
        except LakebedError as error:
            self._on_failure(error)
            raise
        return [None] * len(items)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _commit_some(self) -> int:
        """Commits the first item of the backlog, and all writes to the same chunk that follow it.

        Returns the number of items that it committed.
        """
        first = self._backlog[0]
        match first:
            case Write():
                index = first.position.chunk_index
                run = list(
                    takewhile(
                        lambda item: isinstance(item, Write) and item.position.chunk_index == index,
                        self._backlog,
                    )
                )
                self._write([item for item in run if isinstance(item, Write)])
                return len(run)
            case Seal():
                self._seal(first.chunk_index)
            case Nothing():
                pass
        return 1

    def _write(self, run: Sequence[Write]) -> None:
        chunk, file = self._opened(run[0])
        assert chunk.end == run[0].position.offset, "a record is not where the last one ended"
        data = b"".join(item.data for item in run)
        before = (chunk.end, chunk.crc64)
        self._grow(file, chunk.end + len(data))
        file.pwrite(chunk.end, data)
        chunk.end, chunk.crc64 = chunk.end + len(data), crc64nvme(data, chunk.crc64)
        try:
            file.pwrite(0, chunk.header())
            file.sync()
            if not chunk.is_named:
                unnamed = self._paths.unnamed_chunk(chunk.index)
                if self._disk.exists(unnamed):  # an earlier attempt may have renamed it
                    self._disk.rename(unnamed, self._paths.chunk(chunk.index))
                self._disk.sync_folder(self._paths.folder)
                chunk.is_named = True
        except BaseException:
            chunk.end, chunk.crc64 = before  # the records are not acknowledged
            raise
        self._on_committed(len(data))

    def _seal(self, chunk_index: int) -> None:
        chunk = self._chunk
        assert chunk is not None, "no chunk is open"
        assert chunk.index == chunk_index, "another chunk is open"
        file = self._file_of(chunk)
        file.pwrite(0, chunk.header(flags=FLAG_SEALED))
        file.sync()
        self.close()
        self._chunk = None
        self._on_sealed()

    def _opened(self, first: Write) -> tuple[OpenChunk, File]:
        """Returns the chunk of that record and its file; starts a new chunk if none is open."""
        if self._chunk is None:
            self._chunk = OpenChunk(first.position.chunk_index, base_record=first.ordinal)
        assert self._chunk.index == first.position.chunk_index, "the chunk before is not sealed"
        return self._chunk, self._file_of(self._chunk)

    def _file_of(self, chunk: OpenChunk) -> File:
        if self._file is None:
            if chunk.is_named:
                self._file = self._disk.open(self._paths.chunk(chunk.index), writable=True)
                self._size = self._file.size()
            else:
                if not self._disk.is_folder(self._paths.folder):
                    make_folders(self._disk, self._paths.folder)
                path = self._paths.unnamed_chunk(chunk.index)
                if self._disk.exists(
                    path
                ):  # an earlier attempt failed, for example for lack of space
                    self._disk.unlink(path)
                self._file = self._disk.create(path, size=self._chunk_bytes)
                self._size = self._chunk_bytes
        return self._file

    def _grow(self, file: File, end: int) -> None:
        """Makes the file at least `end` bytes long.

        This is necessary if records that are appended together are larger than an empty chunk, or
        if `chunk_bytes` is now larger than when the chunk was created.
        """
        if end > self._size:
            steps = -(-(end - self._size) // self._growth_bytes)
            size = self._size + steps * self._growth_bytes
            file.truncate(size)
            self._size = size
