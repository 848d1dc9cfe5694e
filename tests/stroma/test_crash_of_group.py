"""A crash at every I/O step of a group: leasing, acking, folding, opening again.

After each: what was acked is never delivered again; what was handed out is held by nobody else
before its deadline; no epoch comes again; and everything else is delivered.
"""

from __future__ import annotations

import contextlib
import errno
from functools import partial

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.stroma.config import AFTER_WRITE, GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.stroma.lease_transitions import Grant
from tests.fakes.stroma_source import FakeSource
from tests.stroma.groups import PATHS, Opened, offsets, singles

pytestmark = pytest.mark.sweep

CONFIG = GroupConfig(lease_ms=60_000, compaction_bytes=KIB, compaction_events=8)
WRITTEN = GroupConfig(
    lease_ms=60_000, compaction_bytes=KIB, compaction_events=8, ack_level=AFTER_WRITE, sync_ms=3
)
MESSAGE_COUNT = 60
UNDELIVERED = range(20, 24)


class Ledger:
    """What consumers were told, and what they asked for."""

    def __init__(self) -> None:
        self.acked: set[int] = set()  # the call returned
        self.asked: set[int] = set()  # it may not have
        self.held: dict[int, int] = {}  # message → epoch, as far as a consumer knows
        self.epochs: set[int] = set()
        self.gone: set[int] = set()  # given back, or asked to be

    def take(self, grant: Grant) -> list[int]:
        if grant.leased:
            assert grant.epoch not in self.epochs, "an epoch came again"
            self.epochs.add(grant.epoch)
        taken = offsets(grant)
        assert not self.acked & set(taken), "acked, and delivered again"
        for offset in taken:
            assert offset not in self.held or offset in self.gone, "held by two"
            self.held[offset] = grant.epoch
            self.gone.discard(offset)
        return taken


class Life:
    """Two consumers who ack, nack and extend; the delta is folded every few events."""

    config = CONFIG

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.source = FakeSource(20)
        self.source.append(len(UNDELIVERED), is_deliverable=False)
        self.source.append(MESSAGE_COUNT - self.source.end)

    def run(self, world: World) -> None:
        opened = Opened(world, self.source, self.config)
        calls = [
            world.runner.call("first", partial(self.consume, opened.group, 7)),
            world.runner.call("second", partial(self.consume, opened.group, 5)),
        ]
        world.runner.run()
        for call in calls:
            call.result()
        opened.close()

    def consume(self, group: PartitionGroup, batch: int) -> None:
        for turn in range(4):
            grant = group.lease(batch)
            taken = self.ledger.take(grant)
            if not taken:
                return
            self.settle(group, singles(taken[::2]), grant.epoch)
            rest = taken[1::2]
            if turn % 2 and rest:
                self.ledger.gone |= set(rest)
                group.nack(singles(rest[:1]), epoch=grant.epoch)
                group.nack(singles(rest[1:]), epoch=grant.epoch, delay_ms=50)
            elif rest:
                group.extend(singles(rest), epoch=grant.epoch, lease_ms=90_000)
                self.settle(group, singles(rest[:1]), grant.epoch)

    def settle(self, group: PartitionGroup, ranges: list[tuple[int, int]], epoch: int) -> None:
        numbers = {start for start, _ in ranges}
        self.ledger.asked |= numbers
        self.ledger.gone |= numbers
        group.ack(ranges, epoch=epoch)
        self.ledger.acked |= numbers

    def check(self, world: World) -> None:
        self.check_opened(world, Opened(world, self.source, self.config))

    def check_opened(self, world: World, opened: Opened) -> None:
        group = opened.group
        held = [o for o in self.ledger.held if o not in self.ledger.gone]
        before = self.drain(group)
        assert not set(before) & set(held), "handed out, and leased by another"
        if held:  # the holders are still there, and one of them goes on
            offset = held[0]
            self.settle(group, singles([offset]), self.ledger.held[offset])
        for number in before[:2]:
            self.settle(group, singles([number]), self.ledger.held[number])
        opened.close()
        world.clock.advance(100_000 * NS_PER_MS)
        self.ledger.gone |= set(self.ledger.held)  # every lease and delay has ended
        opened = Opened(world, self.source, self.config)
        assert opened.group.describe().problems == ()
        delivered = set(self.drain(opened.group))
        missing = set(range(MESSAGE_COUNT)) - delivered - self.ledger.asked - set(UNDELIVERED)
        assert not missing, "never delivered"
        for epoch in {self.ledger.held[number] for number in delivered}:
            numbers = [number for number in delivered if self.ledger.held[number] == epoch]
            self.settle(opened.group, singles(numbers), epoch)
        assert opened.group.lag() == 0
        opened.close()

    def drain(self, group: PartitionGroup) -> list[int]:
        taken: list[int] = []
        while some := self.ledger.take(group.lease(9)):
            taken += some
        return taken


