"""What the requests under way hold together: how many they are, and the bytes of their bodies.

A request is let in or told to come again before anything of its body is read. What it holds grows
with what has come of its body, not with what was announced: a slow client holds little. All of it
is given back when the client has the answer, or is gone.
"""

from __future__ import annotations

from lakebed.base.errors import Busy
from lakebed.base.units import format_bytes
from lakebed.http_api.guard import Identity
from lakebed.http_api.limits import ApiLimits


class Budget:
    """In the loop's thread."""

    def __init__(self, limits: ApiLimits) -> None:
        self._limits = limits
        self._by_key: dict[str, int] = {}
        self.requests = 0
        self.body_bytes = 0

    def admit(self, identity: Identity, *, held_bytes: int = 0) -> Share:
        """`Busy` if there is no room; else `release` follows."""
        limits, count = self._limits, self._by_key.get(identity.access_key, 0)
        if self.requests >= limits.requests_max:
            raise Busy(f"{self.requests} requests are under way, which is the maximum")
        if count >= self._key_limit(identity):
            raise Busy(f"{count} requests of this access key are under way, which is its maximum")
        self.check(held_bytes)
        self.requests += 1
        self._by_key[identity.access_key] = count + 1
        self.body_bytes += held_bytes
        return Share(self, identity.access_key, held_bytes)

    def check(self, size: int) -> None:
        """`Busy` if so many bytes more are too many."""
        limit = self._limits.body_bytes_max
        if self.body_bytes + size > limit:
            raise Busy(
                f"bodies of {format_bytes(self.body_bytes)} are held, of {format_bytes(limit)} at "
                f"most: there is no room for {format_bytes(size)}"
            )

    def leave(self, access_key: str, held_bytes: int) -> None:
        """For a share that is given back."""
        self.requests -= 1
        self.body_bytes -= held_bytes
        left = self._by_key[access_key] - 1
        if left:
            self._by_key[access_key] = left
        else:
            del self._by_key[access_key]

    def _key_limit(self, identity: Identity) -> int:
        if identity.is_exempt:
            return self._limits.requests_max
        if identity.inflight_max is None:
            return self._limits.key_requests_max
        return identity.inflight_max


class Share:
    """Of one request."""

    __slots__ = ("_access_key", "_budget", "_held_bytes", "_is_released", "is_short")

    def __init__(self, budget: Budget, access_key: str, held_bytes: int) -> None:
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
