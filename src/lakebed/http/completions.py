"""Awaiting what another thread commits: the loop is woken once for everything of a batch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")


class Pending(Protocol[Result_co]):
    """Something that was handed over, and happens whether or not anyone waits."""

    @property
    def batch(self) -> object:
        """The same for everything that is told at once."""

    def wait(self, timeout: float | None = None) -> Result_co: ...

    def when_done(self, callback: Callable[[], None]) -> None:
        """In whatever thread; at once, if it is done."""


class Completions:
    """In the thread of one loop."""

    def __init__(self) -> None:
        self._waiting: dict[object, list[asyncio.Future[None]]] = {}  # by batch

    async def of(self, pending: Pending[Result]) -> Result:
        """What came of it, or the error it failed with."""
        loop = asyncio.get_running_loop()
        batch = pending.batch
        is_done: asyncio.Future[None] = loop.create_future()
        waiting = self._waiting.get(batch)
        if waiting is not None:
            waiting.append(is_done)
        else:
            self._waiting[batch] = [is_done]

            def tell() -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
                    loop.call_soon_threadsafe(self._settle, batch)

            pending.when_done(tell)
        await is_done
        return pending.wait(0)

    def _settle(self, batch: object) -> None:
        for is_done in self._waiting.pop(batch):
            if not is_done.done():
                is_done.set_result(None)
