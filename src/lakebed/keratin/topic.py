"""A topic: partitions that share a name and settings, and the choice between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.base.layout import Buffer
from lakebed.keratin.append_future import AppendFuture, after_failure
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.identity import TopicIdentity
from lakebed.keratin.partition import Partition
from lakebed.keratin.partitioner import divided, partition_of
from lakebed.keratin.segment import Numbers


class Topic:
    """Open for writing. Thread-safe."""

    def __init__(
        self,
        name: str,
        identity: TopicIdentity,
        *,
        config: TopicConfig,
        partitions: Sequence[Partition],
    ) -> None:
        self.name = name
        self.identity = identity
        self.config = config
        self._partitions = tuple(partitions)
        self._turn = 0  # which partition is next; a lost count only changes the turn

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return self._partitions

    def partition(self, number: int) -> Partition:
        if not 0 <= number < len(self._partitions):
            raise NotFound(f"{self.name}: there is no partition {number}")
        return self._partitions[number]

    def partition_for(self, key: Buffer) -> int:
        """Where messages with that key go: as Kafka's Java client decides it."""
        return partition_of(key, len(self._partitions))

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
        """Append messages to one partition: the one given, or the key's, or the next in turn.

        All get the `key`; for a key each see `append_keyed`. The result is (base offset, count).
        """
        if partition is None:
            if producer is not None and len(self._partitions) > 1 and key is None:
                raise InputError("a producer's messages need a partition or a key")
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
        """Append pairs of key and payload, each to its key's partition: one append for each.

        Those without a key go to the next partition in turn, together. What is wrong with any of
        them is found before one is appended. `PartlyAppended` if some were, when there was no room
        for others.
        """
        pairs = list(messages)
        prepared = []
        for number, indexes in divided(
            (key for key, _ in pairs), len(self._partitions), self.next_partition
        ):
            keys, payloads = zip(*(pairs[index] for index in indexes), strict=True)
            partition = self.partition(number)
            prepared.append((partition, partition.prepare(payloads, keys=keys, ack=ack)))
        futures: list[AppendFuture] = []
        try:
            for partition, append in prepared:
                futures.append(partition.submit(append, timeout=timeout))
        except LakebedError as error:
            raise after_failure(error, futures) from error
        return futures

    def next_partition(self) -> int:
        """Where messages without a key go: each in turn."""
        self._turn = (self._turn + 1) % len(self._partitions)
        return self._turn
