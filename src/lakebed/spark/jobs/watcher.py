"""The interface to which a job reports its progress, for example to show a progress bar."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Receives the progress of a job.

    The methods may be called in the thread of the job, or in the thread that polls Spark. They must
    not raise an error.
    """

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        """Called when a step of the job starts; `what` names it. A `total` of 0 means unknown."""

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        """Called with how much of the current step is done so far, in the unit of the step, and
        about how many bytes that is.
        """

    def report_line(self, text: str) -> None:
        """Shows one line of text, which stays visible while the progress changes."""


class NullWatcher:
    """A watcher that ignores all progress; jobs use it if the caller passes none."""

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None: ...

    def advance(self, done: int, *, size_bytes: int = 0) -> None: ...

    def report_line(self, text: str) -> None: ...
