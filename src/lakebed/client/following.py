"""Follows a log over the wire: long polls, one page at a time.

As `lakebed.base.follower.Following`: nothing is lost, repeated or reordered; what retention removed
before it was taken is an error. `close` ends a wait that is under way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING, Generic, TypeVar

from lakebed.base.clock import Clock
from lakebed.base.errors import Closed
from lakebed.base.units import MIB
from lakebed.client.connections import Interruption
from lakebed.client.waiting import Waiting
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.raw_records import batches_in

if TYPE_CHECKING:
    from lakebed.client.partition import RemotePartition

BATCH_BYTES = 1 * MIB

Item = TypeVar("Item")
Taken = TypeVar("Taken", bound=Sized)
Position = TypeVar("Position")


class Polling(Iterator[Item], Generic[Item, Taken, Position]):
    """For one thread; any other may `close` it.

    As an iterator it gives items, waits without end, and ends when it is closed.
    """

    def __init__(self, clock: Clock, position: Position) -> None:
        self._clock = clock
        self._position = position
        self._batch: Taken | None = None
        self._index = 0  # of the next item in _batch
        self._interruption = Interruption()

    @abstractmethod
    def poll(self, wait_ms: int, interruption: Interruption) -> Taken | None:
        """The next items, at least one, and the cursor moved on; None if none came so long."""

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
        return self._interruption.is_set

    def next_batch(self, timeout: float | None = None) -> Taken | None:
        """The next items; waits for one. None if the seconds passed first. `Closed` if it was."""
        batch = self._batch
        if batch is not None and not self._interruption.is_set:
            batch = self.rest_of(batch, self._index)
        else:
            batch = self._waited(timeout)
        if batch is not None:
            self._batch = None
            self._position = self.position_of(batch, len(batch))
        return batch

    def __next__(self) -> Item:
        if self._interruption.is_set:
            raise StopIteration
        if self._batch is None:
            try:
                self._batch = self._waited(None)
            except Closed:
                if self._interruption.is_set:
                    raise StopIteration from None
                raise
            self._index = 0
        batch = self._batch
        assert batch is not None, "waited without a time-out"
        item = self.item_of(batch, self._index)
        self._index += 1
        self._position = self.position_of(batch, self._index)
        if self._index == len(batch):
            self._batch = None
        return item

    def close(self) -> None:
        """Wake whoever waits, and end. Idempotent, from any thread."""
        self._interruption.set()

    def _waited(self, timeout: float | None) -> Taken | None:
        waiting = Waiting(self._clock, timeout)
        while True:
            self._interruption.check()
            wait_ms = waiting.next_ms()
            batch = self.poll(wait_ms, self._interruption)
            if batch is not None or not wait_ms:
                return batch


class PartitionFollower(Polling[Message, MessageBatch, int]):
    """Messages from the offset `start` on, or from the oldest."""

    def __init__(self, partition: RemotePartition, start: int | None, *, clock: Clock) -> None:
        super().__init__(clock, partition.start_offset() if start is None else start)
        self._partition = partition
        self._next = self._position  # from where to fetch on
        self._batches: Iterator[MessageBatch] = iter(())

    def poll(self, wait_ms: int, interruption: Interruption) -> MessageBatch | None:
        batch = next(self._batches, None)
        while batch is None:
            start = self._next
            page = self._partition.page(
                start, max_bytes=BATCH_BYTES, wait_ms=wait_ms, interruption=interruption
            )
            data, _, self._next = page.fetched
            if self._next <= start:
                self._next = start
                return None
            # There may be no message in it: offsets without one, and control records.
            name = self._partition.name
            self._batches = batches_in(data, start=start, end=self._next, name=name)
            batch = next(self._batches, None)
        return batch

    def item_of(self, batch: MessageBatch, index: int) -> Message:
        return batch.message(index)

    def position_of(self, batch: MessageBatch, index: int) -> int:
        return int(batch.offsets[index]) if index < len(batch) else batch.next_offset

    def rest_of(self, batch: MessageBatch, first: int) -> MessageBatch:
        return batch.part(first, len(batch))

    def __enter__(self) -> PartitionFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
