"""Folding the delta: when it is done, and that what it writes stays linear."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import astuple
from pathlib import Path

import pytest

from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, Writers
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.stroma.group_opener import open_group
from tests.fakes.stroma_source import FakeSource
from tests.stroma.groups import NAME, PATHS, Opened, lease_all, singles

TINY = GroupConfig(
    lease_ms=3_600_000, in_flight_max=1_000_000, compaction_bytes=KIB, compaction_events=10
)


def written_for(message_count: int) -> tuple[int, int]:
    """Bytes written and folds, for acks of every second message, ten at a time."""
    world = World(0)
    opened = Opened(world, FakeSource(message_count), TINY)
    for first in range(0, message_count, 20):
        grant = opened.group.lease(20)
        opened.group.ack(singles(list(range(first + 1, first + 20, 2))), epoch=grant.epoch)
        world.runner.settle()
    counters = opened.counters.snapshot().counters
    opened.close()
    return counters["stroma_bytes_written"], counters["stroma_folds"]


def test_compaction_stays_linear_with_a_gap_at_every_second_message() -> None:
    small_bytes, small_folds = written_for(2000)
    large_bytes, large_folds = written_for(16_000)
    assert large_bytes < 20 * small_bytes, "eight times as much; 64 times would be quadratic"
    assert 0 < small_folds < large_folds <= small_folds + 4


@pytest.mark.parametrize("config", [
    GroupConfig(compaction_bytes=KIB, compaction_events=10_000),
    GroupConfig(compaction_bytes=1024 * KIB, compaction_events=20),
], ids=["bytes", "events"])  # fmt: skip
def test_the_delta_is_folded_past_either_limit(config: GroupConfig) -> None:
    world = World(0)
    opened = Opened(world, FakeSource(400), config)
    sizes = []
    for _ in range(200):
        grant = opened.group.lease(2)
        opened.group.ack(grant.ranges, epoch=grant.epoch)
        world.runner.settle()
        sizes.append(opened.group.describe().delta_bytes)
    assert opened.group.describe().generation > 5
    assert max(sizes) < 2 * KIB
    opened.close()
    assert Opened(world, opened.source, config).group.lag() == 0


def test_a_delta_smaller_than_its_snapshot_is_left_to_grow() -> None:
    world = World(0)
    opened = Opened(world, FakeSource(1000), TINY)
    grant = opened.group.lease(1000)
    opened.group.ack(singles(list(range(1, 1000, 2))), epoch=grant.epoch)
    opened.group.compact()
    generation = opened.group.describe().generation
    snapshot_bytes = opened.group.describe().snapshot_bytes
    assert snapshot_bytes > 15_000
    while opened.group.describe().delta_bytes < snapshot_bytes - 100:
        opened.group.extend([(0, 1)], epoch=grant.epoch)
        world.runner.settle()
    assert opened.group.describe().generation == generation
    for _ in range(5):
        opened.group.extend([(0, 1)], epoch=grant.epoch)
    world.runner.settle()
    assert opened.group.describe().generation == generation + 1


def test_folding_changes_nothing_a_consumer_sees() -> None:
    world = World(0)
    opened = Opened(world, FakeSource(30), TINY)
    group = opened.group
    grant = group.lease(20)
    group.ack([(3, 6), (8, 9)], epoch=grant.epoch)
    group.nack([(0, 2)], epoch=grant.epoch)
    group.nack([(10, 12)], epoch=grant.epoch, delay_ms=5000)
    before = astuple(group.describe())
    group.compact()
    after = astuple(group.describe())
    assert after[:9] == before[:9]
    world.restart(Crash.POWER)
    opened = Opened(world, opened.source, TINY)
    assert astuple(opened.group.describe())[2:8] == before[2:8]
    opened.group.ack([(2, 3)], epoch=grant.epoch)
    assert lease_all(opened.group) == [0, 1, *range(20, 30)]


def test_an_idle_group_writes_nothing() -> None:
    world = World(0)
    opened = Opened(world, FakeSource(3), TINY)
    opened.group.lease(3)
    world.runner.settle()
    steps = world.disk.steps
    for _ in range(5):
        opened.group.lease(3)
        opened.group.describe()
    world.runner.advance(10**12)
    assert world.disk.steps == steps


def test_what_was_only_written_is_synced_by_and_by() -> None:
    world = World(0)
    config = GroupConfig(ack_level="after_write", sync_ms=50)
    opened = Opened(world, FakeSource(10), config)
    grant = opened.group.lease(10)
    opened.group.ack([(0, 4)], epoch=grant.epoch)
    twin = world.copy()
    twin.restart(Crash.POWER)
    assert Opened(twin, FakeSource(10), config).group.lag() == 10
    world.runner.advance(60_000_000)
    steps = world.disk.steps
    world.restart(Crash.POWER)
    assert world.disk.exists(PATHS.delta)
    assert Opened(world, opened.source, config).group.lag() == 6
    assert steps > 0


def test_an_ack_after_write_costs_no_sync() -> None:
    world = World(0)
    opened = Opened(world, FakeSource(10), GroupConfig(ack_level="after_write"))
    grant = opened.group.lease(10)  # reserves epochs, which is synced
    before = [line for line in world.trace if "fdatasync" in line and line[0].isdigit()]
    opened.group.ack([(0, 4)], epoch=grant.epoch)
    opened.group.nack([(5, 6)], epoch=grant.epoch)
    after = [line for line in world.trace if "fdatasync" in line and line[0].isdigit()]
    assert before == after


@pytest.mark.parametrize("crash", Crash)
@pytest.mark.parametrize("step", range(12))
def test_acks_while_the_delta_is_folded_survive_a_crash_at_each_of_its_steps(
    crash: Crash, step: int
) -> None:
    for seed in range(8):
        world = World(seed)
        opened = Opened(world, FakeSource(60))
        grant = opened.group.lease(60)
        opened.group.ack(singles(list(range(0, 20, 2))), epoch=grant.epoch)
        world.runner.settle()
        settled = list(range(0, 20, 2))

        def ack_more(
            group: PartitionGroup = opened.group,
            epoch: int = grant.epoch,
            settled: list[int] = settled,
        ) -> None:
            for offset in range(21, 60, 2):
                group.ack([(offset, offset + 1)], epoch=epoch)
                settled.append(offset)

        world.disk.faults.crash_at_step = world.disk.steps + step
        world.runner.call("fold", opened.group.compact)
        world.runner.call("acks", ack_more)
        with contextlib.suppress(SimulatedCrash):
            world.runner.run()
        world.restart(crash)
        group = Opened(world, opened.source).group
        world.runner.advance(2_000_000_000)
        assert not set(settled) & set(lease_all(group))


class WaitingDisk(RealDisk):
    """A snapshot is renamed only when the test allows it."""

    def __init__(self) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self.is_reached = threading.Event()
        self.may_go_on = threading.Event()

    def rename(self, source: PathLike, target: PathLike) -> None:
        if os.fspath(target).endswith(".snap"):
            self.is_reached.set()
            self.may_go_on.wait()
        super().rename(source, target)


def test_leases_and_acks_go_on_while_a_snapshot_is_written(tmp_path: Path) -> None:
    disk, source = WaitingDisk(), FakeSource(100)
    acked = threading.Event()
    with ThreadRunner() as runner:

        def opened() -> PartitionGroup:
            return open_group(disk, tmp_path, NAME, source=source, runner=runner)

        group = opened()
        grant = group.lease(10)

        def ack() -> None:
            group.ack(grant.ranges, epoch=grant.epoch)
            more = group.lease(10)
            group.nack(more.ranges, epoch=more.epoch)
            acked.set()

        folding = threading.Thread(target=group.compact)
        acking = threading.Thread(target=ack)
        folding.start()
        assert disk.is_reached.wait(60)
        acking.start()
        is_acked = acked.wait(60)
        disk.may_go_on.set()
        folding.join()
        acking.join()
        assert is_acked, "it waited for the snapshot"
        group.close()
        group = opened()
        assert (group.lag(), group.describe().generation) == (90, 2)
        group.close()


def test_a_groups_step_does_not_wait_for_its_fold(tmp_path: Path) -> None:
    """It shares a thread with the steps of all groups."""
    disk, source = WaitingDisk(), FakeSource(100)
    config = GroupConfig(compaction_events=1, compaction_bytes=KIB)
    with ThreadRunner() as runner:
        group = open_group(disk, tmp_path, NAME, source=source, runner=runner, config=config)
        group.lease(10)
        stepping = threading.Thread(target=group.step)
        stepping.start()
        assert disk.is_reached.wait(60)
        stepping.join(60)
        is_waiting = stepping.is_alive()
        disk.may_go_on.set()
        stepping.join()
        group.close()
        assert not is_waiting
