"""Waiting for a log to change, in the loop: no thread is held, and nobody who is gone waits on.

with LogChanges(log, request) as changes:
    while True:
        changes.arm()
        …                                  look: a change from here on is not missed
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
    """In the loop's thread. A request has one of these at a time."""

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
        """Until something changed since `arm`; False if waiting is over: the moment, by the loop's
        clock, has come, or nobody is there to wait for, or the server ends."""
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
        """By the log, in any thread."""
        if not self._changed.is_set():
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
                self._loop.call_soon_threadsafe(self._changed.set)
