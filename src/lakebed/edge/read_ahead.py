"""Sends a response body piece by piece: while one piece is sent, a thread reads the next one.

So at most two pieces of a response are in memory. If reading the first piece fails, the client gets
an error response. If a later piece fails, the connection is closed, because the headers, with the
length of the body, were already sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

from lakebed.base.layout import Buffer
from lakebed.edge.worker import Worker
from lakebed.http.response import FileSlice, Piece
from lakebed.seglake.chunk_reader import FilePlace

Read = Buffer | FileSlice | FilePlace


async def read_ahead(
    worker: Worker, pieces: Iterator[Read], close: Callable[[], None] = lambda: None
) -> ReadAhead:
    """Reads the first piece in a thread, and returns a response body that reads the others.

    `close` is called once the body was closed and no read is running, or if the first piece cannot
    be read.
    """
    body = ReadAhead(worker, pieces, close)
    try:
        await body.begin()
    except BaseException:
        await body.aclose()
        raise
    return body


class ReadAhead:
    """A response body that reads one piece ahead. It must be closed, even if it is never read."""

    def __init__(self, worker: Worker, pieces: Iterator[Read], close: Callable[[], None]) -> None:
        self._worker = worker
        self._pieces = pieces
        self._close = close
        self._current: Read | None = None  # being sent
        self._next: Read | None = None
        self._ahead: asyncio.Future[Read | None] | None = None  # being read

    async def begin(self) -> None:
        self._ahead = self._worker.start(partial(next, self._pieces, None))
        await self._arrived()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        _release(self._current)
        self._current = None
        await self._arrived()
        self._current, self._next = self._next, None
        if self._current is None:
            raise StopAsyncIteration
        self._ahead = self._worker.start(partial(next, self._pieces, None))
        if isinstance(self._current, FilePlace):
            return FileSlice(self._current.descriptor, self._current.offset, self._current.length)
        return self._current

    async def _arrived(self) -> None:
        """Waits for the piece that is being read, if any, and stores it in `_next`."""
        if self._ahead is not None:
            self._next = await asyncio.shield(self._ahead)
            self._ahead = None

    async def aclose(self) -> None:
        """Releases the pieces in memory, and closes the source once no read is running."""
        for piece in (self._current, self._next):
            _release(piece)
        self._current = self._next = None
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            self._close()
            return
        ahead.add_done_callback(self._release_ahead)  # runs even if this task is cancelled
        await asyncio.wait([ahead])

    def _release_ahead(self, ahead: asyncio.Future[Read | None]) -> None:
        if not ahead.cancelled() and ahead.exception() is None:
            _release(ahead.result())
        self._close()


def _release(piece: Read | None) -> None:
    if isinstance(piece, FilePlace):
        piece.release()
