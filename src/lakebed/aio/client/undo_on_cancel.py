"""Calls whose results are given back if their callers are cancelled: leases and pins."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from lakebed.aio.client.connection_pool import Interruption
from lakebed.base.errors import LakebedError

Result = TypeVar("Result")


class UndoOnCancel:
    """Of one store."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(
        self,
        call: Coroutine[Any, Any, Result],
        interruption: Interruption | None,
        undo: Callable[[Result], Awaitable[None]],
    ) -> Result:
        """The result of the call. Cancelled, the call is ended, or undone if it is too late."""
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
        """Wait until all that must be given back is, as far as it can be done."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _undo(calling: asyncio.Future[Result], undo: Callable[[Result], Awaitable[None]]) -> None:
    with contextlib.suppress(LakebedError):  # it failed, or is not held any more
        result = await calling
        if result:
            await undo(result)
