"""Follows a log or a partition of a topic: returns records as they become durable, singly or in
batches, and waits for more. Below, "log" also means a partition.

A log that is open for writing wakes its followers. A log that was opened read-only polls, because
another process writes it. No record is lost, repeated or reordered when segments are sealed, moved
or removed. If retention removes records that a follower has not read, the follower raises an error
instead of skipping them silently.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sized
from typing import Protocol, TypeVar

from lakebed.base.batch_iterator import BatchIterator, Item, Position, Taken
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.runner import Runner

Taken_co = TypeVar("Taken_co", bound=Sized, covariant=True)
Position_co = TypeVar("Position_co", covariant=True)


class Cursor(Protocol[Taken_co, Position_co]):
    """Reads a log from a position on, and advances the position. Never waits for new items."""

    @property
    def position(self) -> Position_co: ...

    def take(self) -> Taken_co | None:
        """Returns the durable items at `position`, at least one, and moves the position past them.
        Returns None if there are none yet.
        """

    def close(self) -> None:
        """Closes the cursor. Idempotent; any thread may call it."""


class FollowedLog(Protocol):
    """The methods of a log that its followers use."""

    @property
    def runner(self) -> Runner: ...

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]: ...


def listen_weakly(
    view: FollowedLog, callback: Callable[[], None], *, on_dropped: Callable[[], None]
) -> Callable[[], None]:
    """Subscribes a bound method to `view.on_durable` without keeping the method's object alive.

    Returns a function that ends the subscription. If the object is garbage-collected before that,
    the next change of the log or the next subscription to it ends this subscription and calls
    `on_dropped`.
    """
    listener = _WeakListener(callback, on_dropped)
    listener.stop = view.on_durable(listener)
    return listener.stop


class _WeakListener:
    def __init__(self, callback: Callable[[], None], on_dropped: Callable[[], None]) -> None:
        self._method = weakref.WeakMethod(callback)
        self._on_dropped = on_dropped
        self.stop: Callable[[], None] | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether the object of the subscribed method was garbage-collected."""
        return self._method() is None

    def __call__(self) -> None:
        wake = self._method()
        if wake is not None:
            wake()
        elif self.stop is not None:
            self.stop()
            self._on_dropped()


class FollowerBase(BatchIterator[Item, Taken, Position]):
    """The base class of the followers of logs and partitions.

    A read raises `NotFound` if retention removed records that were not read yet, and `Closed` if
    the log was closed.
    """

    def __init__(self, view: FollowedLog, cursor: Cursor[Taken, Position]) -> None:
        super().__init__(cursor.position)
        self._view = view
        self._cursor = cursor
        self._is_closed = False
        self._moved = view.runner.event()
        self._unsubscribe = listen_weakly(view, self._wake, on_dropped=cursor.close)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True
        self._unsubscribe()
        self._wake()
        self._cursor.close()

    def wait_for_batch(self, timeout: float | None) -> Taken | None:
        clock = self._view.runner.clock
        deadline = None if timeout is None else clock.monotonic_ns() + round(timeout * NS_PER_S)
        while True:
            # The event is created before the read, so that it is set if an item arrives in between.
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
