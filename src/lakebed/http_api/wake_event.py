"""An event that any thread may set, and that one task awaits in the event loop."""

from __future__ import annotations

import asyncio
import contextlib


class WakeEvent:
    """An event for one waiter, created in the event loop's thread.

    If the event is set before the wait, the wait ends immediately.
    """

    __slots__ = ("_is_set", "_loop", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Sets the event. May be called in any thread."""
        if self._is_set:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended: nothing waits
            self._loop.call_soon_threadsafe(self.set_in_loop)

    def set_in_loop(self) -> None:
        """Sets the event. Must be called in the event loop's thread."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, until_s: float) -> bool:
        """Waits until the event is set, then clears it.

        Returns False if the event loop's clock reaches `until_s` first.
        """
        if not self._is_set:
            self._waiter = self._loop.create_future()
            timer = self._loop.call_at(until_s, self._give_up)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        was_set, self._is_set = self._is_set, False
        return was_set

    def _give_up(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
