"""A topic: partitions that share a name and settings. It also chooses the partition of a message.

Each partition can be used as soon as it is open. A partition that is still recovering, or cannot be
opened, delays or fails only the calls that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.base.layout import Buffer
from lakebed.base.runner import Runner
from lakebed.base.runner.open_registry import OpenRegistry
from lakebed.keratin.append_future import AppendFuture, after_failure
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.identity import TopicIdentity
from lakebed.keratin.partition import Partition
from lakebed.keratin.partitioner import divided, partition_of
from lakebed.keratin.segment import Numbers


class Topic:
    """A topic that is open for writing. Thread-safe."""

    def __init__(
        self,
        name: str,
        identity: TopicIdentity,
        *,
        config: TopicConfig,
        open_partition: Callable[[int], Partition],
        runner: Runner,
    ) -> None:
        self.name = name
        self.identity = identity
        self.config = config
        self._open_partition = open_partition
        self._opened = OpenRegistry(self._open, name=f"topic {name}", runner=runner)
        # None for partitions that are not open.
        self._partitions: list[Partition | None] = [None] * identity.partition_count
        # The partition of the last message without a key. Races between threads are harmless.
        self._turn = 0

    @property
    def topic_id(self) -> str:
        """The unique id of the topic.

        It changes if the topic is deleted and created again, and may change if a lost `topic.json`
        is rebuilt.
        """
        return self.identity.topic_id

    @property
    def partition_count(self) -> int:
        return self.identity.partition_count

    @property
    def is_whole(self) -> bool:
        """Whether all partitions have been opened."""
        return None not in self._partitions

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions. This waits until they are open.

        Raises the error of a partition that cannot be opened.
        """
        return tuple(self._opened.get_all(range(self.partition_count)))

    def partition(self, number: int) -> Partition:
        """Returns a partition. If it is not open yet, opens it, or waits for the thread that does.

        Raises `NotFound` if the topic has no partition with that number.
        """
        return self.opened_partition(number) or self._opened.get(number)

    def opened_partition(self, number: int) -> Partition | None:
        """Returns the partition if it is open, otherwise None; never waits.

        Raises `NotFound` if the topic has no partition with that number.
        """
        if not 0 <= number < self.partition_count:
            raise NotFound(f"{self.name}: there is no partition {number}")
        return self._partitions[number]

    def opened_partitions(self) -> list[Partition]:
        return [partition for partition in self._partitions if partition is not None]

    def open_in_background(self) -> None:
        """Starts opening all partitions in the background.

        If a partition cannot be opened, the next call that uses it tries again.
        """
        self._opened.start_all(range(self.partition_count))

    def close(self) -> list[Partition]:
        """Stops opening partitions. Returns the open partitions, which the caller must close."""
        return self._opened.close()

    def _open(self, number: int) -> Partition:
        partition = self._partitions[number] = self._open_partition(number)
        return partition

    def partition_for(self, key: Buffer) -> int:
        """Returns the partition of that key, the same one that Kafka's Java client chooses."""
        return partition_of(key, self.partition_count)

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """Returns for each partition the first offset whose timestamp is at least `timestamp_ms`.

        For a partition without such a message, this is its high watermark.
        """
        return [partition.offset_for_time(timestamp_ms) for partition in self.partitions]

    def append_batch(
        self,
        payloads: Sequence[Buffer | None],
        *,
        key: Buffer | None = None,
        partition: int | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        timestamps_ms: Numbers | None = None,
        producer: Producer | None = None,
        not_before_ms: int = 0,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> AppendFuture:
        """Queues messages for one partition, and returns their future.

        They go to `partition` if given, else to the partition of `key`, else to the next open
        partition in turn. All messages get the same `key`; use `append_keyed` for different keys.
        The future's result is (base offset, count). Raises `InputError` if there is a `producer`
        but neither `partition` nor `key`, and the topic has several partitions.
        """
        if partition is None:
            if producer is not None and self.partition_count > 1 and key is None:
                raise InputError(
                    f"{self.name}: an append with a producer needs a partition or a key, because "
                    "the topic has several partitions"
                )
            partition = self.next_partition() if key is None else self.partition_for(key)
        return self.partition(partition).append_batch(
            payloads,
            keys=None if key is None else [key] * len(payloads),
            headers=headers,
            timestamps_ms=timestamps_ms,
            producer=producer,
            not_before_ms=not_before_ms,
            ack=ack,
            timeout=timeout,
        )

    def append_keyed(
        self,
        messages: Iterable[tuple[Buffer | None, Buffer | None]],
        *,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> list[AppendFuture]:
        """Queues (key, payload) pairs for their keys' partitions, with one append per partition.

        All messages without a key go to the next open partition in turn. Everything is validated
        before the first append. Returns the futures, sorted by partition. If an append is refused,
        waits for the earlier appends, and raises `PartlyAppended` if any of them succeeded,
        otherwise the most serious error.
        """
        pairs = list(messages)
        prepared = []
        for number, indexes in divided(
            (key for key, _ in pairs), self.partition_count, self.next_partition
        ):
            keys, payloads = zip(*(pairs[index] for index in indexes), strict=True)
            partition = self.partition(number)
            prepared.append((partition, partition.prepare(payloads, keys=keys, ack=ack)))
        futures: list[AppendFuture] = []
        try:
            for partition, append in prepared:
                ticket = partition.submit(append, timeout=timeout)
                futures.append(AppendFuture(ticket, partition=partition.number))
        except LakebedError as error:
            raise after_failure(error, futures) from error
        return futures

    def next_partition(self) -> int:
        """Returns the partition for messages without a key. Open partitions take turns.

        If no partition is open, all partitions take turns.
        """
        first = self._turn + 1
        turns = ((first + step) % self.partition_count for step in range(self.partition_count))
        is_open = (number for number in turns if self.opened_partition(number) is not None)
        self._turn = next(is_open, first % self.partition_count)
        return self._turn
