"""Receives request bodies that arrive in pieces, and writes them to the store.

A body is collected into pieces. While a thread hashes, writes and syncs one piece, the next one is
received, so at most two pieces of a request are in memory.

To bound memory, only a fixed number of large bodies are received at the same time. A body needs one
of these slots once it is larger than `SMALL_BYTES`. So a slow client that has sent little occupies
no slot, and small bodies do not wait for large ones. The total size of all small bodies is limited
too; while it is above `SMALL_BYTES_MAX`, a body of any size needs a slot.

What may be lost: a body that arrives only in part. Nothing of it is stored or acknowledged.
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
SMALL_BYTES_MAX: Final = 128 * MIB  # all bodies without a slot together
PIECE_BYTES: Final = 1 * MIB  # large enough to be worth a thread switch
WAIT_S: Final = 20.0

Sent = bytes | bytearray
Result = TypeVar("Result")


class TooManyBodies(Busy):
    """All slots for large request bodies are in use."""


class BodySink(Protocol[Result]):
    """Receives the pieces of one request body and writes them to the store.

    Its methods may be called in any thread, but only by one thread at a time.
    """

    def write(self, data: Sent, /) -> None: ...

    def change(self) -> Change[Result]:
        """Returns the change to commit; called once the whole body has been written."""
        ...

    def give_up(self) -> None:
        """Discards the body, unless `change` was called."""


class BodyPump:
    """Receives the request bodies of one server, and writes each to its `BodySink` as it arrives.

    Use it only in the event loop's thread.
    """

    def __init__(self, worker: Worker, places: BodyPlaces) -> None:
        self._worker = worker
        self._places = places

    async def store(self, body: RequestBody, sink: BodySink[Result]) -> Result:
        """Stores the body and returns the result once it is durable.

        Raises `TooManyBodies` if the body needs a slot and none becomes free in time. If the body
        is not received completely, nothing is stored.
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
    """Waits for the running write to end, then discards the body unless it is complete."""
    if at_work is not None:
        await asyncio.wait([at_work])
        if not at_work.cancelled():
            at_work.exception()  # mark as retrieved; another error may be raised instead
    sink.give_up()


async def _gathered(body: RequestBody, place: BodyPlace) -> AsyncIterator[Sequence[Sent]]:
    """Yields the body as it is received, in groups of at least `PIECE_BYTES`; the last group may be
    smaller.
    """
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
    """Limits the number of large bodies received at the same time, and the bytes of small ones.

    Use it only in the event loop's thread.
    """

    def __init__(
        self, *, large_max: int, small_bytes_max: int = SMALL_BYTES_MAX, wait_s: float = WAIT_S
    ) -> None:
        """`large_max` is the number of slots: how many large bodies are received at the same time.

        While the small bodies have more than `small_bytes_max` bytes in total, a body of any size
        needs a slot. A body waits up to `wait_s` seconds for a slot; after that `TooManyBodies` is
        raised.
        """
        self._large_max = large_max
        self._small_bytes_max = small_bytes_max
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(large_max)
        self._small_bytes = 0

    @contextlib.contextmanager
    def body(self) -> Iterator[BodyPlace]:
        """Yields the `BodyPlace` of one body; releases its bytes or its slot at the end."""
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
                    f"all {self._large_max} slots of the server for large request bodies are in "
                    "use; retry later"
                ) from None
            place.is_taken = True
            self._small_bytes -= place.small_bytes
            place.small_bytes = 0


class BodyPlace:
    """What one request body has reserved of `BodyPlaces`.

    That is the number of its bytes until it needs a slot, and from then on the slot alone.
    """

    __slots__ = ("_places", "is_taken", "small_bytes")

    def __init__(self, places: BodyPlaces) -> None:
        self._places = places
        self.is_taken = False
        self.small_bytes = 0

    async def take(self, size: int) -> None:
        """Counts `size` more bytes of the body; waits for a slot if the body now needs one.

        Raises `TooManyBodies` if no slot becomes free in time.
        """
        await self._places.take(self, size)
