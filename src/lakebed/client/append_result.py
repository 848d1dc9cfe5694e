"""The result of a remote append: the remote form of `AppendFuture`. It is complete from the
start."""

from __future__ import annotations

from collections.abc import Callable

from lakebed.base.errors import LakebedError
from lakebed.keratin.writer_requests import Appended


class AppendResult:
    """The outcome of a remote append: its first offset and number of messages, or its error."""

    __slots__ = ("_outcome", "partition")

    def __init__(self, outcome: Appended | LakebedError, *, partition: int) -> None:
        self._outcome = outcome
        self.partition = partition  # the number of the partition that the messages were sent to

    def result(self, timeout: float | None = None) -> Appended:  # noqa: ARG002 - always done
        """Returns the offset of the first message and the number of messages; raises the error if
        the append failed. Never waits."""
        if isinstance(self._outcome, LakebedError):
            raise self._outcome
        return self._outcome

    def wait(self, timeout: float | None = None) -> Appended:
        """Returns or raises the same as `result`."""
        return self.result(timeout)

    def done(self) -> bool:
        return True

    def exception(self, timeout: float | None = None) -> LakebedError | None:  # noqa: ARG002
        """Returns the error if the append failed, else None."""
        return self._outcome if isinstance(self._outcome, LakebedError) else None

    def add_done_callback(self, callback: Callable[[AppendResult], None]) -> None:
        """Calls the callback immediately, because the append is complete."""
        callback(self)

    def __repr__(self) -> str:
        state = "failed" if isinstance(self._outcome, LakebedError) else repr(self._outcome)
        return f"<AppendResult of partition {self.partition}: {state}>"
