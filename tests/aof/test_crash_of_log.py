"""A crash at every I/O step of a log: appending, flushing, rolling over, sealing, recovering.

After each: what was acknowledged as durable is there, in order and without a gap; what is there is
a prefix of what was appended; and the log goes on from there.
"""

from __future__ import annotations

from functools import partial

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.errors import WouldBlock
from lakebed.aof.format import SEGMENT_HEADER
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.paths import SegmentName
from lakebed.aof.record_id import RecordId
from lakebed.aof.recovery import read_footer
from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.test_manifest_recorder import check_agreement
from tests.fakes.aof_scan import scan_log

pytestmark = pytest.mark.sweep

CONFIG = AofConfig(
    segment_bytes=64 * KIB,
    flush=FlushConfig(reserve_bytes=0, flush_bytes=32 * KIB, flush_ms=1),
)


def any_size(number: int) -> bytes:
    return (b"record %04d " % number) * (1 + number * 37 % 900)


def one_size(number: int) -> bytes:
    return (b"record %04d " % number).ljust(488, b".")  # a record is a sector


def open_log(world: World) -> tuple[AofManager, Aof]:
    manager = AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner)
    return manager, manager.open("orders")


def check_counts(world: World) -> None:
    """Every segment begins with the count of the records before it."""
    segments = [record_id.segment_index for record_id, *_ in scan_log(world.disk)]
    folder = "/store/aof/orders/segments"
    for name in map(SegmentName.parse, world.disk.names(folder)):
        if name is not None and name.segment_id in segments:
            with world.disk.open(f"{folder}/{name}") as file:
                header = SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size))
            assert header.base_record_count == segments.index(name.segment_id)


class Life:
    """One writer and two who flush; the ledger has what was appended and what was acknowledged."""

    record_count = 40
    payload = staticmethod(any_size)

    def __init__(self) -> None:
        self.appended: list[tuple[RecordId, bytes]] = []
        self.under_way: bytes | None = None  # given to an append that has not returned
        self.acknowledged = RecordId(0)
        self.watermark = 0

    def run(self, world: World) -> None:
        manager, log = open_log(world)
        world.runner.call("writer", partial(self.write, log))
        world.runner.call("flusher", partial(self.flush, log))
        world.runner.run()
        manager.close()

    def write(self, log: Aof) -> None:
        for number in range(self.record_count):
            data = self.under_way = self.payload(number)
            while True:
                try:
                    self.appended.append((log.append_record(data, ext_id=number), data))
                    self.under_way = None
                    break
                except WouldBlock:
                    log.wait_for_writable_segment(5)
            if number % 13 == 5:
                self.acknowledge(log, self.appended[-1][0])
            if number == 20:
                log.set_coordinator_watermark(77)
                info = log.seal_current_segment()
                assert info is not None
                self.acknowledge(log, self.appended[-1][0])
                self.watermark = 77

    def flush(self, log: Aof) -> None:
        for _ in range(6):
            if self.appended:
                self.acknowledge(log, self.appended[-1][0])
            log.wait_beyond(log.durable_end(), 0.001)

    def acknowledge(self, log: Aof, record_id: RecordId) -> None:
        log.flush(record_id)
        self.acknowledged = max(self.acknowledged, record_id)

    def check(self, world: World) -> None:
        manager, log = open_log(world)
        found = [(record_id, data) for record_id, _, _, data in scan_log(world.disk)]
        if len(found) == len(self.appended) + 1 and found[-1][1] == self.under_way:
            self.appended.append(found[-1])  # another thread flushed it before its append returned
        assert found == self.appended[: len(found)], "not a prefix of what was appended"
        lost = [
            str(record_id)
            for record_id, _ in self.appended[len(found) :]
            if record_id <= self.acknowledged
        ]
        assert not lost, f"acknowledged and lost: {lost}"
        assert log.coordinator_watermark >= self.watermark
        end = log.durable_end()
        assert not found or end > found[-1][0], "what was recovered is not served"
        for info in log.segments():
            if info.is_sealed:
                with world.disk.open(info.path) as file:
                    name = SegmentName(info.segment_id, info.base_offset, info.created_at)
                    assert read_footer(file, info.path, name), "sealed, but without a footer"
        check_agreement(world, log)
        self.go_on(world, log, found)
        manager.close()

    def go_on(self, world: World, log: Aof, found: list[tuple[RecordId, bytes]]) -> None:
        data = self.payload(9999)
        added = log.append_record_with_timeout(data, 5)
        log.flush(added)
        now = [(record_id, data) for record_id, _, _, data in scan_log(world.disk)]
        assert now == [*found, (added, data)], "something stale came back"
        check_counts(world)


