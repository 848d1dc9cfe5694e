# Made by `python -m tools.asynced` of `src/lakebed/base/batch_iterator.py`: edit that.
"""An iterator over items that arrive in batches: callers take single items, whole batches, or a mix
of both.

Mixing loses and repeats nothing. Subclasses define what an item, a batch and a position are, and
how the next batch is awaited.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sized
from typing import Generic, Self, TypeVar

from lakebed.base.errors import Closed

Item = TypeVar("Item")
Taken = TypeVar("Taken", bound=Sized)
Position = TypeVar("Position")


class BatchIterator(AsyncIterator[Item], Generic[Item, Taken, Position]):
    """Used by one thread; any thread may call `close`.

    Iterating returns items, waits without a time-out, and stops when the iterator is closed.
    """

    def __init__(self, position: Position) -> None:
        self._position = position
        self._batch: Taken | None = None
        self._index = 0  # of the next item in _batch

    @abstractmethod
    def item_of(self, batch: Taken, index: int) -> Item: ...

    @abstractmethod
    def position_of(self, batch: Taken, index: int) -> Position:
        """Returns where that item starts, or, for the index `len(batch)`, where reading
        continues after the batch.
        """

    @abstractmethod
    def rest_of(self, batch: Taken, first: int) -> Taken:
        """Returns the batch without the items before index `first`."""

    @abstractmethod
    async def wait_for_batch(self, timeout: float | None) -> Taken | None:
        """Returns the next batch, with at least one item, or None on time-out. Raises `Closed`
        once closed.
        """

    @property
    @abstractmethod
    def is_closed(self) -> bool: ...

    @abstractmethod
    def close(self) -> None:
        """Wakes a waiting reader and ends the iteration. Idempotent; any thread may call it."""

    @property
    def position(self) -> Position:
        """The position after the last item returned. A new follower that starts there continues
        this one.
        """
        return self._position

    async def next_batch(self, timeout: float | None = None) -> Taken | None:
        """Waits for the next items and returns them, or None after `timeout` seconds.

        Raises `Closed` if the follower or its log was closed.
        """
        if self._batch is not None and not self.is_closed:
            batch: Taken | None = self.rest_of(self._batch, self._index)
        else:
            batch = await self.wait_for_batch(timeout)
        if batch is not None:
            self._batch = None
            self._position = self.position_of(batch, len(batch))
        return batch

    async def __anext__(self) -> Item:
        batch = self._batch
        if self.is_closed:
            raise StopAsyncIteration
        if batch is None:
            try:
                batch = await self.wait_for_batch(None)
            except Closed:
                if self.is_closed:
                    raise StopAsyncIteration from None
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
