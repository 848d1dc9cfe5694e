"""What an append gives back: the promise of an offset."""

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
    """As a `concurrent.futures.Future`, but nobody need wait for it: the append is done anyway.

    Who waits may be the one who commits, for everybody whose append is queued.
    """

    __slots__ = ("_ticket", "partition")

    def __init__(self, ticket: Ticket[Appended], *, partition: int) -> None:
        self._ticket = ticket
        self.partition = partition  # which one the messages go to

    def result(self, timeout: float | None = None) -> Appended:
        """The base offset and the count, once acknowledged.

        `OutcomeUnknown` if the seconds passed first: the append is queued, and may still be done.
        """
        return self._ticket.wait(timeout)

    def wait(self, timeout: float | None = None) -> Appended:
        """As `result`."""
        return self.result(timeout)

    def done(self) -> bool:
        return self._ticket.is_done

    def exception(self, timeout: float | None = None) -> LakebedError | None:
        """Why it failed; None if it did not. `OutcomeUnknown` if the seconds passed first."""
        try:
            self.result(timeout)
        except LakebedError as error:
            if not self.done():
                raise
            return error
        return None

    def add_done_callback(self, callback: Callable[[AppendFuture], None]) -> None:
        """Call it when the append is done (now, if it is), in whatever thread that is.

        It must be quick: others wait behind it.
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
    """An append that was begun, here or over the wire."""

    @property
    def partition(self) -> int: ...

    def result(self) -> Appended: ...


def after_failure(cause: LakebedError, begun: Iterable[Outcome]) -> LakebedError:
    """What to tell if one of several appends could not be begun: what became of the others.

    Waits for them.
    """
    appended = []
    for one in begun:
        try:
            appended.append(AppendedPart(one.partition, *one.result()))
        except LakebedError as error:
            cause = graver(cause, error)
    return PartlyAppended(cause, appended) if appended else cause


def graver(first: LakebedError | None, second: LakebedError) -> LakebedError:
    """Which of two is told: the first, unless that changed nothing, and of the other who knows.

    A refusal (`Busy`) must not hide a sync that failed: who trusts it would send that one again.
    """
    if first is None:
        return second
    is_hiding = isinstance(first, _NOTHING_DONE) and not isinstance(second, _NOTHING_DONE)
    return second if is_hiding else first
