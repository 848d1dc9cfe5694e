"""Partitions for tests: open on a simulated machine, small enough to roll, and their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakebed.base.files import Disk, replace_atomically
from lakebed.base.runner import Task
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.base.zero_fill import SpareBudget
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.message import Message
from lakebed.keratin.partition import Partition
from lakebed.keratin.paths import PartitionPaths, SegmentFile, TopicPaths
from lakebed.keratin.upkeep import IsPinned

ROOT = "/store"
PATHS = TopicPaths(ROOT, "orders").partition(0)
SMALL = {
    "segment_bytes": 16 * KIB,
    "index_stride_bytes": KIB,
    "reserve_bytes": 0,
    "request_bytes_max": 256 * KIB,
    "message_bytes_max": 128 * KIB,
}


def small(**settings: Any) -> TopicConfig:
    return TopicConfig(**{**SMALL, **settings})


def opened(
    world: World,
    *,
    is_pinned: IsPinned | None = None,
    wake: Callable[[], None] = lambda: None,
    **settings: Any,
) -> Partition:
    """A partition that nobody drives: what is queued is committed by who waits for it."""
    return Partition(
        world.disk,
        PATHS,
        world.runner,
        config=small(**settings),
        wake=wake,
        wake_upkeep=lambda: None,
        spare_budget=SpareBudget(bytes_max=0, mutex=world.runner.mutex()),
        is_pinned=is_pinned,
    )


def driven(world: World, **settings: Any) -> Partition:
    """A partition whose `flush_step` the simulated machine runs."""
    tasks: list[Task] = []

    def wake() -> None:
        for task in tasks:
            task.wake()

    partition = opened(world, wake=wake, **settings)
    tasks.append(world.runner.spawn("flush", partition.flush_step))
    return partition


def append(partition: Partition, *payloads: bytes, **arguments: Any) -> int:
    """The base offset, once acknowledged."""
    base, count = partition.append_batch(payloads, **arguments).result()
    assert count == len(payloads)
    return base


def messages(partition: Partition) -> list[Message]:
    return list(partition.scan_from(partition.start_offset()))


def values(partition: Partition) -> list[bytes | None]:
    return [message.value for message in messages(partition)]


def log_path(base: int, paths: PartitionPaths = PATHS) -> str:
    return paths.segment(base, SegmentFile.LOG)


def content(disk: Disk, path: str) -> bytes:
    with disk.open(path) as file:
        return file.pread(0, file.size())


def replace(disk: Disk, path: str, data: bytes) -> None:
    """Put other bytes in the place of a file's."""
    replace_atomically(disk, path, data)


def flipped(data: bytes, position: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


def quarantined(disk: Disk) -> list[bytes]:
    folder = PATHS.quarantine
    if not disk.is_folder(folder):
        return []
    return [content(disk, f"{folder}/{name}") for name in disk.names(folder)]


def numbered(count: int, *, size: int = 100) -> Sequence[bytes]:
    return [(b"message %05d " % number).ljust(size, b".") for number in range(count)]
