"""Awaiting what another thread commits: the loop is woken once for everything of a batch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from lakebed.base.errors import Busy

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")


class Pending(Protocol[Result_co]):
    """Something that was handed over, and happens whether or not anyone waits."""

    @property
    def batch(self) -> object:
        """The same for everything that is told at once."""

    @property
    def is_done(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> Result_co: ...

    def when_done(self, callback: Callable[[], None]) -> None:
        """In whatever thread; at once, if it is done."""


Handed = TypeVar("Handed", bound=Pending[object])


class Completions:
    """In the thread of one loop."""

    def __init__(self) -> None:
        self._waiting: dict[object, list[asyncio.Future[None]]] = {}  # by batch

    @property
    def count(self) -> int:
        """How many wait now."""
        return sum(map(len, self._waiting.values()))

    async def of(self, pending: Pending[Result]) -> Result:
        """What came of it, or the error it failed with."""
        if not pending.is_done:
            self._watch(pending)
        if pending.batch in self._waiting:
            await self._settled(pending.batch)
        return pending.wait(0)

    async def handed_over(self, submit: Callable[[], Handed]) -> Handed:
        """What `submit` gives, once there is room for it; until then it raises `Busy`.

        That comes through only if others than those who wait here take the room.
        """
        while True:
            try:
                pending = submit()
            except Busy:
                if not self._waiting:
                    raise
                await self._settled(next(iter(self._waiting)))
            else:
                self._watch(pending)
                return pending

    def _watch(self, pending: Pending[object]) -> None:
        """Its batch stands among those that are waited for until it is settled."""
        batch = pending.batch
        if batch in self._waiting:
            return
        self._waiting[batch] = []
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
                loop.call_soon_threadsafe(self._settle, batch)

        pending.when_done(tell)

    async def _settled(self, batch: object) -> None:
        """Until one of those that are waited for is done."""
        is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[batch].append(is_done)
        await is_done

    def _settle(self, batch: object) -> None:
        for is_done in self._waiting.pop(batch):
            if not is_done.done():
                is_done.set_result(None)
