"""The producer ids of a client, by which the server recognises an append that is sent again.

Each append uses an id that no other append uses at the same time, so appends do not wait for each
other. The messages that are sent with one id have sequence numbers, counted for each partition. The
client knows the next number only after the response to the previous append.

Invariant: an id is never used again after an append with it has failed, because its next sequence
number is then uncertain; and a forked child does not use the ids of its parent. Otherwise new
messages could get the numbers of earlier messages, and the server would drop them as duplicates.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from lakebed.base.files import fork_guard
from lakebed.base.runner import Runner
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer

FREE_MAX = 1024
PARTITIONS_MAX = 10_000  # an id that was used for so many partitions is not used again


def random_id() -> int:
    """Returns 63 random bits from the operating system. A generator with a seed would return the
    same numbers in a forked child as in its parent."""
    return secrets.randbits(63)


class OwnProducer:
    """A producer id with its next sequence numbers. Used by one append at a time."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self._next: dict[tuple[str, int], int] = {}  # by topic and partition

    def at(self, topic: str, partition: int) -> Producer:
        """Returns the producer with the sequence number of the partition's next message."""
        return Producer(self.producer_id, 0, self._next.get((topic, partition), 0))

    def advance(self, topic: str, partition: int, count: int) -> None:
        """Advances the partition's sequence number after `count` messages were stored."""
        sequence = self.at(topic, partition).sequence + count
        self._next[topic, partition] = sequence % SEQUENCE_COUNT

    @property
    def is_worn(self) -> bool:
        return len(self._next) >= PARTITIONS_MAX


class _Free:
    """The producer ids of one process that no append is using."""

    def __init__(self, runner: Runner) -> None:
        self.generation = fork_guard.generation()
        self.mutex = runner.mutex()
        self.producers: list[OwnProducer] = []  # guarded by the mutex


class ProducerPool:
    """The producer ids of one client. Thread-safe."""

    def __init__(self, *, runner: Runner, new_id: Callable[[], int] = random_id) -> None:
        self._runner = runner
        self._new_id = new_id
        self._free = _Free(runner)

    def take(self) -> OwnProducer:
        """Returns an id that no append is using. If the append fails, the caller must not give it
        back."""
        free = self._in_this_process()
        with free.mutex:
            if free.producers:
                return free.producers.pop()
        return OwnProducer(self._new_id())

    def give_back(self, producer: OwnProducer) -> None:
        free = self._in_this_process()
        with free.mutex:
            if not producer.is_worn and len(free.producers) < FREE_MAX:
                free.producers.append(producer)

    def _in_this_process(self) -> _Free:
        free = self._free
        if free.generation != fork_guard.generation():
            free = self._free = _Free(self._runner)
        return free
