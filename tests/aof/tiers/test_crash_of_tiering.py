"""A crash at every I/O step of a log whose tiers drive themselves; Tier 2 is another machine.

After each: what was acknowledged is read from some tier, by its id; the manifest log names no copy
that is not there; no segment has two objects; and the log goes on, until all is settled.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from lakebed.aof.record_id import RecordId
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from tests.aof.tiers.chaotic_logs import (
    CHANCES,
    SECOND,
    calm,
    check_settled,
    fake_of,
    open_tiered,
)
from tests.aof.tiers.tiered_logs import check_artefacts
from tests.fakes.object_store import FakeObjectStore, Trouble

pytestmark = pytest.mark.sweep

MS = 10**6


class Tiering:
    """A log somewhat larger than Tier 0 is written, and read now and then."""

    record_count = 7
    chances: ClassVar[dict[Trouble, float]] = {}

    def __init__(self) -> None:
        self.appended: list[tuple[RecordId, bytes]] = []
        self.acknowledged = 0
        self.store: FakeObjectStore | None = None

    def run(self, world: World) -> None:
        self.store = store = fake_of(world)
        store.chances = dict(self.chances)
        store.delay_ns_max = 2 * MS
        manager, log = open_tiered(world, store)
        for number in range(self.record_count):
            data = world.random.randbytes(40_000)
            self.appended.append((log.append_record_with_timeout(data, 600), data))
            log.flush()
            self.acknowledged = len(self.appended)
            world.runner.advance(300 * MS)
            if number == 5 and not self.chances:
                log.get(self.appended[0][0])
        world.runner.advance(SECOND)
        manager.close()

    def check(self, world: World) -> None:
        store = self.store
        if store is None:
            return
        calm(store)
        manager, log = open_tiered(world, store)
        found = [(record.record_id, bytes(record.payload)) for record in log.read()]
        assert found == self.appended[: len(found)], "not a prefix of what was appended"
        assert len(found) >= self.acknowledged, "acknowledged, and lost"
        check_artefacts(world, log, store)
        data = b"goes on " * 4000
        added = log.append_record_with_timeout(data, 600)
        log.seal_current_segment(timeout=600)
        world.runner.advance(120 * SECOND)
        expected = [*found, (added, data)]
        assert [(i, bytes(log.get(i).payload)) for i, _ in expected] == expected
        world.runner.advance(120 * SECOND)
        check_settled(world, log, store)
        assert not world.runner.failures()
        assert not manager.failures()
        manager.close()


class TieringInChaos(Tiering):
    """The same, with a store that fails and loses its answers."""

    record_count = 5
    chances: ClassVar[dict[Trouble, float]] = {
        trouble: chance / 2 for trouble, chance in CHANCES.items()
    }


class TieringThenAnother(Tiering):
    """What opening and catching up recorded must survive the next crash as well."""

    record_count = 5

    def check(self, world: World) -> None:
        if self.store is None:
            return
        calm(self.store)
        _, log = open_tiered(world, self.store)
        world.runner.advance(100 * MS + world.seed * 300 * MS)
        del log
        world.restart(Crash.POWER, survivors=1)
        super().check(world)


def test_a_crash_anywhere_loses_nothing_and_all_settles() -> None:
    assert sweep(Tiering, seeds=[1, 2], survivors=[0, 1], cases_max=110) > 100


def test_a_crash_anywhere_with_a_store_that_fails() -> None:
    assert sweep(TieringInChaos, seeds=[3, 4], survivors=[0, 1], cases_max=60) > 50


def test_a_crash_behind_a_crash_loses_nothing_either() -> None:
    assert sweep(TieringThenAnother, seeds=[0, 1], survivors=[0], cases_max=50) > 40


@pytest.mark.slow
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    sweep(Tiering, seeds=range(10, 14), survivors=range(3), cases_max=3000)
    sweep(TieringInChaos, seeds=range(20, 26), survivors=range(3), cases_max=3000)
    sweep(TieringThenAnother, seeds=range(4), survivors=range(3), cases_max=2000)
