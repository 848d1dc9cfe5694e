"""A crash at every I/O step of opening a damaged partition: what is lost is on record, once."""

from __future__ import annotations

import contextlib

import pytest

from lakebed.base.damage_ledger import DamageLedger
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.world import World
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.topics import Topics
from tests.keratin.partitions import append, small

COUNT = 12


def topics_of(world: World) -> Topics:
    return Topics(
        "/store",
        disk=world.disk,
        runner=world.runner,
        config=small(),
        damage=DamageLedger(world.disk, "/store", runner=world.runner),
    )


def damaged(base: int) -> World:
    """A machine with a topic that has a flipped bit in the first message of a segment."""
    world = World(1)
    world.disk.make_folder("/store")
    world.disk.sync_folder("/")
    topics = topics_of(world)
    partition = topics.create("orders").partition(0)
    for number in range(COUNT):
        append(partition, b"%04d" % number * 2000)
    segment = partition.segments()[base]
    topics.close()
    world.runner.close()
    world.restart(Crash.POWER)
    world.disk.flip_bit(segment.path, offset=RECORDS_START + 3000)
    if segment.is_sealed:  # so that recovery looks at it
        world.disk.unlink(segment.path.removesuffix("log") + "idx")
        world.disk.sync_folder(segment.path.rpartition("/")[0])
    return world


@pytest.mark.sweep
@pytest.mark.parametrize("base", [-1, 1])
def test_what_is_lost_is_on_record_wherever_the_repair_was_cut_short(base: int) -> None:
    written = damaged(base)
    probe = written.copy()
    before = probe.disk.steps
    topics_of(probe).open("orders")
    for step in range(probe.disk.steps - before + 1):
        for crash, survivors in ((Crash.KILL, 0), (Crash.POWER, 0), (Crash.POWER, 3)):
            world = written.copy()
            world.disk.faults.crash_at_step = world.disk.steps + step
            with contextlib.suppress(SimulatedCrash):
                topics_of(world).open("orders")
            world.restart(crash, survivors=survivors)
            partition = topics_of(world).open("orders").partition(0)
            [lost] = partition.lost_offsets()
            assert lost.first_offset is not None
            assert lost.next_offset == lost.first_offset + 1
            kept = [number for number in range(COUNT) if number != lost.first_offset]
            assert [one.offset for one in partition.read(skip_damage=True)] == kept
