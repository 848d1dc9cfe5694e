"""A body whose pieces are made in another thread: while one is sent, the next one is made.

So two pieces of a request are in memory, whatever its size. What fails before the first piece is
answered as an error; later the connection is cut, since the length was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

from lakebed.base.layout import Buffer
from lakebed.http.response import FileSlice, Piece
from lakebed.http_api.service import Service
from lakebed.seglake.chunk_reader import FilePlace

Made = Buffer | FileSlice | FilePlace


async def streamed(
    service: Service, pieces: Iterator[Made], close: Callable[[], None] = lambda: None
) -> Streamed:
    """With its first piece; `close` lets go of what the pieces are made from, whatever happens."""
    try:
        first = await service.run(partial(next, pieces, None))
    except BaseException:
        close()
        raise
    return Streamed(service, first, pieces, close)


class Streamed:
    """To be closed, also if it is never read, or fails."""

    def __init__(
        self,
        service: Service,
        first: Made | None,
        rest: Iterator[Made],
        close: Callable[[], None],
    ) -> None:
        self._service = service
        self._rest = rest
        self._close = close
        self._current: Made | None = None  # being sent
        self._next = first
        self._ahead: asyncio.Future[Made | None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        _release(self._current)
        self._current = None
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            self._next = await ahead
        self._current, self._next = self._next, None
        if self._current is None:
            raise StopAsyncIteration
        self._ahead = asyncio.ensure_future(self._service.run(partial(next, self._rest, None)))
        if isinstance(self._current, FilePlace):
            return FileSlice(self._current.descriptor, self._current.offset, self._current.length)
        return self._current

    async def aclose(self) -> None:
        for piece in (self._current, self._next):
            _release(piece)
        self._current = self._next = None
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            await asyncio.wait([ahead])
            if not ahead.cancelled() and ahead.exception() is None:
                _release(ahead.result())
        self._close()


def _release(piece: Made | None) -> None:
    if isinstance(piece, FilePlace):
        piece.release()
