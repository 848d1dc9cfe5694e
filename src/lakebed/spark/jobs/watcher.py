"""Who is told how far a job is: nobody, a progress bar, a test."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Called by the job's own thread, or by one that looks at Spark; must not raise."""

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        """A part of the job starts; 0: nobody knows how much of it there is."""

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        """So much of it is done now, in all; with the bytes that were read for it."""

    def report_line(self, text: str) -> None:
        """One line that stays."""


class NullWatcher:
    """The default."""

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None: ...

    def advance(self, done: int, *, size_bytes: int = 0) -> None: ...

    def report_line(self, text: str) -> None: ...
