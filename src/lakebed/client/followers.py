"""Follows remote partitions and topics by long polls. Each poll fetches one page.

As in `lakebed.base.follower`, no message is lost, repeated or reordered; if retention removes
messages before the follower has fetched them, the follower raises an error. `close` ends a wait
that is in progress.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Self

from lakebed.base.batch_iterator import BatchIterator, Item, Position, Taken
from lakebed.base.clock import Clock
from lakebed.base.units import MIB
from lakebed.client.connection_pool import Interruption
from lakebed.client.long_wait import LongWait
from lakebed.keratin.follower import MessageIterator
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.raw_records import batches_in
from lakebed.store.topic_follower import FollowedPartition

if TYPE_CHECKING:
    from lakebed.client.partition import RemotePartition

BATCH_BYTES = 1 * MIB
MOMENT_MS = 200  # per poll of one of several partitions
MS_PER_S = 1000


class PollingIterator(BatchIterator[Item, Taken, Position]):
    """An iterator that waits for new items by repeated long polls: calls that wait on the server
    until there is an item, for a limited time."""

    def __init__(self, clock: Clock, position: Position) -> None:
        super().__init__(position)
        self._clock = clock
        self._interruption = Interruption()

    @abstractmethod
    def poll(self, wait_ms: int, interruption: Interruption) -> Taken | None:
        """Returns the items after those that the previous poll returned, at least one. Returns None
        if none arrive within `wait_ms`."""

    @property
    def is_closed(self) -> bool:
        return self._interruption.is_set

    def close(self) -> None:
        self._interruption.set()

    def wait_for_batch(self, timeout: float | None) -> Taken | None:
        waiting = LongWait(self._clock, timeout)
        while True:
            self._interruption.check()
            wait_ms = waiting.next_ms()
            batch = self.poll(wait_ms, self._interruption)
            if batch is not None or not wait_ms:
                return batch


class PartitionFollower(MessageIterator, PollingIterator[Message, MessageBatch, int]):
    """Iterates over the messages of one partition from the offset `start` on, and waits for new
    ones."""

    def __init__(self, partition: RemotePartition, start: int, *, clock: Clock) -> None:
        PollingIterator.__init__(self, clock, start)
        self._partition = partition
        self._next = self._position  # where the next fetch starts
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
            # A page may have no messages, only gaps and control records.
            name = self._partition.name
            self._batches = batches_in(data, start=start, end=self._next, name=name)
            batch = next(self._batches, None)
        return batch


class RemoteTopicFollower:
    """Reads several partitions of a topic, and waits for new messages. For one thread.

    While no partition has messages, it polls one partition after the other, each for `MOMENT_MS`.
    So a new message is returned after about `MOMENT_MS` times the number of partitions at the
    latest.
    """

    def __init__(self, followers: Mapping[int, PartitionFollower], *, clock: Clock) -> None:
        assert followers, "a follower without partitions would wait for ever"
        self._followers = dict(followers)
        self._clock = clock
        self._turn = deque(self._followers)

    @property
    def positions(self) -> dict[int, int]:
        """The offset of the next message to return from each partition, by partition number."""
        return {number: follower.position for number, follower in self._followers.items()}

    def next_batch(self, timeout: float | None = None) -> FollowedPartition | None:
        """Waits for new messages, and returns some of one partition. Returns None if `timeout`
        seconds pass first; by default, the wait has no limit."""
        waiting = LongWait(self._clock, timeout)
        idle = 0  # partitions polled in a row without messages
        while True:
            wait_ms = min(waiting.next_ms(), MOMENT_MS) if idle >= len(self._turn) else 0
            number = self._turn[0]
            self._turn.rotate(-1)
            batch = self._followers[number].next_batch(wait_ms / MS_PER_S)
            if batch is not None:
                return FollowedPartition(number, batch)
            idle += 1
            if idle >= len(self._turn) and not waiting.next_ms():
                return None

    def close(self) -> None:
        """Ends the iteration, and a wait in progress. Idempotent."""
        for follower in self._followers.values():
            follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
