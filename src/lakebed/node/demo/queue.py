"""A topic and a consumer group, with a consumer that fails: every message is settled once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.store.store import Store

TOPIC = "demo-orders"
GROUP = "demo-billing"
PARTITIONS = 3
MESSAGE_COUNT = 30_000
BATCH_COUNT = 1_000


class Settled(NamedTuple):
    """What came of the messages."""

    produced: int
    delivered: int  # more than produced: some were delivered twice
    settled: int


def produce_and_settle(root: Path) -> Settled:
    """Produce, lease, give half of a lease back, close in between, and settle all of it."""
    delivered: list[tuple[int, int]] = []
    settled: set[tuple[int, int]] = set()
    with Store.open(root) as store:
        topic = store.topic(TOPIC, partitions=PARTITIONS)
        for start in range(0, MESSAGE_COUNT, BATCH_COUNT):
            topic.append_keyed(
                (b"customer %d" % (number % 100), b"order %d" % number)
                for number in range(start, start + BATCH_COUNT)
            )
        for partition in topic.partitions:
            partition.sync()
        group = topic.group(GROUP)
        failing = group.lease(max_messages=BATCH_COUNT)
        delivered += [(message.partition, message.offset) for message in failing]
        group.nack_all(failing)  # as a consumer does that cannot go on
        done = group.lease(max_messages=BATCH_COUNT)
        delivered += [(message.partition, message.offset) for message in done]
        group.ack_all(done)
        settled |= {(message.partition, message.offset) for message in done}
    with Store.open(root) as store:
        group = store.topic(TOPIC).group(GROUP)
        while messages := group.lease(max_messages=BATCH_COUNT):
            places = {(message.partition, message.offset) for message in messages}
            if places & settled:
                raise Corrupt("a settled message was delivered again", path=root)
            delivered += places
            group.ack_all(messages)
            settled |= places
        left = sum(group.lag().values())
    if len(settled) != MESSAGE_COUNT or left:
        raise Corrupt("not settled", path=root, expected=MESSAGE_COUNT, found=len(settled))
    return Settled(MESSAGE_COUNT, len(delivered), len(settled))
