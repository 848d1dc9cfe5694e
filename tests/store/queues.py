"""Stores with topics and groups for tests: on a real disk and on a simulated machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakebed.base.clock import NS_PER_MS
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import TopicConfig
from lakebed.store.group import Group
from lakebed.store.leased_message import LeasedMessage
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic
from lakebed.stroma.config import GroupConfig

ROOT = "/store"
SMALL = TopicConfig(
    segment_bytes=16 * KIB,
    index_stride_bytes=KIB,
    batch_bytes_max=8 * KIB,
    request_bytes_max=256 * KIB,
    message_bytes_max=64 * KIB,
    reserve_bytes=0,
    sync_ms_max=2,
    zero_fill=False,
)
GROUP = GroupConfig(lease_ms=1000)


def opened(
    place: World | Path, *, topic_config: TopicConfig = SMALL, group_config: GroupConfig = GROUP
) -> Store:
    disk, runner = (place.disk, place.runner) if isinstance(place, World) else (None, None)
    return Store.open(
        ROOT if isinstance(place, World) else place,
        topic_config=topic_config,
        group_config=group_config,
        disk=disk,
        runner=runner,
    )


def append(topic: StoreTopic, *values: bytes | None, **arguments: Any) -> int:
    """The base offset, once acknowledged."""
    base, count = topic.append_batch(values, **arguments).result()
    assert count == len(values)
    return base


def values(messages: list[LeasedMessage]) -> list[bytes | None]:
    return [message.value for message in messages]


def numbered(count: int, prefix: str = "message") -> list[bytes]:
    return [f"{prefix} {number}".encode() for number in range(count)]


def drained(group: Group, *, at_once: int = 7) -> list[LeasedMessage]:
    """Everything there is, acked."""
    found: list[LeasedMessage] = []
    while leased := group.lease(max_messages=at_once):
        group.ack_all(leased)
        found += leased
    return found


def now_ms(world: World) -> int:
    return world.clock.wall_ns() // NS_PER_MS


def elapse(world: World, duration_ms: int) -> None:
    world.runner.advance(duration_ms * NS_PER_MS)
