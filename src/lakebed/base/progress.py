"""Progress of long work: how much is done, and of how much."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], object]


def no_progress(done: int, total: int) -> None:
    """The default, for callers that do not display progress."""
