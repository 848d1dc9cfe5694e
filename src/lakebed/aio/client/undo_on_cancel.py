"""Undoes leases and pins whose calls were cancelled after the server had carried them out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from lakebed.aio.client.connection_pool import Interruption
from lakebed.base.errors import LakebedError

Result = TypeVar("Result")


class UndoOnCancel:
    """Runs the calls of one store that must be undone if they are cancelled."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(
        self,
        call: Coroutine[Any, Any, Result],
        interruption: Interruption | None,
        undo: Callable[[Result], Awaitable[None]],
    ) -> Result:
        """Runs a call and returns its result.

        If this is cancelled, aborts the call through `interruption`, if given. If the call still
        succeeds, calls `undo` with its result, unless that is empty.
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
        """Waits until all cancelled calls were undone or the attempt to undo them failed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _undo(calling: asyncio.Future[Result], undo: Callable[[Result], Awaitable[None]]) -> None:
    with contextlib.suppress(LakebedError):  # the call failed, or the lease has ended
        result = await calling
        if result:
            await undo(result)
