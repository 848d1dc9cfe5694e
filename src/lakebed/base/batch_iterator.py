"""An iterator over items that arrive in batches: callers take single items, whole batches, or a mix
of both.

No item is lost or repeated when both are mixed. Subclasses define what an item, a batch and a
position are, and how to wait for the next batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sized
from typing import Generic, Self, TypeVar

from lakebed.base.errors import Closed

Item = TypeVar("Item")
Taken = TypeVar("Taken", bound=Sized)
Position = TypeVar("Position")


class BatchIterator(Iterator[Item], Generic[Item, Taken, Position]):
    """Iterates over single items (`for`) or whole batches (`next_batch`).

    A `for` loop waits for new items without a time-out. It ends when the iterator is closed, and
    raises `Closed` if the source of the items is closed.

    Used by one thread; any thread may call `close`.
    """

    def __init__(self, position: Position) -> None:
        self._position = position
        self._batch: Taken | None = None
        self._index = 0  # of the next item in _batch

    @abstractmethod
    def item_of(self, batch: Taken, index: int) -> Item: ...

    @abstractmethod
    def position_of(self, batch: Taken, index: int) -> Position:
        """Returns the position of the item at `index`. If `index` is `len(batch)`, returns the
        position after the batch.
        """

    @abstractmethod
    def rest_of(self, batch: Taken, first: int) -> Taken:
        """Returns the batch without the items before index `first`."""

    @abstractmethod
    def wait_for_batch(self, timeout: float | None) -> Taken | None:
        """Returns the next batch, with at least one item, or None on time-out. Raises `Closed`
        if the iterator or its source was closed.
        """

    @property
    @abstractmethod
    def is_closed(self) -> bool: ...

    @abstractmethod
    def close(self) -> None:
        """Wakes a waiting reader and ends the iteration. Idempotent; any thread may call it."""

    @property
    def position(self) -> Position:
        """The position of the next item to return. A new iterator that starts there continues where
        this one stopped.
        """
        return self._position

    def next_batch(self, timeout: float | None = None) -> Taken | None:
        """Returns the next items, or None if none arrive within `timeout` seconds. By default, the
        wait has no limit. Raises `Closed` if the iterator or its source was closed.
        """
        if self._batch is not None and not self.is_closed:
            batch: Taken | None = self.rest_of(self._batch, self._index)
        else:
            batch = self.wait_for_batch(timeout)
        if batch is not None:
            self._batch = None
            self._position = self.position_of(batch, len(batch))
        return batch

    def __next__(self) -> Item:
        batch = self._batch
        if self.is_closed:
            raise StopIteration
        if batch is None:
            try:
                batch = self.wait_for_batch(None)
            except Closed:
                if self.is_closed:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
