"""A bell that any thread rings for one who waits in the loop, and holds no thread."""

from __future__ import annotations

import asyncio
import contextlib


class WakeEvent:
    """Made in the loop, for one who waits. A ring before the wait is not lost."""

    __slots__ = ("_is_set", "_loop", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """From any thread."""
        if self._is_set:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(self.set_in_loop)

    def set_in_loop(self) -> None:
        """In the loop's thread."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, until_s: float) -> bool:
        """Wait for a ring; False if the loop's clock says `until_s` first."""
        if not self._is_set:
            self._waiter = self._loop.create_future()
            timer = self._loop.call_at(until_s, self._give_up)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        was_rung, self._is_set = self._is_set, False
        return was_rung

    def _give_up(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
