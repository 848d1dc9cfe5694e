"""Topics that batches are committed to, for tests: on a simulated machine, without a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakebed.base.damage_ledger import DamageLedger
from lakebed.base.simulation.world import World
from lakebed.keratin.compression import Compression
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.record_batch import build
from lakebed.store.topics import StoreTopic, StoreTopics
from tests.store.queues import GROUP, ROOT, SMALL

NAME = "orders"
APPLICATION = "query 7"
TIMESTAMP_MS = 1_700_000_000_000


def topics_of(world: World, *, config: TopicConfig = SMALL) -> StoreTopics:
    return StoreTopics(
        ROOT,
        disk=world.disk,
        runner=world.runner,
        config=config,
        group_config=GROUP,
        damage=DamageLedger(world.disk, ROOT, runner=world.runner),
    )


def batch(
    *values: bytes | None, compression: Compression = Compression.NONE, **named: Any
) -> bytes:
    named = {"timestamps_ms": TIMESTAMP_MS, **named}
    return build(values, compression=compression, **named)


def values_of(topic: StoreTopic, number: int) -> list[bytes | None]:
    return [message.value for message in topic.partition(number).read()]


def names_of(version: int, partition: int, count: int, *, by: str = "first") -> list[bytes]:
    return [f"{by} {version} {partition} {index}".encode() for index in range(count)]


def staged(values: Sequence[bytes], *, at_once: int, padding: int = 0) -> list[bytes]:
    """A record batch for each few of them; two of these in one staged batch, if there are two."""
    padded = [value.ljust(padding, b".") for value in values]
    batches = [batch(*padded[start : start + at_once]) for start in range(0, len(padded), at_once)]
    return [b"".join(batches[start : start + 2]) for start in range(0, len(batches), 2)]


def committed_values(topic: StoreTopic, number: int) -> list[bytes]:
    return [(value or b"").rstrip(b".") for value in values_of(topic, number)]
