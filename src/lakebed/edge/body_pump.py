"""Receives large request bodies into the store.

A body is collected into pieces. While one piece is hashed, written and synced in another thread,
the next one is received, so at most two pieces of a request are in memory.

The number of bodies that are received at once is limited by memory. A body needs a slot only once
it is larger than `SMALL_BYTES`. So slow clients that have sent little block no slot, and small
bodies never wait for large ones. The total size of small bodies is limited too; above that limit
every body needs a slot at once.

What may be lost: nothing was acknowledged. If a body breaks off, nothing of it is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from lakebed.base.errors import Busy
from lakebed.base.units import MIB
from lakebed.edge.worker import Worker
from lakebed.http.request import RequestBody
from lakebed.seglake.change import Change

SMALL_BYTES: Final = 1 * MIB
SMALL_BYTES_MAX: Final = 128 * MIB  # of all small bodies without a slot
PIECE_BYTES: Final = 1 * MIB  # large enough for a thread switch
WAIT_S: Final = 20.0

Sent = bytes | bytearray
Result = TypeVar("Result")


class TooManyBodies(Busy):
    """All slots for large bodies are in use."""


class BodySink(Protocol[Result]):
    """Takes the pieces of one body, in any thread, one call at a time. `Put` implements it."""

    def write(self, data: Sent, /) -> None: ...

    def change(self) -> Change[Result]:
        """Called when the body is complete. Returns the change to commit."""
        ...

    def give_up(self) -> None:
        """Discards the body, unless `change` was called."""


class BodyPump:
    """Belongs to one server. Used in the loop's thread."""

    def __init__(self, worker: Worker, places: BodyPlaces) -> None:
        self._worker = worker
        self._places = places

    async def store(self, body: RequestBody, sink: BodySink[Result]) -> Result:
        """Stores the body and returns the durable result.

        On any failure nothing is stored. Raises `TooManyBodies`.
        """
        with self._places.body() as place:
            change = await self._received(body, sink, place)
            pending = await self._worker.handed_over(change)
        return await self._worker.done(pending)

    async def _received(
        self, body: RequestBody, sink: BodySink[Result], place: BodyPlace
    ) -> Change[Result]:
        at_work: asyncio.Future[Any] | None = None  # at most one write runs
        try:
            async for pieces in _gathered(body, place):
                if at_work is not None:
                    await asyncio.shield(at_work)
                at_work = self._worker.start(partial(_write, sink, pieces))
            if at_work is not None:
                await asyncio.shield(at_work)
            ending = at_work = self._worker.start(sink.change)
            return await asyncio.shield(ending)
        finally:
            await _leave(sink, at_work)


def _write(sink: BodySink[Any], pieces: Sequence[Sent]) -> None:
    for piece in pieces:
        sink.write(piece)


async def _leave(sink: BodySink[Any], at_work: asyncio.Future[Any] | None) -> None:
    """Gives up a body that was not completed, after the thread that writes it has finished."""
    if at_work is not None:
        await asyncio.wait([at_work])
        if not at_work.cancelled():
            at_work.exception()  # mark as retrieved; another error may be raised instead
    sink.give_up()


async def _gathered(body: RequestBody, place: BodyPlace) -> AsyncIterator[Sequence[Sent]]:
    """Yields the body in groups of pieces that are large enough for a thread switch."""
    pieces: list[Sent] = []
    size = 0
    while piece := await body.read():
        await place.take(len(piece))
        pieces.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield pieces
            pieces, size = [], 0
    if pieces:
        yield pieces


class BodyPlaces:
    """The slots and the memory that all bodies being received use. Used in the loop's thread."""

    def __init__(
        self, *, large_max: int, small_bytes_max: int = SMALL_BYTES_MAX, wait_s: float = WAIT_S
    ) -> None:
        """`large_max` is how many large bodies are received at once."""
        self._large_max = large_max
        self._small_bytes_max = small_bytes_max
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(large_max)
        self._small_bytes = 0

    @contextlib.contextmanager
    def body(self) -> Iterator[BodyPlace]:
        """Yields a place for one body and releases it at the end."""
        place = BodyPlace(self)
        try:
            yield place
        finally:
            self._small_bytes -= place.small_bytes
            if place.is_taken:
                self._free.release()

    async def take(self, place: BodyPlace, size: int) -> None:
        if place.is_taken:
            return
        place.small_bytes += size
        self._small_bytes += size
        if place.small_bytes > SMALL_BYTES or self._small_bytes > self._small_bytes_max:
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._free.acquire()
            except TimeoutError:
                raise TooManyBodies(
                    f"{self._large_max} large bodies are being received, the maximum; retry later"
                ) from None
            place.is_taken = True
            self._small_bytes -= place.small_bytes
            place.small_bytes = 0


class BodyPlace:
    """What one body uses: a slot, or a number of bytes while it is small."""

    __slots__ = ("_places", "is_taken", "small_bytes")

    def __init__(self, places: BodyPlaces) -> None:
        self._places = places
        self.is_taken = False
        self.small_bytes = 0

    async def take(self, size: int) -> None:
        """Counts `size` more bytes. Raises `TooManyBodies` if no slot becomes free in time."""
        await self._places.take(self, size)
