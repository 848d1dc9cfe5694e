"""A crash at every I/O step of every move between tiers, Tier 2 being a folder of the same disk.

After each: every record that was sealed is read from some tier, by its id; the manifest log names
no copy that is not there; no segment has two objects; and all moves can be made again.
"""

from __future__ import annotations

import pytest

from lakebed.aof.record_id import RecordId
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from tests.aof.tiers.tiered_logs import check_artefacts, contents, open_log, write_segments

pytestmark = pytest.mark.sweep


class Journey:
    """Two segments go down to Tier 2 and come back."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.ids: list[RecordId] = []

    def run(self, world: World) -> None:
        manager, log = open_log(world)
        written = write_segments(log, 2, records=3)
        self.ids = [record.record_id for record in log.read()]
        self.written = written
        log.tiers.upload()
        log.tiers.evict([0])
        log.tiers.evict(warm=True)
        log.tiers.hydrate([1])
        log.tiers.evict()
        manager.close()

    def check(self, world: World) -> None:
        manager, log = open_log(world)
        if self.written:
            assert contents(log) == self.written
            found = [bytes(log.get(record_id).payload) for record_id in self.ids]
            assert found == self.written
        check_artefacts(world, log)
        log.tiers.upload()
        log.tiers.evict(warm=True)
        check_artefacts(world, log)
        assert contents(log)[: len(self.written)] == self.written
        log.tiers.hydrate()
        assert contents(log)[: len(self.written)] == self.written
        check_artefacts(world, log)
        manager.close()


class JourneyThenAnother(Journey):
    """What opening recorded must survive the next crash as well."""

    def check(self, world: World) -> None:
        twin = world.copy()
        open_log(twin)
        for crash in Crash:
            again = twin.copy()
            again.restart(crash, survivors=1)
            super().check(again)
        super().check(world)


def test_a_crash_anywhere_loses_no_record_and_leaves_no_false_record() -> None:
    assert sweep(Journey, seeds=[1], survivors=[0, 1], cases_max=400) > 300


def test_a_crash_behind_an_opening_loses_nothing_either() -> None:
    assert sweep(JourneyThenAnother, seeds=[2], survivors=[0], cases_max=80) > 60


@pytest.mark.slow
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    sweep(Journey, seeds=range(20), survivors=range(6), cases_max=100_000)
    sweep(JourneyThenAnother, seeds=range(4), survivors=range(3), cases_max=2000)
