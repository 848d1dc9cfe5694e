"""Limits the concurrent requests of a server and the memory of their bodies.

A request is admitted or refused before its body is read. Above the server's total limit, a request
is refused immediately (`Busy`). Each access key has its own limit, unless it is exempt; a request
above that limit waits briefly for its turn. Memory is counted as the bytes of a body arrive, or as
a fixed amount that the caller passes on admission, but not by the length that the client announced,
so a slow client holds little. Everything is released once the response was sent or, if the client
has disconnected, once the handler has ended.

Nothing is kept in memory for an access key that has no current requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple, Protocol

from lakebed.base.errors import Busy
from lakebed.base.units import format_bytes

WAIT_MS_MAX: Final = 500  # how long a request waits if its access key is at its limit


class Caller(Protocol):
    """The authenticated sender of a request."""

    @property
    def access_key(self) -> str: ...

    @property
    def inflight_max(self) -> int | None:
        """The limit of concurrent requests for this key; None means the default."""

    @property
    def is_exempt(self) -> bool:
        """Whether this access key has no limit of concurrent requests."""


class Budget:
    """The limits of one server, and what its running requests use of them.

    Use it only in the event loop's thread.
    """

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
        """Returns how many requests of an access key are admitted; waiting ones do not count.

        Returns 0 for a key that is exempt from the limit per key.
        """
        of_key = self._keys.get(access_key)
        return 0 if of_key is None else of_key.count

    def try_admit(self, caller: Caller, *, held_bytes: int = 0) -> Share | None:
        """Admits a request now, or returns None if its access key is at its limit.

        `held_bytes` is how much memory its body uses from the start. Raises `Busy` if the server is
        at its limit of requests or of memory. The caller must `release` the share.
        """
        if self.requests >= self._requests_max:
            raise Busy(f"the server is running {self.requests} requests, its maximum; retry later")
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
        """Admits a request; waits if its access key is at its limit.

        Raises `Busy` if the wait takes too long, or if the server is at its limit of requests or of
        memory.
        """
        share = self.try_admit(caller, held_bytes=held_bytes)
        return share or await self._place(caller, held_bytes)

    def check(self, size: int) -> None:
        """Raises `Busy` if `size` more bytes of bodies would exceed the memory limit."""
        limit = self._body_bytes_max
        if self.body_bytes + size > limit:
            raise Busy(
                f"no memory for {format_bytes(size)} more of a request body: request bodies use "
                f"{format_bytes(self.body_bytes)} of {format_bytes(limit)}; retry later"
            )

    def leave(self, access_key: str | None, held_bytes: int) -> None:
        """Ends a request: stops counting it and its memory, and admits waiting requests of its key.

        `access_key` is None if the caller is exempt from the limit per key.
        """
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
        """Waits until another request with the same access key ends, then admits this request.

        Raises `Busy` if the request is not admitted within the time limit, or if the server is at
        its own limit when the request's turn comes.
        """
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
            raise Busy(
                f"the server is running {count} requests of this access key, "
                "the maximum for this key; retry later"
            )
        return share

    def _pass_on(self, of_key: _KeyRequests) -> None:
        """Admits the waiting requests of one access key, oldest first, up to the key's limit.

        Admits none if the limit was lowered below the number of running requests.
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
        key_max = caller.inflight_max
        return self._key_requests_max if key_max is None else max(1, key_max)


class Share:
    """The part of a budget that one admitted request uses, until it is released."""

    __slots__ = ("_access_key", "_budget", "_held_bytes", "_is_released", "is_short")

    def __init__(self, budget: Budget, access_key: str | None, held_bytes: int) -> None:
        """`access_key` is None if the caller is exempt from the limit per key."""
        self._budget = budget
        self._access_key = access_key
        self._held_bytes = held_bytes
        self._is_released = False
        self.is_short = False  # whether the request was refused memory

    def check(self, size: int) -> None:
        """Raises `Busy` if there is no memory for `size` more bytes of the body now."""
        try:
            self._budget.check(size)
        except Busy:
            self.is_short = True
            raise

    def take(self, size: int) -> None:
        """Counts `size` more bytes of the body. Raises `Busy` if that exceeds the memory limit."""
        self.check(size)
        self._budget.body_bytes += size
        self._held_bytes += size

    def release(self) -> None:
        """Gives the request's part of the budget back. Idempotent."""
        if not self._is_released:
            self._is_released = True
            self._budget.leave(self._access_key, self._held_bytes)


class _KeyRequests:
    """The number of running requests of one access key, and its waiting requests."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        self.count = 0
        self.waiting: deque[_Waiting] = deque()


class _Waiting(NamedTuple):
    """A request that waits until its access key is below its limit."""

    share: asyncio.Future[Share | None]  # None: timed out
    caller: Caller
    held_bytes: int


def _end_waiting(share: asyncio.Future[Share | None]) -> None:
    if not share.done():
        share.set_result(None)


def _give_back(share: asyncio.Future[Share | None]) -> None:
    """Releases the share of a request that was cancelled just as it was admitted."""
    if share.exception() is None:
        admitted = share.result()
        if admitted is not None:
            admitted.release()
