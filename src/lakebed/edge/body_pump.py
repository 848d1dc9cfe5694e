"""A large body on its way into the store.

It is gathered into pieces; while one piece is hashed, written and synced in another thread, the
next one is received. So at most two pieces of a request are in memory, whatever its size.

How many bodies are received at once is bounded by the memory they take. A body needs no place
before it is larger than `SMALL_BYTES`: so those of slow clients, which have sent little, are in
nobody's way, and small ones never wait for large ones. What small ones hold together is bounded
too; beyond that each needs a place at once.

What may be lost: nothing was promised. A body that breaks off is given up, and nothing of it is
stored.
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
SMALL_BYTES_MAX: Final = 128 * MIB  # of all that have no place
PIECE_BYTES: Final = 1 * MIB  # worth a way to another thread
WAIT_S: Final = 20.0

Sent = bytes | bytearray
Result = TypeVar("Result")


class TooManyBodies(Busy):
    """A large body found no place among those that are received."""


class BodySink(Protocol[Result]):
    """Takes the pieces of one body, in any thread, one call at a time. A `Put` is one."""

    def write(self, data: Sent, /) -> None: ...

    def change(self) -> Change[Result]:
        """All of the body came: what is left is to commit it."""
        ...

    def give_up(self) -> None:
        """Store nothing, unless `change` was called."""


class BodyPump:
    """Of one wire, in the loop's thread."""

    def __init__(self, worker: Worker, places: BodyPlaces) -> None:
        self._worker = worker
        self._places = places

    async def store(self, body: RequestBody, sink: BodySink[Result]) -> Result:
        """Return what the body became, durable. `TooManyBodies`; what fails is given up."""
        with self._places.body() as place:
            change = await self._received(body, sink, place)
            pending = await self._worker.handed_over(change)
        return await self._worker.done(pending)

    async def _received(
        self, body: RequestBody, sink: BodySink[Result], place: BodyPlace
    ) -> Change[Result]:
        at_work: asyncio.Future[Any] | None = None  # one at a time
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
    """Give up what was not ended, once no other thread is at it."""
    if at_work is not None:
        await asyncio.wait([at_work])
        if not at_work.cancelled():
            at_work.exception()  # looked at, for another one may be raised
    sink.give_up()


async def _gathered(body: RequestBody, place: BodyPlace) -> AsyncIterator[Sequence[Sent]]:
    """All of a body, in pieces that together are worth a way to another thread."""
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
    """What all bodies that are received hold together. In the loop's thread."""

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
        """Give back what a body holds at the end."""
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
                    f"{self._large_max} large bodies are being received, which is the maximum"
                ) from None
            place.is_taken = True
            self._small_bytes -= place.small_bytes
            place.small_bytes = 0


class BodyPlace:
    """What one body holds: a place, or some bytes while it is small."""

    __slots__ = ("_places", "is_taken", "small_bytes")

    def __init__(self, places: BodyPlaces) -> None:
        self._places = places
        self.is_taken = False
        self.small_bytes = 0

    async def take(self, size: int) -> None:
        """So many bytes more have come; `TooManyBodies` if it needs a place and none gets free."""
        await self._places.take(self, size)
