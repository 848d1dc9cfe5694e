"""The body of a request. The connection puts bytes in, and the handler reads them.

A body buffers at most `Limits.read_ahead_bytes` plus one read of the socket. When the buffer is
full, the connection stops reading from the socket until the handler has read enough of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from lakebed.base.errors import LakebedError
from lakebed.base.units import KIB
from lakebed.http.chunks import ChunkedReader
from lakebed.http.request import BadBody, ClientGone

LARGE_PIECE_BYTES = 32 * KIB  # from this size on, copying costs more than another turn of the loop
PIECE_COST_BYTES = 64  # counted for each piece too, because a body may arrive byte by byte


class WholeBody:
    """A small or empty request body that was received completely before the handler was called."""

    __slots__ = ("_is_read", "length", "whole")

    def __init__(self, whole: bytes) -> None:
        self.length: int | None = len(whole)
        self.whole: bytes | None = whole
        self._is_read = False

    async def read(self) -> bytes | bytearray:
        if self._is_read or self.whole is None:
            return b""
        self._is_read = True
        return self.whole

    async def __aiter__(self) -> AsyncIterator[bytes | bytearray]:
        if piece := await self.read():
            yield piece


class Source(Protocol):
    """The method of the connection that a request body calls."""

    def want_body(self) -> None:
        """Sends `100 Continue` if the client waits for it and no response has begun.

        Also resumes reading from the socket, unless a buffer is full. The body calls it when the
        handler waits for bytes or has read some.
        """


class IncomingBody:
    """A request body that may still be arriving while the handler reads it.

    The connection passes received bytes to `feed`. `is_read` is true once the whole body was
    received and the handler has read all of it.
    """

    __slots__ = (
        "_chunks",
        "_error",
        "_held_bytes",
        "_left",
        "_pieces",
        "_source",
        "_waiter",
        "is_complete",
        "length",
        "received_bytes",
        "whole",
    )

    def __init__(self, source: Source, length: int | None, chunks: ChunkedReader | None) -> None:
        self.length = length
        self.whole: bytes | None = None
        self.is_complete = False
        self.received_bytes = 0
        self._source = source
        self._chunks = chunks
        self._left = length or 0
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: LakebedError | None = None

    @property
    def is_read(self) -> bool:
        return self.is_complete and not self._pieces and self._error is None

    @property
    def is_waited_for(self) -> bool:
        return self._waiter is not None

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    async def read(self) -> bytes | bytearray:
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self.is_complete:
                return b""
            assert self._waiter is None, "two readers of one body"
            self._waiter = asyncio.get_running_loop().create_future()
            self._source.want_body()
            try:
                await self._waiter
            finally:
                self._waiter = None
        piece = self._next_piece()
        if not self.is_complete:
            self._source.want_body()
        return piece

    def _next_piece(self) -> bytes:
        """Removes the first piece if it is large, otherwise all pieces, and returns the bytes."""
        pieces = self._pieces
        if len(pieces) == 1 or len(pieces[0]) >= LARGE_PIECE_BYTES:
            piece = pieces.pop(0)
            self._held_bytes -= len(piece) + PIECE_COST_BYTES
            return piece
        self._pieces, self._held_bytes = [], 0
        return b"".join(pieces)

    async def __aiter__(self) -> AsyncIterator[bytes | bytearray]:
        while piece := await self.read():
            yield piece

    def feed(self, data: bytes) -> int:
        """Buffers the body's content in `data`, and returns how many bytes of `data` were used.

        Bytes after the end of the body are not used. If the chunked encoding is malformed, uses all
        bytes and does not raise an error; the handler's next `read` raises `BadBody`.
        """
        before = len(self._pieces)
        if self._chunks is None:
            piece = data if len(data) <= self._left else data[: self._left]
            self._pieces.append(piece)
            self._left -= len(piece)
            used = len(piece)
            self.is_complete = not self._left
        else:
            try:
                used = self._chunks.feed(data, self._pieces)
            except BadBody as error:
                self.fail(error)
                return len(data)
            self.is_complete = self._chunks.is_complete
        new = self._pieces[before:]
        content_bytes = sum(map(len, new))
        self._held_bytes += content_bytes + len(new) * PIECE_COST_BYTES
        self.received_bytes += content_bytes
        if content_bytes or self.is_complete:
            self._wake()
        return used

    def fail(self, error: BadBody | ClientGone) -> None:
        """Makes `read` raise `error` from now on, and drops the bytes that were not read yet.

        Does nothing if the body is complete or has already failed.
        """
        if self._error is None and not self.is_complete:
            self._error = error
            self._pieces.clear()
            self._held_bytes = 0
            self._wake()

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