class LifeWithoutSync(Life):
    """Acks that were only written: a power cut may take them back, and leases too."""

    config = WRITTEN

    def check(self, world: World) -> None:
        if world.disk.boot_id() != World(0).disk.boot_id():
            self.ledger.acked.clear()
            self.ledger.gone |= set(self.ledger.held)
        super().check(world)


class LifeThenPowerLoss(Life):
    """What opening served must survive the next power loss, and opening itself a crash."""

    def check(self, world: World) -> None:
        probe = world.copy()
        Opened(probe, self.source, self.config).close()
        steps = probe.disk.steps
        for step in range(0, steps + 1, max(1, steps // 6)):
            for crash in Crash:
                twin, life = world.copy(), self.copy()
                twin.disk.faults.crash_at_step = step
                served: object = None
                with contextlib.suppress(SimulatedCrash):
                    opened = Opened(twin, self.source, self.config)
                    served = known(opened)
                    opened.close()
                twin.restart(crash, survivors=step % 4)
                opened = Opened(twin, self.source, self.config)
                assert served in (None, known(opened)), "served, and gone"
                life.check_opened(twin, opened)

    def copy(self) -> Life:
        twin = Life()
        twin.source = self.source
        twin.ledger.acked = set(self.ledger.acked)
        twin.ledger.asked = set(self.ledger.asked)
        twin.ledger.held = dict(self.ledger.held)
        twin.ledger.epochs = set(self.ledger.epochs)
        twin.ledger.gone = set(self.ledger.gone)
        return twin


def known(opened: Opened) -> object:
    described = opened.group.describe()
    return described.acked_until, described.settled_ahead, described.in_flight, described.waiting


@pytest.mark.parametrize("life", [Life, LifeWithoutSync])
def test_a_crash_anywhere_keeps_every_promise(life: type[Life]) -> None:
    assert sweep(life, seeds=range(3), survivors=range(4), cases_max=250) > 200


def test_a_crash_while_opening_and_another_behind_it_keep_every_promise() -> None:
    assert sweep(LifeThenPowerLoss, seeds=[5], survivors=[0, 2, 3], cases_max=24) > 20


@pytest.mark.slow
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    for life in (Life, LifeWithoutSync):
        sweep(life, seeds=range(100, 120), survivors=range(8), cases_max=100_000)
    sweep(LifeThenPowerLoss, seeds=range(6), survivors=range(4), cases_max=1000)


FAULTS = ["fdatasync", "fsync", "pwrite", "rename", "create"]


@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("operation", FAULTS)
@pytest.mark.parametrize("crash", Crash)
def test_a_failed_write_or_sync_settles_nothing_and_what_was_acked_stays(
    operation: str, after: AfterFailedSync, crash: Crash
) -> None:
    for nth in (1, 2, 3, 5, 8, 13, 21):
        world, life = World(nth), Life()
        world.disk.faults.fail(operation, nth=nth, after=after)
        with contextlib.suppress(LakebedError):
            life.run(world)
        world.restart(crash, survivors=nth)
        life.check(world)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_after_a_failure_the_group_goes_on_in_new_files(operation: str, code: int) -> None:
    world = World(1)
    opened = Opened(world, FakeSource(10), GroupConfig())
    group = opened.group
    grant = group.lease(4)
    generation = group.describe().generation
    world.disk.faults.fail(operation, code=code)
    with pytest.raises(LakebedError):
        group.ack([(0, 1)], epoch=grant.epoch)
    group.ack([(0, 2)], epoch=grant.epoch)
    assert group.describe().generation == generation + 1
    world.disk.faults.fail(operation, code=code)
    with pytest.raises(LakebedError):
        group.lease(3)
    assert offsets(group.lease(3)) == [4, 5, 6], "a lease that nobody was handed is given back"
    world.restart(Crash.POWER)
    group = Opened(world, opened.source, GroupConfig()).group
    assert (group.describe().acked_until, group.describe().in_flight) == (2, 5)


def test_nothing_is_acked_while_new_files_cannot_be_written() -> None:
    world = World(1)
    opened = Opened(world, FakeSource(10), GroupConfig())
    grant = opened.group.lease(4)
    for nth in range(1, 9):
        world.disk.faults.fail("pwrite", nth=nth)
    for _ in range(3):
        with pytest.raises(LakebedError):
            opened.group.ack([(0, 2)], epoch=grant.epoch)
    world.restart(Crash.POWER)
    group = Opened(world, opened.source, GroupConfig()).group
    assert group.describe().acked_until == 0
    assert world.disk.exists(PATHS.delta)
