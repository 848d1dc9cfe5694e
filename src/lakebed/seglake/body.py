"""Receives the body of an object or part: cuts it into chunks, hashes them and writes them.

A small body is held in memory and written by the commit of its request, so that the bodies of many
requests share one write and one sync. A larger body has a segment to itself while it is received.
Its chunks are written and synced one by one, while another thread computes the digests, which take
longest. A writer holds at most two chunks of a body in memory, whatever the size of the body.

Nothing is acknowledged before the commit. The chunks of an abandoned body stay in their segment;
nothing removes them yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from lakebed.base.errors import Closed, InputError, LakebedError, TooLarge
from lakebed.base.layout import Buffer
from lakebed.base.runner import Computation, Runner
from lakebed.base.units import KIB, MIB
from lakebed.kernels.checksum import blake3
from lakebed.seglake.chunk_buffers import ChunkBuffers
from lakebed.seglake.digests import BodyDigests, Expected
from lakebed.seglake.errors import BadSize
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.model import CHUNK_BYTES, Algorithm, Checksum, Chunk
from lakebed.seglake.segment_pool import SegmentPool
from lakebed.seglake.segment_writer import SegmentWriter

INLINE_BYTES_MAX = 1 * MIB
READ_BYTES = 1 * MIB
_DIGESTED_BYTES = 512 * KIB  # enough to be worth a switch to another thread


class Readable(Protocol):
    def read(self, length: int, /) -> bytes: ...


Source = Buffer | Readable | Iterable[Buffer]
"""The types that a body can be passed as. A file is read from its current position."""


class Body(NamedTuple):
    """A complete body: empty, in memory with its hash, or already durable in segments."""

    size: int
    md5: bytes
    checksums: tuple[Checksum, ...]
    inline: tuple[bytes, bytes] | None = None  # hash and data of a body in memory
    chunks: tuple[Chunk, ...] = ()
    segments: tuple[SegmentRow, ...] = ()  # the segments of the chunks, with their durable sizes


def pieces_of(source: Source) -> Iterator[Buffer]:
    """Yields the bytes of a buffer, file or iterable in pieces of any size.

    Raises `InputError` if a piece is not `bytes`, `bytearray` or `memoryview`.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        yield source
    elif hasattr(source, "read"):
        while piece := source.read(READ_BYTES):
            yield _checked(piece)
    else:
        for piece in source:
            yield _checked(piece)


def small_body(
    data: Buffer, *, algorithms: Iterable[Algorithm], expected: Expected, size_max: int, what: str
) -> Body:
    """Returns a body that is held in memory, from data of at most `INLINE_BYTES_MAX` bytes.

    Raises `BadDigest` if the data does not match `expected`, and `TooLarge` if it is larger than
    `size_max` bytes; 0 means no limit. `what` names the body in the message of `TooLarge`.
    """
    if size_max and len(data) > size_max:
        raise TooLarge(f"{what}: the size in bytes", size=len(data), limit=size_max)
    data = bytes(data)
    digests = BodyDigests.of(data, algorithms)
    digests.check(expected)
    return Body(
        size=len(data),
        md5=digests.md5,
        checksums=digests.checksums(),
        inline=(blake3(data), data) if data else None,
    )


def _checked(piece: object) -> Buffer:
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise InputError(
            "a body must be bytes, a binary file or an iterable of bytes, but it contains "
            f"{type(piece).__name__}"
        )
    return piece


