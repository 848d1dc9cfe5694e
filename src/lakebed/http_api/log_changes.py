"""Waits for a log to change without holding a thread.

The wait ends early if the client disconnects or the server shuts down.

    with LogChanges(log, request) as changes:
        while True:
            changes.arm()
            …                          # check the log; changes from here on are not missed
            if not await changes.come(deadline_s):
                break
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

from lakebed.aof.view import LogView
from lakebed.http.request import Request


class LogChanges:
    """Waits for the changes of one log, for one request. Used in the event loop's thread."""

    def __init__(self, log: LogView, request: Request) -> None:
        self._log = log
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stop: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        self._stop = self._log.on_durable(self._wake)
        self._request.on_hurry = self._changed.set
        return self

    def __exit__(self, *_: object) -> None:
        if self._stop is not None:
            self._stop()
        self._request.on_hurry = None

    def arm(self) -> None:
        self._changed.clear()

    async def come(self, deadline_s: float | None = None) -> bool:
        """Waits until the log has changed since `arm`, and returns True.

        Returns False if the deadline (by the event loop's clock; None means no deadline) passes,
        the client disconnects, or the server shuts down.
        """
        if self._request.is_hurried:
            return False
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return not self._request.is_hurried

    def deadline_s(self, seconds: float) -> float:
        return self._loop.time() + seconds

    def _wake(self) -> None:
        """Wakes the waiting request. The log calls this method, in any thread."""
        if not self._changed.is_set():
            with contextlib.suppress(RuntimeError):  # the loop has ended: nothing waits
                self._loop.call_soon_threadsafe(self._changed.set)
