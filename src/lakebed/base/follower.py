"""Follows a log: gives what becomes durable, one by one or in batches, and waits in between.

It is woken by the log and never polls. Nothing is lost, repeated or reordered, whatever happens to
the log's segments meanwhile; if retention removes what was not taken yet, that is an error and not
a gap. What an item, a batch and a position are, the engines say.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sized
from typing import Generic, Protocol, TypeVar

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.runner import Runner

Item = TypeVar("Item")
Taken = TypeVar("Taken", bound=Sized)
Position = TypeVar("Position")
Taken_co = TypeVar("Taken_co", bound=Sized, covariant=True)
Position_co = TypeVar("Position_co", covariant=True)


class Cursor(Protocol[Taken_co, Position_co]):
    """A place from which reading goes on. It never waits."""

    @property
    def position(self) -> Position_co: ...

    def take(self) -> Taken_co | None:
        """The next durable items, at least one; None if there are none beyond `position` now."""

    def close(self) -> None:
        """Idempotent, from any thread."""


class Followed(Protocol):
    """A log as its followers see it."""

    @property
    def runner(self) -> Runner: ...

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]: ...


class Following(Iterator[Item], Generic[Item, Taken, Position]):
    """For one thread; any other may `close` it.

    As an iterator it gives items, waits without end, and ends when it is closed. `NotFound` if it
    fell behind retention, `Closed` if the log was closed.
    """

    def __init__(self, view: Followed, cursor: Cursor[Taken, Position]) -> None:
        self._view = view
        self._cursor = cursor
        self._position = cursor.position
        self._batch: Taken | None = None
        self._index = 0  # of the next item in _batch
        self._is_closed = False
        self._moved = view.runner.event()
        self._unsubscribe = view.on_durable(self._wake)

    @abstractmethod
    def item_of(self, batch: Taken, index: int) -> Item: ...

    @abstractmethod
    def position_of(self, batch: Taken, index: int) -> Position:
        """Where that item begins; for an index of `len`: where reading goes on behind all."""

    @abstractmethod
    def rest_of(self, batch: Taken, first: int) -> Taken:
        """Without the items before that one."""

    @property
    def position(self) -> Position:
        """Behind the last item given out: a follower that starts there continues this one."""
        return self._position

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def next_batch(self, timeout: float | None = None) -> Taken | None:
        """The next items; waits for one. None if the seconds passed first.

        `Closed` if the follower or its log was closed.
        """
        batch = self._rest()
        if batch is None:
            batch = self._wait_for_batch(timeout)
        if batch is not None:
            self._batch = None
            self._position = self.position_of(batch, len(batch))
        return batch

    def __next__(self) -> Item:
        batch = self._batch
        if self._is_closed:
            raise StopIteration
        if batch is None:
            try:
                batch = self._wait_for_batch(None)
            except Closed:
                if self._is_closed:
                    raise StopIteration from None
                raise
            assert batch is not None, "waited without a time-out"
            self._batch = batch
            self._index = 0
        item = self.item_of(batch, self._index)
        self._index += 1
        self._position = self.position_of(batch, self._index)
        if self._index == len(batch):
            self._batch = None
        return item

    def close(self) -> None:
        """Wake whoever waits, and end. Idempotent, from any thread."""
        self._is_closed = True
        self._unsubscribe()
        self._wake()
        self._cursor.close()

    def _rest(self) -> Taken | None:
        """What is left of a batch that was begun item by item."""
        if self._is_closed or self._batch is None:
            return None
        return self.rest_of(self._batch, self._index)

    def _wait_for_batch(self, timeout: float | None) -> Taken | None:
        clock = self._view.runner.clock
        deadline = None if timeout is None else clock.monotonic_ns() + round(timeout * NS_PER_S)
        while True:
            # First the event, then the look: a move in between sets it, and is seen or waited for.
            self._moved = moved = self._view.runner.event()
            if self._is_closed:
                raise Closed("the follower was closed")
            batch = self._cursor.take()
            if batch is not None:
                return batch
            self._position = self._cursor.position
            left = None if deadline is None else (deadline - clock.monotonic_ns()) / NS_PER_S
            if left is not None and left <= 0:
                return None
            moved.wait(left)

    def _wake(self) -> None:
        self._moved.set()