class BodyWriter:
    """Writes one body that arrives in pieces. Not thread-safe.

    The caller must end it with `finish` or, if any call fails, with `give_up`.
    """

    def __init__(
        self,
        segments: SegmentPool,
        buffers: ChunkBuffers,
        *,
        runner: Runner,
        algorithms: Iterable[Algorithm],
        size_max: int,
        what: str,
    ) -> None:
        """`size_max` is the limit above which `write` raises `TooLarge`; 0 means no limit.

        `what` names the body in error messages.
        """
        self._segments = segments
        self._runner = runner
        self._digests = BodyDigests(algorithms)
        self._size_max = size_max
        self._what = what
        self._size = 0
        self._held = bytearray()  # all of a small body
        self._digesting = _DigestTask(self._digests, runner)
        # The chunk of a large body that is being filled.
        self._filling = _PartialChunk(self._digesting, buffers)
        self._appending: Computation | None = None  # the write of the previous chunk
        self._chunks: list[Chunk] = []
        self._writer: SegmentWriter | None = None
        self._rows: dict[str, SegmentRow] = {}
        self._is_finished = False

    def write(self, data: Buffer) -> None:
        """Adds the next bytes of the body. The caller may reuse the buffer after the call.

        Raises `TooLarge` if the body becomes larger than `size_max`.
        """
        self._check_unfinished()
        view = memoryview(data).cast("B")
        self._size += len(view)
        if self._size_max and self._size > self._size_max:
            raise TooLarge(
                f"{self._what}: the size in bytes", size=self._size, limit=self._size_max
            )
        if self._size <= INLINE_BYTES_MAX:
            self._held += view
            return
        if self._held:
            held, self._held = self._held, bytearray()
            self._write_large(memoryview(held))
        self._write_large(view)

    def finish(self, *, expected: Expected, size: int | None = None) -> Body:
        """Ends the body and returns it; a large body is then durable in its segments.

        Raises `BadSize` if the body does not have `size` bytes, and `BadDigest` if it does not
        match `expected`. After any error the caller must call `give_up`.
        """
        self._check_unfinished()
        self._is_finished = True
        if size is not None and size != self._size:
            raise BadSize(
                f"{self._what}: received {self._size} bytes, but {size} bytes were announced"
            )
        inline = None
        if self._size <= INLINE_BYTES_MAX:
            data = bytes(self._held)
            self._digests.update(data)
            inline = (blake3(data), data) if data else None
        else:
            self._store_filled()
            self._settle()
        self._digests.check(expected)
        self.give_up()
        return Body(
            size=self._size,
            md5=self._digests.md5,
            checksums=self._digests.checksums(),
            inline=inline,
            chunks=tuple(self._chunks),
            segments=tuple(self._rows.values()),
        )

    def give_up(self) -> None:
        """Abandons the body and gives its segment back to the pool. Idempotent."""
        with contextlib.suppress(LakebedError):  # a failed write no longer matters
            self._settle()
        self._filling.close()
        self._give_back()

    def _give_back(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._segments.give_back(writer)

    def _check_unfinished(self) -> None:
        if self._is_finished:
            raise Closed(f"{self._what}: the body is already finished and cannot be changed")

    def _write_large(self, view: memoryview) -> None:
        while view:
            if not self._filling.size and len(view) >= CHUNK_BYTES:
                view = view[self._store_whole(view) :]
                continue
            view = view[self._filling.add(view) :]
            if self._filling.size == CHUNK_BYTES:
                self._store_filled()

    def _store_filled(self) -> None:
        """Starts to write and sync the filled chunk in another thread, and begins the next chunk.

        First waits until the previous chunk is synced. Does nothing if the chunk is empty.
        """
        if self._filling.size:
            chunk = self._filling.ended()
            self._settle_appending()
            self._appending = self._runner.compute(partial(self._append, chunk))
            self._filling.begin_next()

    def _store_whole(self, view: memoryview) -> int:
        """Writes the complete chunks at the start of `view` without copying them.

        Returns the number of bytes written.
        """
        size = len(view) - len(view) % CHUNK_BYTES
        try:
            for at in range(0, size, CHUNK_BYTES):
                chunk = view[at : at + CHUNK_BYTES]
                self._digesting.add(chunk)
                self._settle_appending()
                self._append(chunk)
        finally:
            self._digesting.settle()  # the caller may reuse the buffer
        return size

    def _settle(self) -> None:
        try:
            self._digesting.settle()
        finally:
            self._settle_appending()

    def _settle_appending(self) -> None:
        appending, self._appending = self._appending, None
        if appending is not None:
            appending.result()

    def _append(self, data: memoryview) -> None:
        self._segments.check_room(len(data))
        digest = blake3(data)
        if self._writer is not None and self._writer.is_full:
            self._give_back()
        if self._writer is None:
            self._writer = self._segments.borrow()
        self._chunks.append(self._writer.append(digest, data))
        self._writer.sync()
        self._rows[self._writer.segment_id] = self._writer.row


class _DigestTask:
    """Computes the digests of a body in another thread, one piece at a time."""

    def __init__(self, digests: BodyDigests, runner: Runner) -> None:
        self._digests = digests
        self._runner = runner
        self._computing: Computation | None = None

    def add(self, piece: memoryview) -> None:
        """Waits until the previous piece is digested, then starts to digest this one.

        The piece must not change until `settle` returns.
        """
        self.settle()
        self._computing = self._runner.compute(partial(self._digests.update, piece))

    def settle(self) -> None:
        """Waits until all pieces are digested."""
        computing, self._computing = self._computing, None
        if computing is not None:
            computing.result()


class _PartialChunk:
    """A chunk that is filled piece by piece and digested at the same time.

    Two buffers alternate: while the chunk in one buffer is written to disk, the next chunk is
    filled in the other.
    """

    def __init__(self, digesting: _DigestTask, buffers: ChunkBuffers) -> None:
        self._digesting = digesting
        self._buffers = buffers
        self._data = bytearray()  # empty, or of the size of a chunk
        self._other = bytearray()
        self._digested = 0  # bytes that are digested, or being digested
        self.size = 0

    def add(self, data: memoryview) -> int:
        """Adds as many bytes of `data` as the chunk has room for, and returns their number."""
        if not self._data:
            self._data = self._buffers.take(CHUNK_BYTES)
        taken = min(len(data), CHUNK_BYTES - self.size)
        self._data[self.size : self.size + taken] = data[:taken]
        self.size += taken
        if self.size - self._digested >= _DIGESTED_BYTES:
            self._digest()
        return taken

    def ended(self) -> memoryview:
        """Returns the chunk's data, and starts to digest the bytes that are not digested yet."""
        if self._digested < self.size:
            self._digest()
        return memoryview(self._data)[: self.size]

    def begin_next(self) -> None:
        """Starts an empty chunk in the other buffer, whose contents must already be on disk."""
        self._data, self._other = self._other, self._data
        self.size = self._digested = 0

    def close(self) -> None:
        """Gives both buffers back to their pool. No thread may be using them. Idempotent."""
        for buffer in (self._data, self._other):
            if buffer:
                self._buffers.give_back(buffer)
        self._data = self._other = bytearray()
        self.size = self._digested = 0

    def _digest(self) -> None:
        self._digesting.add(memoryview(self._data)[self._digested : self.size])
        self._digested = self.size
