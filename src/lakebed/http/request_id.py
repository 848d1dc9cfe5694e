"""Request ids: 16 hexadecimal digits, unique within a server and most likely across servers."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

CURRENT: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""The id of the request being handled, for log lines; empty while no request is handled."""

_MASK = (1 << 64) - 1
_STEP = 0x9E37_79B9_7F4A_7C15  # odd, so all 2^64 numbers occur before any repeats


class RequestIds:
    """Generates request ids from a random 64-bit `seed`. Not thread-safe."""

    __slots__ = ("_last",)

    def __init__(self, seed: int) -> None:
        self._last = seed & _MASK

    def take(self) -> str:
        self._last = last = (self._last + _STEP) & _MASK
        return f"{last:016X}"
