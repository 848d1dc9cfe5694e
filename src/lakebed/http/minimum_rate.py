"""Checks that a client sends or receives at a minimum rate while the server waits for it."""

from __future__ import annotations

from lakebed.base.clock import NS_PER_S


class MinimumRate:
    """Tracks how far a transfer lags.

    Each byte reduces the lag by the time it is allowed to take. The lag is never negative, so a
    fast start does not excuse a slow end.
    """

    __slots__ = ("_lag_ns", "_noted_ns", "_ns_per_byte")

    def __init__(self, *, rate_bytes_min: int, now_ns: int) -> None:
        """`rate_bytes_min` is per second; 0 means no limit."""
        self._ns_per_byte = NS_PER_S // rate_bytes_min if rate_bytes_min else None
        self._lag_ns = 0
        self._noted_ns = now_ns

    def note(self, count: int, now_ns: int, *, was_waited_for: bool) -> None:
        """Records `count` bytes since the last call, and whether the server waited for them."""
        if self._ns_per_byte is not None:
            waited_ns = now_ns - self._noted_ns if was_waited_for else 0
            self._lag_ns = max(0, self._lag_ns + waited_ns - count * self._ns_per_byte)
        self._noted_ns = now_ns

    def is_too_slow(self, now_ns: int, grace_ns: int) -> bool:
        """Returns whether the lag exceeds `grace_ns`. Call only while the server is waiting."""
        if self._ns_per_byte is None:
            return False
        return self._lag_ns + now_ns - self._noted_ns > grace_ns