class LifeOfEqualRecords(Life):
    """Old records that were not wiped would stand exactly where new ones end."""

    payload = staticmethod(one_size)
    record_count = 30


class LifeThenPowerLoss(LifeOfEqualRecords):
    """What recovery made durable must survive the next power loss, and recovery itself a crash."""

    record_count = 25

    def check(self, world: World) -> None:
        probe = world.copy()
        open_log(probe)[0].close()
        steps = probe.disk.steps
        for step in range(0, steps + 1, max(1, steps // 6)):
            for crash in Crash:
                twin = world.copy()
                twin.disk.faults.crash_at_step = step
                served: list[object] = []
                try:
                    manager, _ = open_log(twin)
                    served = list(scan_log(twin.disk))
                    manager.close()
                except SimulatedCrash:
                    pass
                twin.restart(crash, survivors=step % 4)
                assert served == scan_log(twin.disk)[: len(served)], "served, and gone"
                super().check(twin)


@pytest.mark.parametrize("life", [Life, LifeOfEqualRecords])
def test_a_crash_anywhere_loses_nothing_that_was_acknowledged(life: type[Life]) -> None:
    assert sweep(life, seeds=range(3), survivors=range(4), cases_max=500) > 400


def test_a_crash_in_recovery_and_another_behind_it_lose_nothing() -> None:
    assert sweep(LifeThenPowerLoss, seeds=[5], survivors=[0, 2, 3], cases_max=120) > 60


@pytest.mark.slow
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    for life in (Life, LifeOfEqualRecords):
        sweep(life, seeds=range(100, 116), survivors=range(8), cases_max=100_000)
    sweep(LifeThenPowerLoss, seeds=range(10), survivors=range(4), cases_max=1000)


@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("crash", Crash)
def test_a_failed_sync_acknowledges_nothing_and_what_was_acknowledged_stays(
    nth: int, after: AfterFailedSync, crash: Crash
) -> None:
    for seed in range(4):
        world, life = World(seed), Life()
        world.disk.faults.fail("fdatasync", nth=nth, after=after)
        try:
            manager, log = open_log(world)
            world.runner.call("writer", partial(life.write, log))
            world.runner.call("flusher", partial(life.flush, log))
            world.runner.run()
            manager.close()
        except LakebedError:
            pass
        world.restart(crash, survivors=seed)
        twin = world.copy()
        open_log(twin)[0].close()
        served = scan_log(twin.disk)
        twin.restart(Crash.POWER, survivors=seed)
        assert scan_log(twin.disk)[: len(served)] == served, "served by recovery, and gone"
        manager, log = open_log(twin)
        check_agreement(twin, log)
        manager.close()
        life.check(world)


class AppendAfterACrash(Life):
    """After a crash at any step, a record that is then flushed survives a power cut."""

    record_count = 8

    def check(self, world: World) -> None:
        _, log = open_log(world)
        record_id = log.append_record(b"after the crash")
        log.flush(record_id)
        world.restart(Crash.POWER, survivors=0)
        manager, log = open_log(world)
        assert log.get(record_id).payload == b"after the crash"
        manager.close()


def test_a_record_flushed_after_a_crash_at_any_step_survives_a_power_cut() -> None:
    assert sweep(AppendAfterACrash, seeds=[1, 2], survivors=[0]) > 100
