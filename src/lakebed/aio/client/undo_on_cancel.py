"""Undoes calls that were cancelled after they took effect: leases and pins."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from lakebed.aio.client.connection_pool import Interruption
from lakebed.base.errors import LakebedError

Result = TypeVar("Result")


class UndoOnCancel:
    """The calls of one store that may have to be undone."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(
        self,
        call: Coroutine[Any, Any, Result],
        interruption: Interruption | None,
        undo: Callable[[Result], Awaitable[None]],
    ) -> Result:
        """Returns the call's result. If cancelled, ends the call, or undoes it if it already
        ran.
        """
        calling = asyncio.ensure_future(call)
        try:
            return await asyncio.shield(calling)
        except asyncio.CancelledError:
            if interruption is not None:
                interruption.leave()
            task = asyncio.ensure_future(_undo(calling, undo))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            raise

    async def settled(self) -> None:
        """Waits until all cancelled calls are undone, as far as that is possible."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _undo(calling: asyncio.Future[Result], undo: Callable[[Result], Awaitable[None]]) -> None:
    with contextlib.suppress(LakebedError):  # the call failed, or the lease has ended
        result = await calling
        if result:
            await undo(result)
