"""The future that an append returns, and the error to raise if several appends partly fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Protocol

from lakebed.base.commit import Ticket
from lakebed.base.errors import Busy, InputError, LakebedError, NoSpace, TooManyFiles
from lakebed.keratin.errors import AppendedPart, PartlyAppended
from lakebed.keratin.writer_requests import Appended

_NOTHING_DONE = (InputError, Busy, NoSpace, TooManyFiles)


class AppendFuture:
    """The result of a queued append, used like a `concurrent.futures.Future`.

    The append completes whether or not a caller waits for it. A thread that waits may become the
    leader, which commits queued appends of other callers too.
    """

    __slots__ = ("_ticket", "partition")

    def __init__(self, ticket: Ticket[Appended], *, partition: int) -> None:
        self._ticket = ticket
        self.partition = partition  # the number of the partition the messages go to

    def result(self, timeout: float | None = None) -> Appended:
        """Waits for the acknowledgement and returns the base offset and the message count.

        Raises the append's error if it failed. Raises `OutcomeUnknown` after `timeout` seconds: the
        append may still succeed. The time-out does not apply while this thread commits the queued
        appends itself.
        """
        return self._ticket.wait(timeout)

    def wait(self, timeout: float | None = None) -> Appended:
        """Same as `result`."""
        return self.result(timeout)

    def done(self) -> bool:
        return self._ticket.is_done

    def exception(self, timeout: float | None = None) -> LakebedError | None:
        """Returns the error of a failed append, or None if it succeeded.

        Raises `OutcomeUnknown` if the append is not done after `timeout` seconds.
        """
        try:
            self._ticket.wait(timeout)
        except LakebedError:
            if not self.done():
                raise
        try:  # again: the append may have completed just after the wait timed out
            self._ticket.result()
        except LakebedError as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[AppendFuture], None]) -> None:
        """Calls `callback` with this future when the append is done, or now if it is done already.

        The callback runs in the thread that completes the append, or in the caller's if the append
        is done already. It must be quick, because callbacks of other appends run after it.
        """
        self._ticket.when_done(lambda: callback(self))

    def __repr__(self) -> str:
        state = "under way"
        if self.done():
            state = "failed"
            with contextlib.suppress(LakebedError):
                state = repr(self.result())
        return f"<AppendFuture of partition {self.partition}: {state}>"


class Outcome(Protocol):
    """The parts of an append's future that `after_failure` uses."""

    @property
    def partition(self) -> int: ...

    def result(self) -> Appended: ...


def after_failure(cause: LakebedError, begun: Iterable[Outcome]) -> LakebedError:
    """Returns the error to raise when one of several appends could not be started.

    Waits for the appends that were started. If any of them succeeded, the error is
    `PartlyAppended`, which lists those that succeeded. Otherwise it is the most serious error: see
    `graver`.
    """
    appended = []
    for outcome in begun:
        try:
            appended.append(AppendedPart(outcome.partition, *outcome.result()))
        except LakebedError as error:
            cause = graver(cause, error)
    return PartlyAppended(cause, appended) if appended else cause


def graver(first: LakebedError | None, second: LakebedError) -> LakebedError:
    """Returns the more serious of two errors, or the first if they are equally serious.

    Returns `second` if `first` is None.

    An error such as `Busy` means that nothing was written. It must not hide an error after which
    messages may be in the log, such as a failed sync: the caller would send those messages again.
    """
    if first is None:
        return second
    is_hiding = isinstance(first, _NOTHING_DONE) and not isinstance(second, _NOTHING_DONE)
    return second if is_hiding else first
