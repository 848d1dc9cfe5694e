"""Ids of requests: 16 hexadecimal digits, never twice in a process, unlike in two of them."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

CURRENT: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""Of the request that the running code is about, for log lines; empty outside of any."""

_MASK = (1 << 64) - 1
_STEP = 0x9E37_79B9_7F4A_7C15  # odd: all 2^64 numbers come before one comes again


class RequestIds:
    """`seed` is 64 random bits. Used by one thread."""

    __slots__ = ("_last",)

    def __init__(self, seed: int) -> None:
        self._last = seed & _MASK

    def take(self) -> str:
        self._last = last = (self._last + _STEP) & _MASK
        return f"{last:016X}"
