"""Our side of `bench.topics`, `bench.groups` and `bench.http_api`: a topic with one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from lakebed.client.store import RemoteStore
from lakebed.host.store import Store
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch

TOPIC = "orders"
LEASE_MS = 30_000
DELAY_MS = 24 * 3600 * 1000

OpenStore = Callable[[Path], Store | RemoteStore]


class LakebedTopic:
    """A topic of a store in `folder`, with default settings: durable means `AfterFsync`.

    Without `zero_fill` it writes as a topic does that has no pause to fill its segments in.
    """

    def __init__(
        self, folder: Path, *, zero_fill: bool = True, open_store: OpenStore = Store.open
    ) -> None:
        """`open_store` is `RemoteStore.open` for a store that another process has open."""
        self._store = open_store(folder)
        try:
            topics = self._store.topics
            if TOPIC not in topics.names():
                topics.create(TOPIC, settings={"zero_fill": zero_fill})
            self._topic = topics.open(TOPIC)
            self._partition = self._topic.partition(0)
        except BaseException:
            self._store.close()
            raise
        self._group_numbers = count()

    def append(self, payloads: Sequence[bytes]) -> None:
        _, stored = self._topic.append_batch(payloads).result()
        assert stored == len(payloads), "less was stored than given"

    def fetches(self) -> Iterator[MessageBatch]:
        """Columns, as the kernel gives them."""
        return self._partition.read_batches(0)

    def messages(self) -> Iterator[Message]:
        """One object for each message."""
        return self._partition.scan_from(0)

    def create_group(self) -> None:
        self.open_group(f"billing-{next(self._group_numbers)}")

    def rewind_group(self) -> None:
        """A group that has seen nothing."""
        self.create_group()

    def open_group(self, name: str) -> None:
        self._group = self._topic.group(name)

    @property
    def group_name(self) -> str:
        return self._group.name

    def lease_and_ack(self, batch_count: int, batch_records: int) -> int:
        leased_count = 0
        for _ in range(batch_count):
            leased = self._group.lease(max_messages=batch_records, lease_ms=LEASE_MS)
            self._group.ack_all(leased)
            leased_count += len(leased)
        return leased_count

    def put_off_every_second(self, batch_count: int, batch_records: int) -> int:
        """Acks one, gives the next one back with a delay; how many were acked."""
        acked_count = 0
        for _ in range(batch_count):
            leased = self._group.lease(max_messages=batch_records, lease_ms=LEASE_MS)
            self._group.ack_all(leased[::2])
            self._group.nack_all(leased[1::2], delay_ms=DELAY_MS)
            acked_count += len(leased[::2])
        return acked_count

    def close(self) -> None:
        self._store.close()
