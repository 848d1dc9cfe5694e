"""How a reader handles damage: it raises an error, or reports the damage and continues after it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from lakebed.base.errors import DataError


class Verdict(Enum):
    """The result of checking a file."""

    WHOLE = "whole"  # all contents are valid
    TORN = "torn"  # an unfinished write after the last good record: can be cut off
    CORRUPT = "corrupt"  # damage: reported, never cut off


class Skippable(Protocol):
    """A damaged range that a reader can skip, with the error to raise if it is not skipped."""

    @property
    def error(self) -> DataError: ...


Skipped = TypeVar("Skipped", bound=Skippable)


class DamagePolicy(Generic[Skipped]):
    """Decides what a reader does with a damaged range. Without `skip`, `report` raises the error of
    the range; with `skip`, it passes the range to `on_skipped`, if that is given, and returns.
    """

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
    """Returns the position after the last non-zero byte of `[start, end)`, or `start` if all are
    zero.
    """
    for window_end in range(end, start, -_WINDOW_BYTES):
        window_start = max(start, window_end - _WINDOW_BYTES)
        used = len(bytes(data[window_start:window_end]).rstrip(b"\0"))
        if used:
            return window_start + used
    return start
