"""What a reader does when it meets damage: raise an error, or report the damage and read on
after it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from lakebed.base.errors import DataError


class Verdict(Enum):
    """The three states of a file, which are never merged."""

    WHOLE = "whole"  # everything that is there matches
    TORN = "torn"  # bytes after the last good record, with nothing valid after them: can be cut
    CORRUPT = "corrupt"  # damage: reported, never cut


class Skippable(Protocol):
    """A range that was not read, and the reason."""

    @property
    def error(self) -> DataError: ...


Skipped = TypeVar("Skipped", bound=Skippable)


class DamagePolicy(Generic[Skipped]):
    """Raises at damage, or reports it and skips it."""

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
