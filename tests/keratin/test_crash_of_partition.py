"""A crash at every I/O step of a partition: appending, rolling, removing, recovering.

After each: what was acknowledged after its sync is there, at its offset; whatever a reader was
given stays; offsets have no gap; a producer that sends its last append again has one copy of each
message; and the partition goes on from there.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.format import RECORD_OVERHEAD
from lakebed.keratin.headers import Producer
from lakebed.keratin.partition import Partition
from lakebed.keratin.topics import Topics

pytestmark = pytest.mark.sweep

CONFIG = TopicConfig(
    segment_bytes=16 * KIB,
    index_stride_bytes=KIB,
    batch_bytes_max=8 * KIB,
    reserve_bytes=0,
    sync_ms_max=2,
    manifest_ms=100,
    checkpoint_bytes=4 * KIB,
)
PRODUCER_ID = 7


def any_size(writer: int, number: int) -> bytes:
    return (b"writer %d message %04d " % (writer, number)) * (1 + number * 7 % 40)


def one_size(writer: int, number: int) -> bytes:
    """As long as a sector, with its record's own bytes (a producer's are in its headers)."""
    overhead = RECORD_OVERHEAD + (18 if writer == 3 else 0)
    return (b"writer %d message %04d " % (writer, number)).ljust(512 - overhead, b".")


def open_partition(world: World) -> tuple[Topics, Partition]:
    topics = Topics("/store", disk=world.disk, runner=world.runner, config=CONFIG)
    topic = topics.open("orders") if "orders" in topics.names() else topics.create("orders")
    return topics, topic.partition(0)


def contents(partition: Partition) -> list[tuple[int, bytes | None]]:
    found = partition.scan_from(partition.start_offset())
    return [(message.offset, message.value) for message in found]


class Life:
    """Writers and a reader; the ledger has what was acknowledged, and what was read."""

    batch_count = 12
    removes = True
    payload = staticmethod(any_size)

    def __init__(self) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.seen: dict[int, bytes | None] = {}
        self.sent: list[list[bytes]] = []  # by the producer, in order
        self.confirmed_batches = 0
        self.start_offset = 0

    def run(self, world: World) -> None:
        topics, partition = open_partition(world)
        world.runner.call("plain", partial(self.write, partition, 1, Ack.AFTER_FSYNC))
        world.runner.call("hasty", partial(self.write, partition, 2, Ack.AFTER_WRITE))
        world.runner.call("producer", partial(self.produce, partition))
        world.runner.call("reader", partial(self.read, partition))
        world.runner.run()
        topics.close()

    def write(self, partition: Partition, writer: int, ack: Ack) -> None:
        for batch in range(self.batch_count):
            values = [self.payload(writer, batch * 3 + number) for number in range(3)]
            base, count = partition.append_batch(values, ack=ack).result()
            assert count == 3
            if ack is Ack.AFTER_FSYNC:
                self.acknowledged.update(zip(range(base, base + 3), values, strict=True))
            if writer == 1 and batch == 6:
                partition.seal()

    def produce(self, partition: Partition) -> None:
        for batch in range(self.batch_count):
            values = [self.payload(3, batch * 2 + number) for number in range(2)]
            self.sent.append(values)
            producer = Producer(PRODUCER_ID, 0, batch * 2)
            base, _ = partition.append_batch(values, producer=producer).result()
            self.acknowledged.update(zip(range(base, base + 2), values, strict=True))
            self.confirmed_batches += 1

    def read(self, partition: Partition) -> None:
        position = 0
        for turn in range(8):
            partition.wait_beyond(position, 0.01)
            for message in partition.scan_from(position):
                self.seen[message.offset] = message.value
                position = message.offset + 1
            if self.removes and turn == 5:
                # What is about to go counts as gone; less may have.
                self.start_offset = position // 2
                partition.truncate_before(position // 2)

    def check(self, world: World) -> None:
        topics, partition = open_partition(world)
        found = self.check_contents(partition)
        self.resend(partition)
        last = self.payload(9, 9999)
        base, _ = partition.append_batch([last]).result()
        now = contents(partition)
        assert now[: len(found)] == found, "what was there changed"
        assert now[-1] == (base, last)
        mine = [value for _, value in now if value is not None and value.startswith(b"writer 3")]
        sent = [value for values in self.sent for value in values]
        # What was removed from the beginning is missing there.
        assert mine == sent[len(sent) - len(mine) :], "not one copy of each, in order"
        assert self.start_offset or len(mine) == len(sent)
        topics.close()
        topics, partition = open_partition(world)
        assert contents(partition) == now, "another opening sees something else"
        topics.close()

    def check_contents(self, partition: Partition) -> list[tuple[int, bytes | None]]:
        found = contents(partition)
        assert partition.start_offset() <= self.start_offset, "more was removed than was asked"
        offsets = [offset for offset, _ in found]
        if found:
            expected = range(partition.start_offset(), partition.high_watermark())
            assert offsets == list(expected), "offsets with a gap"
        there = dict(found)
        for ledger in (self.acknowledged, self.seen):
            for offset, value in ledger.items():
                if offset >= self.start_offset:
                    assert there.get(offset) == value, f"offset {offset} is lost"
        return found

    def resend(self, partition: Partition) -> None:
        """As a producer does whose answer did not come."""
        for batch in range(self.confirmed_batches, len(self.sent)):
            producer = Producer(PRODUCER_ID, 0, batch * 2)
            partition.append_batch(self.sent[batch], producer=producer).result()


class LifeWithoutRemoval(Life):
    removes = False
    batch_count = 8


class LifeOfEqualRecords(LifeWithoutRemoval):
    """Old records that were not wiped would stand exactly where new ones end."""

    payload = staticmethod(one_size)
    batch_count = 10


class LifeThenAnother(LifeOfEqualRecords):
    """What recovery served must survive the next power loss, and recovery itself a crash."""

    batch_count = 5

    def check(self, world: World) -> None:
        probe = world.copy()
        open_partition(probe)[0].close()
        steps = probe.disk.steps
        for step in range(0, steps + 1, max(1, steps // 8)):
            for crash in Crash:
                twin = world.copy()
                twin.disk.faults.crash_at_step = step
                served: list[tuple[int, bytes | None]] = []
                try:
                    topics, partition = open_partition(twin)
                    served = contents(partition)
                    topics.close()
                except SimulatedCrash:
                    pass
                twin.restart(crash, survivors=step % 4)
                again = open_partition(twin.copy())[1]
                assert contents(again)[: len(served)] == served, "served by recovery, and gone"
                super().check(twin)


@pytest.mark.parametrize("life", [Life, LifeWithoutRemoval, LifeOfEqualRecords])
def test_a_crash_anywhere_loses_nothing_that_was_acknowledged(life: type[Life]) -> None:
    assert sweep(life, seeds=range(3), survivors=range(4), cases_max=500) > 400


def test_a_crash_in_recovery_and_another_behind_it_lose_nothing() -> None:
    assert sweep(LifeThenAnother, seeds=[5], survivors=[0, 2, 3], cases_max=60) > 50


@pytest.mark.slow
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    for life in (Life, LifeWithoutRemoval, LifeOfEqualRecords):
        sweep(life, seeds=range(100, 106), survivors=range(8), cases_max=40_000)
    sweep(LifeThenAnother, seeds=range(6), survivors=range(4), cases_max=600)


@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13, 21])
@pytest.mark.parametrize("crash", Crash)
def test_a_failed_sync_acknowledges_nothing_and_what_was_acknowledged_stays(
    nth: int, after: AfterFailedSync, crash: Crash
) -> None:
    for seed in range(3):
        world, life = World(seed), LifeWithoutRemoval()
        topics, _ = open_partition(world)
        topics.close()
        world.disk.faults.fail("fdatasync", nth=nth, after=after)
        with contextlib.suppress(LakebedError):
            life.run(world)
        world.restart(crash, survivors=seed)
        twin = world.copy()
        topics, partition = open_partition(twin)
        served = contents(partition)
        topics.close()
        twin.restart(Crash.POWER, survivors=seed)
        assert contents(open_partition(twin)[1])[: len(served)] == served, "served, and gone"
        life.check(world)
