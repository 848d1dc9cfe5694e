"""A topic: produced to, followed, and worked off by two consumers of a group, some of it twice.

One producer reaches the node by connections that do not last, and sends again: each message is
stored once. Nobody is ahead of the slowest by more than retention keeps.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from lakebed.client.store import RemoteStore
from lakebed.store.leased_message import LeasedMessage
from tests.load.messages import PARTITIONS, TOPIC, name_of, value_of
from tests.load.traffic import Marks, Traffic, Window

if TYPE_CHECKING:
    from lakebed.client.followers import PartitionFollower

GROUP: Final = "workers"
AHEAD_MAX: Final = 8_000  # messages; retention keeps more of each partition
BATCH_MAX: Final = 60
LEASE_MAX: Final = 300
LEASE_MS: Final = 600_000  # of those who live
NACK_EACH: Final = 37
WAIT_S: Final = 0.5

LAND: Final = "land"
_FOLLOW: Final = "follow"
_SETTLE: Final = "settle"


class Produced(NamedTuple):
    """How many messages a producer has sent, and how many of them were acknowledged."""

    sent: int
    acknowledged: int


class TopicTraffic:
    """`ledger` has all producers, `stored` which messages of each were found in the topic."""

    def __init__(self, store: RemoteStore, traffic: Traffic, *, seed: int) -> None:
        self._topic = store.topic(TOPIC, partitions=PARTITIONS)
        self._group = self._topic.group(GROUP)
        self._followers = [one.follow(0) for one in self._topic.partitions]
        self._traffic = traffic
        self._seed = seed
        self._acks = [Marks() for _ in range(PARTITIONS)]  # by offset
        self.window = Window(traffic, (LAND, _FOLLOW, _SETTLE), ahead_max=AHEAD_MAX)
        self.ledger: dict[str, Produced] = {}
        self.stored: defaultdict[str, Marks] = defaultdict(Marks)
        self.given_back = 0
        self.came_again = 0

    def produce(self, name: str, store: RemoteStore) -> None:
        random = Random(f"produce {self._seed} {name}")
        topic = store.topic(TOPIC)
        count = 0
        while self.window.wait_for_room():
            numbers = range(count, count + random.randint(1, BATCH_MAX))
            values = [value_of(name, number) for number in numbers]
            key = random.choice([None, b"a", b"b", b"c", b"d"])
            topic.append_batch(values, key=key).result()
            count = numbers.stop
            self.ledger[name] = Produced(count, count)
            self.window.give(len(numbers))

    def follow(self, partition: int) -> None:
        while self._traffic.is_on:
            self._take(self._followers[partition])

    def settle(self, number: int) -> None:
        random = Random(f"settle {self._seed} {number}")
        while self._traffic.is_on:
            self._lease(random.randint(1, LEASE_MAX), delay_ms=random.choice([0, 200]))

    def finish(self) -> None:
        """Nobody produces any more: until all of it was seen and settled."""
        for partition, follower in zip(self._topic.partitions, self._followers, strict=True):
            end = partition.high_watermark()
            while follower.position < end:
                self._take(follower)
            follower.close()
        while any(self._group.lag().values()):
            self._lease(LEASE_MAX, delay_ms=0)

    def check(self) -> int:
        """Every message once, and settled once; how many."""
        for name, (sent, acknowledged) in self.ledger.items():
            assert self.stored[name].are_once_each(), name
            assert acknowledged <= len(self.stored[name]) <= sent, name
        assert self.stored.keys() <= self.ledger.keys()
        for partition, acks in zip(self._topic.partitions, self._acks, strict=True):
            assert acks.are_once_each(), partition.name
            assert len(acks) == partition.high_watermark(), partition.name
        return sum(map(len, self.stored.values()))

    def _take(self, follower: PartitionFollower) -> None:
        """The follower gives every offset once, or raises."""
        batch = follower.next_batch(timeout=WAIT_S)
        for message in batch or ():
            producer, number = name_of(message.value)
            self.stored[producer].add(number)
        self.window.take(_FOLLOW, len(batch or ()))

    def _lease(self, max_messages: int, *, delay_ms: int) -> None:
        """Some are given back when they come first; all others are settled."""
        leased = self._group.lease(max_messages=max_messages, lease_ms=LEASE_MS, wait_s=WAIT_S)
        failing: list[LeasedMessage] = []
        good: list[LeasedMessage] = []
        for message in leased:
            number = name_of(message.value).number
            is_first = message.delivery_count == 1
            self.came_again += not is_first
            (failing if is_first and number % NACK_EACH == 0 else good).append(message)
        self._group.nack_all(failing, delay_ms=delay_ms)
        self._group.ack_all(good)
        self.given_back += len(failing)
        for message in good:
            self._acks[message.partition].add(message.offset)
        self.window.take(_SETTLE, len(good))
