"""How many bodies are received at once, by the memory that they take.

A body needs no place before it is larger than `SMALL_BYTES`: so those of slow clients, which have
sent little, are in nobody's way, and small ones never wait for large ones. What small ones hold
together is bounded too; beyond that each needs a place at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from lakebed.base.errors import Busy
from lakebed.base.units import MIB
from lakebed.http.request import RequestBody

SMALL_BYTES: Final = 1 * MIB
SMALL_BYTES_MAX: Final = 128 * MIB  # of all that have no place
PIECE_BYTES: Final = 1 * MIB  # worth a way to another thread
WAIT_S: Final = 20.0

Sent = bytes | bytearray


class TooManyBodies(Busy):
    """A large body found no place among those that are received."""


class Receiving:
    """In the loop's thread."""

    def __init__(
        self, *, large_max: int, small_bytes_max: int = SMALL_BYTES_MAX, wait_s: float = WAIT_S
    ) -> None:
        """`large_max` is how many large bodies are received at once."""
        self._large_max = large_max
        self._small_bytes_max = small_bytes_max
        self._wait_s = wait_s
        self._places = asyncio.Semaphore(large_max)
        self._small_bytes = 0

    @contextlib.contextmanager
    def body(self) -> Iterator[Reception]:
        """Give back what a body holds at the end."""
        reception = Reception(self)
        try:
            yield reception
        finally:
            self._small_bytes -= reception.small_bytes
            if reception.has_place:
                self._places.release()

    async def take(self, reception: Reception, size: int) -> None:
        if reception.has_place:
            return
        reception.small_bytes += size
        self._small_bytes += size
        if reception.small_bytes > SMALL_BYTES or self._small_bytes > self._small_bytes_max:
            try:
                await asyncio.wait_for(self._places.acquire(), self._wait_s)
            except TimeoutError:
                raise TooManyBodies(
                    f"{self._large_max} large bodies are being received, which is the maximum"
                ) from None
            reception.has_place = True
            self._small_bytes -= reception.small_bytes
            reception.small_bytes = 0


class Reception:
    """What one body holds."""

    __slots__ = ("_all", "has_place", "small_bytes")

    def __init__(self, all_bodies: Receiving) -> None:
        self._all = all_bodies
        self.has_place = False
        self.small_bytes = 0

    async def take(self, size: int) -> None:
        """So many bytes more have come; `TooManyBodies` if it needs a place and none gets free."""
        await self._all.take(self, size)


async def gathered(
    body: RequestBody, reception: Reception | None = None
) -> AsyncIterator[Sequence[Sent]]:
    """All of a body, in pieces that together are worth a way to another thread."""
    pieces: list[Sent] = []
    size = 0
    while piece := await body.read():
        if reception is not None:
            await reception.take(len(piece))
        pieces.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield pieces
            pieces, size = [], 0
    if pieces:
        yield pieces
