"""What a reader does about damage: it raises, or it tells somebody and goes on behind it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from lakebed.base.errors import DataError


class Verdict(Enum):
    """The three states of a file; they are never merged."""

    WHOLE = "whole"  # everything that is there matches
    TORN = "torn"  # bytes behind the last good record, nothing valid behind them: can be cut
    CORRUPT = "corrupt"  # damage: reported, never cut


class Skippable(Protocol):
    """Something that was not read, and why."""

    @property
    def error(self) -> DataError: ...


Skipped = TypeVar("Skipped", bound=Skippable)


class DamagePolicy(Generic[Skipped]):
    """Raise at damage, or skip it and report."""

    def __init__(
        self, *, skip: bool, on_skipped: Callable[[Skipped], object] | None = None
    ) -> None:
        self.skips = skip
        self._on_skipped = on_skipped

    def report(self, skipped: Skipped) -> None:
        if not self.skips:
            raise skipped.error
        if self._on_skipped is not None:
            self._on_skipped(skipped)


_WINDOW_BYTES = 1 << 20


def end_of_bytes(data: memoryview, start: int, end: int) -> int:
    """Behind the last byte of `[start, end)` that is not zero; `start` if all are."""
    for window_end in range(end, start, -_WINDOW_BYTES):
        window_start = max(start, window_end - _WINDOW_BYTES)
        used = len(bytes(data[window_start:window_end]).rstrip(b"\0"))
        if used:
            return window_start + used
    return start
