"""How many requests of one access key are carried out at a time. More wait a moment, in order.

The first credentials are exempt. A key that nothing is in flight for costs no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque

from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import S3Error
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.key_ring import KeyRing

WAIT_MS_MAX = 500


class _Line:
    """Of one key."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        self.count = 0
        self.waiting: deque[asyncio.Future[bool]] = deque()


class InflightLimit:
    """In the loop's thread. `leave` follows `enter`, and `try_enter` where that returns True."""

    def __init__(
        self, keys: KeyRing, *, config: EndpointConfig, wait_ms_max: int = WAIT_MS_MAX
    ) -> None:
        self._keys = keys
        self._count_max = config.inflight_max
        self._wait_s_max = wait_ms_max / 1000
        self._lines: dict[str, _Line] = {}

    def count(self, access_key: str) -> int:
        """How many are in flight, without those that wait."""
        line = self._lines.get(access_key)
        return 0 if line is None else line.count

    def try_enter(self, identity: Identity) -> bool:
        """Whether it may go on at once; then `leave` follows."""
        if identity.is_first:
            return True
        line = self._lines.get(identity.access_key)
        if line is None:
            line = self._lines[identity.access_key] = _Line()
        if line.count >= self._limit(identity.access_key):
            return False
        line.count += 1
        return True

    async def enter(self, identity: Identity) -> None:
        """Wait for a place; `SlowDown` if none gets free in time."""
        if self.try_enter(identity):
            return
        loop = asyncio.get_running_loop()
        place: asyncio.Future[bool] = loop.create_future()
        self._lines[identity.access_key].waiting.append(place)
        timer = loop.call_later(self._wait_s_max, _settle, place, False)
        try:
            is_ours = await place
        except asyncio.CancelledError:
            if not place.cancelled() and place.result():
                self.leave(identity)
            raise
        finally:
            timer.cancel()
        if not is_ours:
            raise S3Error("SlowDown", "Please reduce your request rate.")

    def leave(self, identity: Identity) -> None:
        """The place goes to whoever waits longest."""
        if identity.is_first:
            return
        line = self._lines[identity.access_key]
        # With a limit that was lowered meanwhile, places are given up first.
        while line.waiting and line.count <= self._limit(identity.access_key):
            if _settle(line.waiting.popleft(), True):
                return
        line.count -= 1
        if not line.count:
            del self._lines[identity.access_key]

    def _limit(self, access_key: str) -> int:
        known = self._keys.find(access_key)
        own = None if known is None else known.inflight_max
        return self._count_max if own is None else max(1, own)


def _settle(place: asyncio.Future[bool], is_ours: bool) -> bool:
    """Whether it was not settled before."""
    if place.done():
        return False
    place.set_result(is_ours)
    return True
