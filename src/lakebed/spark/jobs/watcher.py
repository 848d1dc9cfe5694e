"""The receiver of a job's progress: a progress bar, a test, or none."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Called by the thread of the job or by the thread that polls Spark. Must not raise."""

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        """Called when a part of the job starts. A `total` of 0 means unknown."""

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        """Reports how much of the part is done in total, and how many bytes were read for it."""

    def report_line(self, text: str) -> None:
        """Shows one line of text that stays visible."""


class NullWatcher:
    """Ignores all progress. The default."""

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None: ...

    def advance(self, done: int, *, size_bytes: int = 0) -> None: ...

    def report_line(self, text: str) -> None: ...
