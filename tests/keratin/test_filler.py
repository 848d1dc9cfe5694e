"""Zeros ahead of a partition's end: when they are written, and that they are never in the way."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from lakebed.base.errors import DiskError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.base.zero_fill import SpareBudget
from lakebed.keratin.partition import Partition
from lakebed.keratin.paths import SegmentFile
from tests.keratin.partitions import PATHS, small

SEGMENT_BYTES = 64 * KIB
STEP_BYTES = SEGMENT_BYTES // 16


def opened(world: World, budget: SpareBudget, **settings: Any) -> Partition:
    return Partition(
        world.disk,
        PATHS,
        world.runner,
        config=small(segment_bytes=SEGMENT_BYTES, **settings),
        wake=lambda: None,
        wake_upkeep=lambda: None,
        spare_budget=budget,
    )


def budget(world: World, bytes_max: int = MIB) -> SpareBudget:
    return SpareBudget(bytes_max=bytes_max, mutex=world.runner.mutex())


def log_size(world: World, base_offset: int = 0) -> int:
    with world.disk.open(PATHS.segment(base_offset, SegmentFile.LOG)) as file:
        return file.size()


def busy(partition: Partition, count: int = 8) -> None:
    """Little flushes in no time at all."""
    for number in range(count):
        partition.append_batch([b"%04d" % number * 200]).result()


def fill(partition: Partition) -> int:
    """All the steps that are due; how many there were."""
    count = 0
    while partition.upkeep_step() == 0:
        count += 1
        assert count < 100, "it never ends"
    return count


def test_a_busy_partition_is_filled_ahead_of_its_end() -> None:
    world = World(1)
    spares = budget(world)
    partition = opened(world, spares)
    busy(partition)
    end = partition.segments()[-1].end
    assert log_size(world) == end
    assert fill(partition) > 0
    assert log_size(world) == end + SEGMENT_BYTES // 4
    assert 0 < spares.used_bytes <= SEGMENT_BYTES // 4
    partition.close()
    assert spares.used_bytes == 0


def test_an_idle_partition_is_not() -> None:
    world = World(1)
    partition = opened(world, budget(world))
    partition.append_batch([b"one"]).result()
    world.clock.advance(3600 * 1_000_000_000)
    assert fill(partition) == 0
    assert log_size(world) == partition.segments()[-1].end


@pytest.mark.parametrize("settings", [{"zero_fill": False}, {"reserve_bytes": 1 << 40}])
def test_nothing_is_filled_where_that_is_not_wanted(settings: dict[str, Any]) -> None:
    world = World(1)
    partition = opened(world, budget(world), zero_fill=settings.get("zero_fill", True))
    busy(partition)
    if "reserve_bytes" in settings:
        world.disk.capacity_bytes = world.disk.used_bytes()
    assert fill(partition) == 0
    assert log_size(world) == partition.segments()[-1].end


def test_the_budget_of_the_store_holds_it_back() -> None:
    world = World(1)
    spares = budget(world, 2 * STEP_BYTES)
    partition = opened(world, spares)
    busy(partition)
    assert fill(partition) == 2
    assert spares.used_bytes == 2 * STEP_BYTES
    busy(partition, 16)  # what was filled is used, and may be filled anew
    assert fill(partition) > 0


def test_what_is_appended_into_the_zeros_is_there_and_so_is_the_end() -> None:
    world = World(1)
    partition = opened(world, budget(world))
    for _ in range(6):
        busy(partition, 3)
        fill(partition)
    found = [message.value for message in partition.scan_from(0)]
    assert len(found) == 18
    world.restart(Crash.POWER)
    partition = opened(world, budget(world))
    assert [message.value for message in partition.scan_from(0)] == found
    assert not partition.problems


def test_a_sealed_segment_has_no_zeros_and_gets_none() -> None:
    world = World(1)
    partition = opened(world, budget(world))
    busy(partition)
    fill(partition)
    partition.seal()
    info = partition.segments()[0]
    assert log_size(world) == info.end
    fill(partition)
    assert log_size(world) == info.end


def test_a_writer_that_comes_up_to_a_step_waits_for_it() -> None:
    for seed in range(30):
        world = World(seed)
        partition = opened(world, budget(world))
        busy(partition, 4)
        world.runner.call("fill", partial(fill, partition))
        world.runner.call("append", partial(busy, partition, 30))
        world.runner.run()
        found = [message.value for message in partition.scan_from(0)]
        assert len(found) == 34
        partition.close()
        again = opened(world, budget(world))
        assert [message.value for message in again.scan_from(0)] == found
        assert not again.problems


def test_a_failed_sync_of_the_zeros_ends_the_partitions_writing() -> None:
    world = World(1)
    partition = opened(world, budget(world))
    busy(partition)
    world.disk.faults.fail("fdatasync", nth=1)
    fill(partition)
    with pytest.raises(DiskError):
        busy(partition, 1)
    assert len(list(partition.scan_from(0))) == 8
