"""Appends messages to a topic, many on their way at a time, and counts what was acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.cli.topic_lines import Messages
from lakebed.keratin.append_future import AppendFuture
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.format import RECORD_OVERHEAD
from lakebed.keratin.headers import encode_headers
from lakebed.store.topics import StoreTopic

_UNDER_WAY_MAX = 64  # appends
_KEY_OVERHEAD = len(encode_headers(b"", None))


@dataclass
class PartitionCount:
    """What one partition acknowledged."""

    messages: int
    first_offset: int
    last_offset: int


class TopicAppender:
    """Nothing waits for an acknowledgement until `finish`, or until too much is under way."""

    def __init__(
        self, topic: StoreTopic, *, partition: int | None = None, ack: Ack | None = None
    ) -> None:
        """`NotFound` if there is no such partition."""
        if partition is not None:
            topic.partition(partition)
        self._topic = topic
        self._partition = partition
        self._ack = ack
        self._bytes_max = topic.config.request_bytes_max
        self._under_way: deque[AppendFuture] = deque()
        self.partitions: dict[int, PartitionCount] = {}

    @property
    def count(self) -> int:
        """Messages that were acknowledged."""
        return sum(partition.messages for partition in self.partitions.values())

    def append(self, messages: Messages) -> None:
        for part in self._parts(messages):
            self._under_way.extend(self._append(part))
        while len(self._under_way) > _UNDER_WAY_MAX:
            self._wait()

    def finish(self) -> None:
        """Until everything is acknowledged."""
        while self._under_way:
            self._wait()

    def _append(self, messages: Messages) -> list[AppendFuture]:
        keys, values = messages
        if self._partition is not None:
            partition = self._topic.partition(self._partition)
            return [partition.append_batch(values, keys=keys, ack=self._ack)]
        if keys is None:
            return [self._topic.append_batch(values, ack=self._ack)]
        return self._topic.append_keyed(zip(keys, values, strict=True), ack=self._ack)

    def _parts(self, messages: Messages) -> Iterator[Messages]:
        """The same messages in appends that the topic takes."""
        keys, values = messages
        size = len(values) * (RECORD_OVERHEAD + _KEY_OVERHEAD)
        size += sum(len(value or b"") for value in values) + sum(map(len, keys or ()))
        if size <= self._bytes_max or len(values) == 1:
            yield messages
            return
        half = len(values) // 2
        for part in (slice(half), slice(half, None)):
            yield from self._parts(Messages(None if keys is None else keys[part], values[part]))

    def _wait(self) -> None:
        future = self._under_way.popleft()
        base_offset, count = future.result()
        last_offset = base_offset + count - 1
        found = self.partitions.get(future.partition)
        if found is None:
            self.partitions[future.partition] = PartitionCount(count, base_offset, last_offset)
        else:
            found.messages += count
            found.last_offset = last_offset


def message_bytes_max(config: TopicConfig, *, has_keys: bool) -> int:
    """How long the key and the value of a message may be together."""
    headers_bytes = _KEY_OVERHEAD if has_keys else 0
    by_request = config.request_bytes_max - RECORD_OVERHEAD
    return min(config.message_bytes_max, by_request) - headers_bytes
