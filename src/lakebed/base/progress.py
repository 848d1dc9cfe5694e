"""The type of callbacks that report the progress of long-running work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], object]  # called with the amount done and the total amount


def no_progress(done: int, total: int) -> None:
    """Does nothing. The default callback, for callers that do not display progress."""
