# Made by `python -m tools.asynced` of `src/lakebed/client/followers.py`: edit that.
"""Follows partitions and topics over the wire: long polls, one page at a time.

As `lakebed.base.follower`: nothing is lost, repeated or reordered; what retention removed
before it was taken is an error. `close` ends a wait that is under way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Self

from lakebed.aio.client.batch_iterator import BatchIterator, Item, Position, Taken
from lakebed.aio.client.connection_pool import Interruption
from lakebed.aio.client.message_iterator import MessageIterator
from lakebed.base.clock import Clock
from lakebed.base.units import MIB
from lakebed.client.long_wait import LongWait
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.raw_records import batches_in
from lakebed.store.topic_follower import FollowedPartition

if TYPE_CHECKING:
    from lakebed.aio.client.partition import AsyncPartition

BATCH_BYTES = 1 * MIB
MOMENT_MS = 200  # that one of several partitions is waited for
MS_PER_S = 1000


class PollingIterator(BatchIterator[Item, Taken, Position]):
    """Waits by asking again, for a minute at the most each time."""

    def __init__(self, clock: Clock, position: Position) -> None:
        super().__init__(position)
        self._clock = clock
        self._interruption = Interruption()

    @abstractmethod
    async def poll(self, wait_ms: int, interruption: Interruption) -> Taken | None:
        """The next items, at least one, and the cursor moved on; None if none came so long."""

    @property
    def is_closed(self) -> bool:
        return self._interruption.is_set

    def close(self) -> None:
        self._interruption.set()

    async def wait_for_batch(self, timeout: float | None) -> Taken | None:
        waiting = LongWait(self._clock, timeout)
        while True:
            self._interruption.check()
            wait_ms = waiting.next_ms()
            batch = await self.poll(wait_ms, self._interruption)
            if batch is not None or not wait_ms:
                return batch


class PartitionFollower(MessageIterator, PollingIterator[Message, MessageBatch, int]):
    """Messages from the offset `start` on."""

    def __init__(self, partition: AsyncPartition, start: int, *, clock: Clock) -> None:
        PollingIterator.__init__(self, clock, start)
        self._partition = partition
        self._next = self._position  # from where to fetch on
        self._batches: Iterator[MessageBatch] = iter(())

    async def poll(self, wait_ms: int, interruption: Interruption) -> MessageBatch | None:
        batch = next(self._batches, None)
        while batch is None:
            start = self._next
            page = await self._partition.page(
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


class AsyncTopicFollower:
    """Follows several partitions of a topic. For one task.

    While none of them has messages one is asked at a time, and the server waits for it a moment;
    so a message comes at the latest after as many moments as there are partitions.
    """

    def __init__(self, followers: Mapping[int, PartitionFollower], *, clock: Clock) -> None:
        assert followers, "a follower of nothing would wait for ever"
        self._followers = dict(followers)
        self._clock = clock
        self._turn = deque(self._followers)

    @property
    def positions(self) -> dict[int, int]:
        """The offset after the last messages given out, by partition."""
        return {number: follower.position for number, follower in self._followers.items()}

    async def next_batch(self, timeout: float | None = None) -> FollowedPartition | None:
        """The next messages; waits for one. None if the seconds passed first."""
        waiting = LongWait(self._clock, timeout)
        idle = 0  # partitions without messages since the last one with some
        while True:
            wait_ms = min(waiting.next_ms(), MOMENT_MS) if idle >= len(self._turn) else 0
            number = self._turn[0]
            self._turn.rotate(-1)
            batch = await self._followers[number].next_batch(wait_ms / MS_PER_S)
            if batch is not None:
                return FollowedPartition(number, batch)
            idle += 1
            if idle >= len(self._turn) and not waiting.next_ms():
                return None

    def close(self) -> None:
        """Idempotent."""
        for follower in self._followers.values():
            follower.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
