"""What the requests of a wire hold together: how many are under way, and the bytes of their bodies.

A request is admitted or refused before anything of its body is read. All requests together have a
limit, beyond which one is refused at once (`Busy`). So has each access key, but for those that are
exempt: beyond it a request waits a moment for a place of its key, in order. What a request holds
grows with what has come of its body, not with what was announced: a slow client holds little. All
of it is given back when the client has the answer, or is gone.

A key without a request under way costs no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple, Protocol

from lakebed.base.errors import Busy
from lakebed.base.units import format_bytes

WAIT_MS_MAX: Final = 500  # for a place of one's access key


class Caller(Protocol):
    """Whose request it is, as a wire knows it."""

    @property
    def access_key(self) -> str: ...

    @property
    def inflight_max(self) -> int | None:
        """So many requests at a time; None: as many as any access key may have."""

    @property
    def is_exempt(self) -> bool:
        """From the limit of one access key."""


class Budget:
    """In the loop's thread."""

    def __init__(
        self,
        *,
        requests_max: int,
        key_requests_max: int,
        body_bytes_max: int,
        wait_ms_max: int = WAIT_MS_MAX,
    ) -> None:
        self._requests_max = requests_max
        self._key_requests_max = key_requests_max
        self._body_bytes_max = body_bytes_max
        self._wait_s_max = wait_ms_max / 1000
        self._keys: dict[str, _KeyRequests] = {}
        self.requests = 0
        self.body_bytes = 0

    def count(self, access_key: str) -> int:
        """How many requests of a key are under way, without those that wait for a place."""
        found = self._keys.get(access_key)
        return 0 if found is None else found.count

    def try_admit(self, caller: Caller, *, held_bytes: int = 0) -> Share | None:
        """Admit a request now, or return None if its access key has no place free.

        `Busy` if there is no room for a request of any key. `release` follows a share.
        """
        if self.requests >= self._requests_max:
            raise Busy(f"{self.requests} requests are under way, which is the maximum")
        if held_bytes:
            self.check(held_bytes)
        access_key = None
        if not caller.is_exempt:
            access_key = caller.access_key
            of_key = self._keys.get(access_key)
            if of_key is None:
                of_key = self._keys[access_key] = _KeyRequests()
            if of_key.count >= self._key_limit(caller):
                return None
            of_key.count += 1
        self.requests += 1
        self.body_bytes += held_bytes
        return Share(self, access_key, held_bytes)

    async def admit(self, caller: Caller, *, held_bytes: int = 0) -> Share:
        """As `try_admit`, but wait for a place of the key; `Busy` if none gets free in time."""
        share = self.try_admit(caller, held_bytes=held_bytes)
        return share or await self._place(caller, held_bytes)

    def check(self, size: int) -> None:
        """`Busy` if so many bytes more are too many."""
        limit = self._body_bytes_max
        if self.body_bytes + size > limit:
            raise Busy(
                f"bodies of {format_bytes(self.body_bytes)} are held, of {format_bytes(limit)} at "
                f"most: there is no room for {format_bytes(size)}"
            )

    def leave(self, access_key: str | None, held_bytes: int) -> None:
        """For a share that is given back."""
        self.requests -= 1
        self.body_bytes -= held_bytes
        if access_key is None:
            return
        of_key = self._keys[access_key]
        of_key.count -= 1
        if of_key.waiting:
            self._pass_on(of_key)
        if not of_key.count:
            del self._keys[access_key]

    async def _place(self, caller: Caller, held_bytes: int) -> Share:
        """Wait for a place of the caller's key: all are taken."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(loop.create_future(), caller, held_bytes)
        of_key = self._keys[caller.access_key]
        of_key.waiting.append(waiting)
        timer = loop.call_later(self._wait_s_max, _end_waiting, waiting.share)
        try:
            share = await waiting.share
        except asyncio.CancelledError:
            if not waiting.share.cancelled():
                _give_back(waiting.share)
            raise
        finally:
            timer.cancel()
            if waiting in of_key.waiting:
                of_key.waiting.remove(waiting)
        if share is None:
            count = of_key.count
            raise Busy(f"{count} requests of this access key are under way, which is its maximum")
        return share

    def _pass_on(self, of_key: _KeyRequests) -> None:
        """A place goes to the request that waits longest.

        With a limit that was lowered meanwhile, places are given up first.
        """
        while of_key.waiting:
            share, caller, held_bytes = of_key.waiting[0]
            if not share.done():
                if of_key.count >= self._key_limit(caller):
                    return
                try:
                    share.set_result(self.try_admit(caller, held_bytes=held_bytes))
                except Busy as error:
                    share.set_exception(error)
            of_key.waiting.popleft()

    def _key_limit(self, caller: Caller) -> int:
        own = caller.inflight_max
        return self._key_requests_max if own is None else max(1, own)


class Share:
    """Of one request."""

    __slots__ = ("_access_key", "_budget", "_held_bytes", "_is_released", "is_short")

    def __init__(self, budget: Budget, access_key: str | None, held_bytes: int) -> None:
        """`access_key` is None if it is exempt."""
        self._budget = budget
        self._access_key = access_key
        self._held_bytes = held_bytes
        self._is_released = False
        self.is_short = False  # whether it was refused more

    def check(self, size: int) -> None:
        """`Busy` if so many bytes cannot be held now."""
        try:
            self._budget.check(size)
        except Busy:
            self.is_short = True
            raise

    def take(self, size: int) -> None:
        """Hold so many bytes more; `Busy` if that is too much."""
        self.check(size)
        self._budget.body_bytes += size
        self._held_bytes += size

    def release(self) -> None:
        """Idempotent."""
        if not self._is_released:
            self._is_released = True
            self._budget.leave(self._access_key, self._held_bytes)


class _KeyRequests:
    """Of one access key."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        self.count = 0
        self.waiting: deque[_Waiting] = deque()


class _Waiting(NamedTuple):
    """A request that waits for a place of its key."""

    share: asyncio.Future[Share | None]  # None: the time is over
    caller: Caller
    held_bytes: int


def _end_waiting(share: asyncio.Future[Share | None]) -> None:
    if not share.done():
        share.set_result(None)


def _give_back(share: asyncio.Future[Share | None]) -> None:
    """Of a request that was cancelled just when it was admitted."""
    if share.exception() is None:
        admitted = share.result()
        if admitted is not None:
            admitted.release()
