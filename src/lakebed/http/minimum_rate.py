"""Checks that a client sends or receives at a minimum rate while the server waits for it."""

from __future__ import annotations

from lakebed.base.clock import NS_PER_S


class MinimumRate:
    """Tracks the lag of a transfer: the time by which it is slower than its minimum rate.

    The lag grows by the time that the server waits. Each byte reduces the lag by the time that a
    byte takes at the minimum rate. The lag is never negative, so a fast start does not excuse a
    slow end.
    """

    __slots__ = ("_lag_ns", "_noted_ns", "_ns_per_byte")

    def __init__(self, *, rate_bytes_min: int, now_ns: int) -> None:
        """`rate_bytes_min` is in bytes per second; 0 means no minimum."""
        self._ns_per_byte = NS_PER_S // rate_bytes_min if rate_bytes_min else None
        self._lag_ns = 0
        self._noted_ns = now_ns

    def note(self, count: int, now_ns: int, *, was_waited_for: bool) -> None:
        """Records that `count` bytes were transferred since the last call.

        `was_waited_for` is whether the server was waiting for the client during that time.
        """
        if self._ns_per_byte is not None:
            waited_ns = now_ns - self._noted_ns if was_waited_for else 0
            self._lag_ns = max(0, self._lag_ns + waited_ns - count * self._ns_per_byte)
        self._noted_ns = now_ns

    def is_too_slow(self, now_ns: int, grace_ns: int) -> bool:
        """Returns whether the lag exceeds `grace_ns`.

        Call it only while the server is waiting for the client.
        """
        if self._ns_per_byte is None:
            return False
        return self._lag_ns + now_ns - self._noted_ns > grace_ns
