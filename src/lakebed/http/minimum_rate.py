"""Whether a client keeps up with the minimum rate, in the time that it is waited for."""

from __future__ import annotations

from lakebed.base.clock import NS_PER_S


class MinimumRate:
    """Every byte makes up for the time it may take. What came early counts for nothing later."""

    __slots__ = ("_behind_ns", "_ns_per_byte", "_seen_ns")

    def __init__(self, *, rate_bytes_min: int, now_ns: int) -> None:
        """`rate_bytes_min` is per second; 0 is no limit."""
        self._ns_per_byte = NS_PER_S // rate_bytes_min if rate_bytes_min else None
        self._behind_ns = 0
        self._seen_ns = now_ns

    def note(self, count: int, now_ns: int, *, was_waited_for: bool) -> None:
        """So many bytes moved since the last call, in which time it was waited for them or not."""
        if self._ns_per_byte is not None:
            waited_ns = now_ns - self._seen_ns if was_waited_for else 0
            self._behind_ns = max(0, self._behind_ns + waited_ns - count * self._ns_per_byte)
        self._seen_ns = now_ns

    def is_too_slow(self, now_ns: int, grace_ns: int) -> bool:
        """While it is waited for."""
        if self._ns_per_byte is None:
            return False
        return self._behind_ns + now_ns - self._seen_ns > grace_ns
