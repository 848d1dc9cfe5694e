"""The callback for the progress of long-running work: called with the amount done and the total."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], object]


def no_progress(done: int, total: int) -> None:
    """Does nothing. The default for callers that do not display progress."""
