"""Readers beside a writer that rolls, compacts, removes: one seed, one order of events."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.simulation.world import World
from lakebed.keratin.compaction_pass import compact
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.follower import Follower
from lakebed.keratin.message import Message
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.reader import PartitionReader
from lakebed.keratin.view import PartitionView
from tests.fakes.partition import FakePartition

pytestmark = pytest.mark.thorough

SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(8, 30))]


def _write(partition: FakePartition, world: World, count: int, *, removes: bool) -> None:
    """All that a writer does, in any order."""
    random = world.random
    for number in range(count):
        partition.append(b"%d" % number * random.randrange(1, 40), key=b"k%d" % random.randrange(4))
        if random.random() < 0.2:
            partition.append_batch([b"x", b"y"], keys=[b"kx", b"ky"])
        if random.random() < 0.5:
            partition.publish()
        if random.random() < 0.1:
            _compact(partition)
        if removes and random.random() < 0.08 and len(partition.built) > 2:
            partition.remove_oldest()
        world.runner.sleep_ns(random.randrange(3) * NS_PER_MS)
    partition.publish()


def _compact(partition: FakePartition) -> None:
    sealed = [segment.info() for segment in partition.built if segment.is_sealed]
    for rewritten in compact(
        partition.disk,
        partition.paths,
        sealed,
        now_ms=0,
        tombstone_ms=1 << 60,
        index_stride_bytes=100,
    ):
        # The file is there before the list tells of it.
        partition.runner.sleep_ns(NS_PER_MS // 2)
        partition.take_over(rewritten)


def _make(world: World) -> FakePartition:
    return FakePartition(
        world.disk, "/store", runner=world.runner, segment_bytes=500, stride_bytes=100
    )


def _beside(world: World, partition: FakePartition) -> PartitionView:
    return ReadOnlyPartition(partition.paths, disk=world.disk, runner=world.runner)


def _own(world: World, partition: FakePartition) -> PartitionView:
    return partition


@pytest.mark.parametrize("view_of", [_own, _beside])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_message_is_seen_at_most_once_in_order_and_no_survivor_is_missed(
    seed: int, view_of: Callable[[World, FakePartition], PartitionView]
) -> None:
    world = World(seed)
    partition = _make(world)
    partition.publish()
    view = view_of(world, partition)
    reader = PartitionReader(view, handles_max=1 + seed % 2, window_bytes=1 + 200 * (seed % 3))
    seen: list[tuple[int, int, list[Message]]] = []

    def read() -> None:
        for _ in range(12):
            start, end = view.start_offset(), view.high_watermark()
            try:
                found = []
                for message in reader.read(start, end):
                    found.append(message)
                    world.runner.sleep_ns(world.random.randrange(2) * NS_PER_MS)
                seen.append((start, end, found))
            except OffsetOutOfRange as error:
                assert error.start_offset > start, "nothing was removed"
            world.runner.sleep_ns(5 * NS_PER_MS)

    calls = [world.runner.call(f"reader {number}", read) for number in range(2)]
    calls.append(
        world.runner.call("writer", lambda: _write(partition, world, 40, removes=seed % 2 == 0))
    )
    world.runner.run()
    for call in calls:
        call.result()
    written = {one.offset: one for segment in partition.built for one in segment.messages}
    with PartitionReader(partition) as after:
        survivors = list(after.read())
    for start, end, found in seen:
        offsets = [message.offset for message in found]
        assert offsets == sorted(set(offsets))
        assert all(written.get(one.offset, one) == one for one in found)
        assert all(start <= offset < end for offset in offsets)
        expected = {one.offset for one in survivors if start <= one.offset < end}
        assert expected <= set(offsets)
    assert len(seen) > 4
    reader.close()


@pytest.mark.parametrize("view_of", [_own, _beside])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_loses_repeats_and_reorders_nothing(
    seed: int, view_of: Callable[[World, FakePartition], PartitionView]
) -> None:
    world = World(seed)
    partition = _make(world)
    partition.publish()
    view = view_of(world, partition)
    all_done = world.runner.event()

    def follow() -> list[Message]:
        taken: list[Message] = []
        with Follower(view, batch_bytes_max=64) as follower:
            while True:
                batch = follower.next_batch(0.05)
                if batch is not None:
                    taken += batch
                    assert follower.position == taken[-1].offset + 1
                elif all_done.is_set():
                    return taken

    def write() -> None:
        for number in range(30):
            partition.append(b"%d" % number * world.random.randrange(1, 40))
            if world.random.random() < 0.2:
                partition.append_control()
            if world.random.random() < 0.4:
                partition.publish()
            world.runner.sleep_ns(world.random.randrange(4) * NS_PER_MS)
        partition.publish()
        all_done.set()

    followers = [world.runner.call("follower", follow) for _ in range(2)]
    writer = world.runner.call("writer", write)
    world.runner.run()
    writer.result()
    assert [call.result() for call in followers] == [partition.kept()] * 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_closed_at_any_moment_ends_and_its_position_continues(seed: int) -> None:
    world = World(seed)
    partition = _make(world)
    follower = Follower(partition)

    def close() -> None:
        world.runner.sleep_ns(world.random.randrange(40) * NS_PER_MS)
        follower.close()

    follows = world.runner.call("follower", lambda: list(follower))
    world.runner.call("closer", close)
    world.runner.call("writer", lambda: _write_plain(partition, world))
    world.runner.run()
    taken = follows.result()
    assert taken == partition.kept()[: len(taken)]
    with PartitionReader(partition) as reader:
        assert taken + list(reader.read(follower.position)) == partition.kept()
    assert list(follower) == []


def _write_plain(partition: FakePartition, world: World) -> None:
    for number in range(15):
        partition.append(b"%d" % number * 10)
        partition.publish()
        world.runner.sleep_ns(world.random.randrange(4) * NS_PER_MS)
