"""A program that serves producers and consumers on threads until it kills itself, or drains.

    python -m tests.store.queue_broker ROOT HISTORY SEED LIFE SECONDS ACK_LEVEL

Every call is written to the history before it is made and after it came back, by one write(2) each:
a kill cannot take that back. After SECONDS it sends itself SIGKILL; with 0 it leases and acks
everything that is left, and ends.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from lakebed.base.errors import LakebedError
from lakebed.base.units import KIB
from lakebed.keratin.config import TopicConfig
from lakebed.store.group import Group
from lakebed.store.leased_message import LeasedMessage
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from tests.fakes.queue_checker import Entry, Held, encode

PARTITIONS = 2
PRODUCERS = 3
CONSUMERS = 3
TOPIC_CONFIG = TopicConfig(segment_bytes=16 * KIB, index_stride_bytes=KIB, reserve_bytes=0)


def held_of(messages: Iterable[LeasedMessage]) -> tuple[Held, ...]:
    return tuple(
        Held(m.partition, m.offset, (m.value or b"").rstrip(b".").decode(), m.epoch,
             m.delivery_count, m.deadline_ms)
        for m in messages
    )  # fmt: skip


class History:
    """Thread-safe: a line is one write at the end of the file."""

    def __init__(self, path: str, life: str, *, now_ms: Callable[[], float]) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._life = life
        self._now_ms = now_ms
        self._numbers = itertools.count()

    def call(
        self,
        operation: str,
        messages: Sequence[Held],
        act: Callable[[], tuple[Held, ...]],
    ) -> tuple[Held, ...] | None:
        """The call's answer, written down; None if there is none."""
        name = f"{self._life}/{next(self._numbers)}"
        self._write("invoke", operation, name, messages)
        try:
            answer = act()
        except StaleLease:
            self._write("fail", operation, name)
        except LakebedError:
            self._write("info", operation, name)
        else:
            self._write("ok", operation, name, answer)
            return answer
        return None

    def _write(self, kind: str, operation: str, name: str, messages: Sequence[Held] = ()) -> None:
        line = encode(Entry(self._now_ms(), kind, operation, name, tuple(messages)))
        assert os.write(self._fd, line) == len(line)


class Clients:
    """What producers and consumers do, on one topic and one group."""

    def __init__(self, topic: StoreTopic, group: Group, history: History, life: str) -> None:
        self._topic = topic
        self._group = group
        self._history = history
        self._life = life

    def produce(self, name: str, random: Random) -> None:
        for number in itertools.count():
            values = [f"{self._life}-{name}:{number * 10 + n}" for n in range(random.randint(1, 4))]
            partition = random.randrange(PARTITIONS)
            self.append(partition, values, padding=random.choice([0, 0, 500]))

    def append(self, partition: int, values: list[str], *, padding: int = 0) -> None:
        payloads = [value.encode().ljust(padding, b".") for value in values]

        def act() -> tuple[Held, ...]:
            base, _ = self._topic.append_batch(payloads, partition=partition).result()
            return tuple(Held(partition, base + n, value) for n, value in enumerate(values))

        self._history.call("produce", [Held(partition, value=value) for value in values], act)

    def consume(self, random: Random) -> None:
        while True:
            leased = self.lease(random.randint(1, 12), wait_s=0.2)
            random.shuffle(leased)
            while leased:
                some, leased = leased[: random.randint(1, 4)], leased[4:]
                self.deal_with(some, random)

    def deal_with(self, some: list[LeasedMessage], random: Random) -> None:
        match random.randrange(10):
            case 0:
                pass  # it forgets them, and they come again
            case 1 | 2:
                delay_ms = random.choice([0, 20])
                self.settle("nack", some, partial(self._group.nack_all, some, delay_ms=delay_ms))
            case 3:
                self.extend(some[0])
            case 4:
                threading.Event().wait(random.uniform(0, 0.25))  # its lease may end meanwhile
                self.settle("ack", some, partial(self._group.ack_all, some))
            case 5 | 6:
                for message in some:
                    self.settle("ack", [message], partial(self._group.ack, message))
            case _:
                self.settle("ack", some, partial(self._group.ack_all, some))

    def lease(self, max_messages: int, *, wait_s: float) -> list[LeasedMessage]:
        leased: list[LeasedMessage] = []

        def act() -> tuple[Held, ...]:
            leased.extend(self._group.lease(max_messages=max_messages, wait_s=wait_s))
            return held_of(leased)

        self._history.call("lease", (), act)
        return leased

    def settle(
        self, operation: str, messages: list[LeasedMessage], act: Callable[[], None]
    ) -> None:
        def settle() -> tuple[Held, ...]:
            act()
            return ()

        self._history.call(operation, held_of(messages), settle)

    def extend(self, message: LeasedMessage) -> None:
        self._history.call(
            "extend", held_of([message]), lambda: held_of([self._group.extend(message)])
        )

    def drain(self) -> None:
        """Until nothing is left: leases that others had must end first."""
        while any(self._group.lag().values()):
            leased = self.lease(100, wait_s=10)
            if leased:
                self.settle("ack", leased, partial(self._group.ack_all, leased))


def main(root: str, path: str, seed: str, life: str, seconds: str, ack_level: str) -> None:
    random = Random(f"{seed} {life}")
    config = GroupConfig(lease_ms=150, compaction_bytes=KIB, compaction_events=40,
                         ack_level=ack_level, sync_ms=5)  # fmt: skip
    if float(seconds):
        # From here on, so that opening the store is cut short, too.
        threading.Timer(float(seconds), os.kill, [os.getpid(), signal.SIGKILL]).start()
    history = History(path, life, now_ms=lambda: time.time_ns() / 1e6)
    with Store.open(root, topic_config=TOPIC_CONFIG, group_config=config) as store:
        topic = store.topic("orders", partitions=PARTITIONS)
        clients = Clients(topic, topic.group("billing"), history, life)
        if not float(seconds):
            clients.drain()
            return
        bodies = [
            *(partial(clients.produce, str(n), Random(random.random())) for n in range(PRODUCERS)),
            *(partial(clients.consume, Random(random.random())) for _ in range(CONSUMERS)),
        ]
        threads = [threading.Thread(target=body) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
