"""Appends messages to a topic in batches, and counts the acknowledged messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebed.base.errors import Closed, LakebedError
from lakebed.cli.message_lines import Messages
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.format import RECORD_OVERHEAD
from lakebed.keratin.headers import encode_headers
from lakebed.keratin.partitioner import partition_of

if TYPE_CHECKING:
    from lakebed.api.surface import PendingAppend, Topic

Reopen = Callable[[LakebedError], "Topic"]
"""Opens the topic again after the process that served it stopped responding, or raises the given
error."""

_PENDING_MAX = 64  # appends
_MESSAGES_MAX = 100_000  # of an append
_KEY_OVERHEAD = len(encode_headers(b"", None))


@dataclass
class PartitionCount:
    """The number of acknowledged messages in one partition, and their first and last offset."""

    messages: int
    first_offset: int
    last_offset: int


class TopicAppender:
    """Appends to one topic. Waits for acknowledgements only if too many appends are pending."""

    def __init__(
        self,
        topic: Topic,
        *,
        reopen: Reopen | None = None,
        partition: int | None = None,
        ack: Ack | None = None,
    ) -> None:
        """Raises `NotFound` if there is no such partition.

        `reopen` is passed to `NumberedAppends`; it is None if the topic never has to be reopened.
        """
        if partition is not None:
            topic.partition(partition)
        self._topic = topic
        self._numbered = None if reopen is None else NumberedAppends(topic, reopen)
        self._turn = 0
        self._partition = partition
        self._ack = ack
        self._bytes_max = topic.config.request_bytes_max
        self._pending: deque[PendingAppend] = deque()
        self.partitions: dict[int, PartitionCount] = {}

    @property
    def count(self) -> int:
        """The number of messages that are known to be acknowledged."""
        return sum(partition.messages for partition in self.partitions.values())

    def append(self, messages: Messages) -> None:
        for part in self._parts(messages):
            for future in self._append(part):
                self._pending.append(future)
            while len(self._pending) > _PENDING_MAX or self._is_next_done():
                self._wait()

    def finish(self) -> None:
        """Waits until all messages are acknowledged."""
        while self._pending:
            self._wait()

    def count_rest(self) -> None:
        """After an append failed, counts the other appends that are already acknowledged."""
        done = [future for future in self._pending if future.done()]
        self._pending = deque(future for future in done if future.exception() is None)
        self.finish()

    def _is_next_done(self) -> bool:
        return bool(self._pending) and self._pending[0].done()

    def _append(self, messages: Messages) -> Iterator[PendingAppend]:
        keys, values = messages
        if self._numbered is not None:
            for number, part in self._by_partition(messages):
                yield self._numbered.append(number, part, self._ack)
        elif self._partition is not None:
            partition = self._topic.partition(self._partition)
            yield partition.append_batch(values, keys=keys, ack=self._ack)
        elif keys is None:
            yield self._topic.append_batch(values, ack=self._ack)
        else:
            yield from self._topic.append_keyed(zip(keys, values, strict=True), ack=self._ack)

    def _by_partition(self, messages: Messages) -> list[tuple[int, Messages]]:
        """Divides messages by partition, as the topic does.

        All go to the partition that was given, else by their keys, else to the next partition in
        turn.
        """
        keys, values = messages
        count = self._topic.partition_count
        if self._partition is not None:
            return [(self._partition, messages)]
        if keys is None:
            self._turn = (self._turn + 1) % count
            return [(self._turn, messages)]
        parts: dict[int, tuple[list[bytes], list[bytes | None]]] = {}
        for key, value in zip(keys, values, strict=True):
            their_keys, their_values = parts.setdefault(partition_of(key, count), ([], []))
            their_keys.append(key)
            their_values.append(value)
        return [(number, Messages(*part)) for number, part in sorted(parts.items())]

    def _parts(self, messages: Messages) -> Iterator[Messages]:
        """Splits messages into appends that are small enough for the topic.

        A single message is never split.
        """
        keys, values = messages
        size = len(values) * (RECORD_OVERHEAD + _KEY_OVERHEAD)
        size += sum(len(value or b"") for value in values) + sum(map(len, keys or ()))
        is_small = size <= self._bytes_max and len(values) <= _MESSAGES_MAX
        if is_small or len(values) == 1:
            yield messages
            return
        half = len(values) // 2
        for part in (slice(half), slice(half, None)):
            yield from self._parts(Messages(None if keys is None else keys[part], values[part]))

    def _wait(self) -> None:
        future = self._pending.popleft()
        base_offset, count = future.result()
        last_offset = base_offset + count - 1
        count_before = self.partitions.get(future.partition)
        if count_before is None:
            self.partitions[future.partition] = PartitionCount(count, base_offset, last_offset)
        else:
            count_before.messages += count
            count_before.last_offset = last_offset


class NumberedAppends:
    """Appends to a topic that another process has open, one append at a time, as an idempotent
    producer.

    If that process ends, `reopen` opens the topic again, and the last append is repeated if its
    response was lost. The producer's sequence numbers identify messages that were already stored,
    so that they are stored only once. Not thread-safe.
    """

    def __init__(self, topic: Topic, reopen: Reopen) -> None:
        # The client is imported only if another process has the store open.
        from lakebed.client.producer_pool import OwnProducer, random_id

        self._topic: Topic = topic
        self._reopen = reopen
        self._own = OwnProducer(random_id())

    def append(self, partition: int, messages: Messages, ack: Ack | None) -> PendingAppend:
        from lakebed.api.problems import Unreachable

        try:
            future = self._sent(partition, messages, ack)
        except (Unreachable, Closed) as error:
            self._topic = self._reopen(error)
            future = self._sent(partition, messages, ack)
        self._own.advance(self._topic.name, partition, len(messages.values))
        return future

    def _sent(self, partition: int, messages: Messages, ack: Ack | None) -> PendingAppend:
        """Sends an append. Raises `Unreachable` if there was no response; other errors are in the
        returned future."""
        from lakebed.api.problems import Unreachable

        future = self._topic.partition(partition).append_batch(
            messages.values,
            keys=messages.keys,
            producer=self._own.at(self._topic.name, partition),
            ack=ack,
        )
        error = future.exception() if future.done() else None
        if isinstance(error, Unreachable):
            raise error
        return future


def message_bytes_max(config: TopicConfig, *, has_keys: bool) -> int:
    """Returns the maximum size in bytes of the key and the value of a message together."""
    headers_bytes = _KEY_OVERHEAD if has_keys else 0
    by_request = config.request_bytes_max - RECORD_OVERHEAD
    return min(config.message_bytes_max, by_request) - headers_bytes
