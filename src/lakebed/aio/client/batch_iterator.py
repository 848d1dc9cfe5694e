# Made by `python -m tools.asynced` of `src/lakebed/base/batch_iterator.py`: edit that.
"""Items one by one, or the batches they come in: whoever mixes both loses and repeats nothing.

What an item, a batch and a position are, the engines say; where batches come from, and how they are
waited for, their followers.
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
    """For one task; any other may `close` it.

    As an iterator it gives items, waits without end, and ends when it is closed.
    """

    def __init__(self, position: Position) -> None:
        self._position = position
        self._batch: Taken | None = None
        self._index = 0  # of the next item in _batch

    @abstractmethod
    def item_of(self, batch: Taken, index: int) -> Item: ...

    @abstractmethod
    def position_of(self, batch: Taken, index: int) -> Position:
        """Where that item begins; for an index of `len`: where reading goes on behind all."""

    @abstractmethod
    def rest_of(self, batch: Taken, first: int) -> Taken:
        """Without the items before that one."""

    @abstractmethod
    async def wait_for_batch(self, timeout: float | None) -> Taken | None:
        """The next items, at least one; None if the seconds passed first. `Closed` if it was."""

    @property
    @abstractmethod
    def is_closed(self) -> bool: ...

    @abstractmethod
    def close(self) -> None:
        """Wake whoever waits, and end. Idempotent."""

    @property
    def position(self) -> Position:
        """Behind the last item given out: a follower that starts there continues this one."""
        return self._position

    async def next_batch(self, timeout: float | None = None) -> Taken | None:
        """The next items; waits for one. None if the seconds passed first.

        `Closed` if the follower or its log was closed.
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
