"""Who appends: ids under which what is sent again is recognised, and stored once.

An append takes an id that no other append has at that time, so that none waits for another. Within
an id, the messages for a partition are numbered; the next number is known when the answer is.

Invariant: an id whose numbers are in doubt (an append under it failed, in whatever way) is never
used again, and neither is one of the parent's in a forked child. Otherwise new messages could have
numbers of others, and would be taken for those.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from lakebed.base.files import fork_guard
from lakebed.base.runner import Runner
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer

FREE_MAX = 1024
PARTITIONS_MAX = 10_000  # that one id has numbers for


def random_id() -> int:
    """63 bits. Not of a generator with a seed, which a forked child would share."""
    return secrets.randbits(63)


class OwnProducer:
    """Of one append at a time."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self._next: dict[tuple[str, int], int] = {}  # by topic and partition

    def at(self, topic: str, partition: int) -> Producer:
        """For the next messages there."""
        return Producer(self.producer_id, 0, self._next.get((topic, partition), 0))

    def advance(self, topic: str, partition: int, count: int) -> None:
        """They are stored."""
        sequence = self.at(topic, partition).sequence + count
        self._next[topic, partition] = sequence % SEQUENCE_COUNT

    @property
    def is_worn(self) -> bool:
        return len(self._next) >= PARTITIONS_MAX


class _Free:
    """Of one process."""

    def __init__(self, runner: Runner) -> None:
        self.generation = fork_guard.generation()
        self.mutex = runner.mutex()
        self.producers: list[OwnProducer] = []  # guarded by the mutex


class ProducerPool:
    """Thread-safe."""

    def __init__(self, *, runner: Runner, new_id: Callable[[], int] = random_id) -> None:
        self._runner = runner
        self._new_id = new_id
        self._free = _Free(runner)

    def take(self) -> OwnProducer:
        """One that nobody has; who has it gives it back, or lets it go if anything failed."""
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
