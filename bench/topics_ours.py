"""Our side of `bench.topics` and `bench.groups`: one topic with one partition, in process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from itertools import count
from pathlib import Path
from typing import Any

from bench.row import Unavailable
from lakebed.store.store import Store

TOPIC = "orders"
LEASE_MS = 30_000


class LakebedTopic:
    """A topic of a store in `folder`, with default settings: durable means `AfterFsync`."""

    def __init__(self, folder: Path) -> None:
        self._store = _open(folder)
        try:
            self._topic = self._store.topic(TOPIC, partitions=1)
            self._partition = self._topic.partition(0)
        except BaseException:
            self._store.close()
            raise
        self._group_numbers = count()

    def append(self, payloads: Sequence[bytes]) -> None:
        _, stored = self._topic.append_batch(payloads).result()
        assert stored == len(payloads), "less was stored than given"

    def fetches(self) -> Iterator[Sized]:
        """Columns, as the kernel gives them."""
        batches: Iterator[Sized] = self._partition.read_batches(0)
        return batches

    def messages(self) -> Iterator[Any]:
        """One object for each message."""
        messages: Iterator[Any] = self._partition.scan_from(0)
        return messages

    def create_group(self) -> None:
        self.open_group(f"billing-{next(self._group_numbers)}")

    def rewind_group(self) -> None:
        """A group that has seen nothing."""
        self.create_group()

    def open_group(self, name: str) -> None:
        self._group = self._topic.group(name)

    def lease_and_ack(self, batch_count: int, batch_records: int) -> int:
        leased_count = 0
        for _ in range(batch_count):
            leased = self._group.lease(max_messages=batch_records, lease_ms=LEASE_MS)
            self._group.ack_all(leased)
            leased_count += len(leased)
        return leased_count

    def close(self) -> None:
        self._store.close()


def _open(folder: Path) -> Any:
    if not hasattr(Store, "topic"):
        raise Unavailable("this build has no topics")
    return Store.open(folder)
