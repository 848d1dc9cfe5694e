"""What an append over the wire gives back: as `AppendFuture`, and done when it is handed out."""

from __future__ import annotations

from collections.abc import Callable

from lakebed.base.errors import LakebedError
from lakebed.keratin.writer_requests import Appended


class AppendResult:
    """The base offset and the count, or why not."""

    __slots__ = ("_outcome", "partition")

    def __init__(self, outcome: Appended | LakebedError, *, partition: int) -> None:
        self._outcome = outcome
        self.partition = partition  # which one the messages went to

    def result(self, timeout: float | None = None) -> Appended:  # noqa: ARG002 - it is done
        """The base offset and the count."""
        if isinstance(self._outcome, LakebedError):
            raise self._outcome
        return self._outcome

    def wait(self, timeout: float | None = None) -> Appended:
        """As `result`."""
        return self.result(timeout)

    def done(self) -> bool:
        return True

    def exception(self, timeout: float | None = None) -> LakebedError | None:  # noqa: ARG002
        """Why it failed; None if it did not."""
        return self._outcome if isinstance(self._outcome, LakebedError) else None

    def add_done_callback(self, callback: Callable[[AppendResult], None]) -> None:
        """It is called now."""
        callback(self)

    def __repr__(self) -> str:
        state = "failed" if isinstance(self._outcome, LakebedError) else repr(self._outcome)
        return f"<AppendResult of partition {self.partition}: {state}>"
