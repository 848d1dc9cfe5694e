"""A crash at every I/O step of a manifest log: committing, rotating, snapshots, opening again.

After each: what was committed is there, in order and without a gap; what is there is a prefix of
what was recorded; replay from the newest snapshot equals the fold of all of it; and it goes on.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from lakebed.aof.manifest.format import (
    CompressionDone,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
)
from lakebed.aof.manifest.records import CustomEvent, ManifestRecord, Payload, UploadDone
from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from tests.aof.manifest.journals import Opened, folded, reader, replayed, stored

pytestmark = pytest.mark.sweep

SEGMENT_COUNT = 7


def payloads(number: int) -> Payload:
    """Of many lengths, so that chunks end everywhere."""
    if number < SEGMENT_COUNT:
        return SegmentOpened(number * 4096, 1)
    kinds: list[Payload] = [
        SealSegment(4000, number, 7, number, 0),
        CompressionDone(1000, 0),
        UploadDone(f"aof2/00aa/segment-{number}.zst", '"etag"' * (number % 7)),
        LocalEvicted(4000),
        CustomEvent(number, b"blob " * (number * 131 % 900)),
    ]
    return kinds[number % len(kinds)]


class Life:
    """Two who record, one of them waiting; the ledger has what was recorded and committed."""

    record_count = 36

    def __init__(self) -> None:
        self.recorded: dict[tuple[int, int], tuple[Payload, int]] = {}
        self.committed: set[tuple[int, int]] = set()

    def run(self, world: World) -> None:
        opened = Opened(world)
        self.record(opened, range(SEGMENT_COUNT))
        first = range(SEGMENT_COUNT, self.record_count, 2)
        second = range(SEGMENT_COUNT + 1, self.record_count, 2)
        world.runner.call("first", partial(self.record, opened, first))
        world.runner.call("second", partial(self.record, opened, second))
        world.runner.run()
        opened.close()
        self.committed = set(self.recorded)

    def record(self, opened: Opened, numbers: range) -> None:
        for number in numbers:
            payload = payloads(number)
            segment_id = number % SEGMENT_COUNT
            position = opened.journal.append(
                payload, segment_id=segment_id, logical_offset=segment_id * 4096
            )
            self.recorded[position] = (payload, segment_id)
            if number % 5 == 3:
                before = set(self.recorded)
                opened.journal.commit()
                self.committed |= before
            if number == 20:
                opened.journal.rotate()
                opened.journal.take_snapshot()

    def check(self, world: World) -> None:
        opened = Opened(world)
        found = self.check_found(world)
        for problem in opened.replayed.problems:
            assert "missing" not in problem, problem
            assert "is ignored" not in problem, problem
        self.go_on(world, opened, found)
        opened.close()
        assert folded(stored(world)) == replayed(world)

    def check_found(self, world: World) -> list[ManifestRecord]:
        found = stored(world)
        news = [(r.payload, r.segment_id) for r in found if not r.is_about_manifest]
        expected = [self.recorded[position] for position in sorted(self.recorded)]
        assert news == expected[: len(news)], "not a prefix of what was recorded"
        must = sum(position in self.committed for position in self.recorded)
        assert len(news) >= must, f"{must} were committed, {len(news)} are there"
        for index in reader(world).chunk_indexes()[:-1]:
            assert reader(world).chunk(index).is_sealed, "a chunk before the last is not sealed"
        assert folded(found) == replayed(world), "the snapshot is not the fold of what is before it"
        return found

    def go_on(self, world: World, opened: Opened, found: list[ManifestRecord]) -> None:
        payload = SegmentOpened(90, 1)
        opened.journal.append(payload, segment_id=90, logical_offset=90)
        opened.journal.commit()
        assert [r for r in stored(world) if not isinstance(r.payload, SnapshotMarker)][
            -1
        ].payload == payload
        assert stored(world)[: len(found)] == found, "something stale came back"


class LifeThenPowerLoss(Life):
    """What opening made durable must survive the next power loss, and opening itself a crash."""

    record_count = 20

    def check(self, world: World) -> None:
        probe = world.copy()
        Opened(probe).close()
        steps = probe.disk.steps
        for step in range(0, steps + 1, max(1, steps // 6)):
            for crash in Crash:
                twin = world.copy()
                twin.disk.faults.crash_at_step = step
                served: list[ManifestRecord] = []
                try:
                    opened = Opened(twin)
                    served = stored(twin)
                    opened.close()
                except SimulatedCrash:
                    pass
                twin.restart(crash, survivors=step % 4)
                assert served == stored(twin)[: len(served)], "served, and gone"
                super().check(twin)


def test_a_crash_anywhere_loses_nothing_that_was_committed() -> None:
    assert sweep(Life, seeds=range(4), survivors=range(4), cases_max=700) > 500


def test_a_crash_while_opening_and_another_behind_it_lose_nothing() -> None:
    assert sweep(LifeThenPowerLoss, seeds=[5], survivors=[0, 2, 3], cases_max=120) > 60


@pytest.mark.slow
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    sweep(Life, seeds=range(100, 140), survivors=range(8), cases_max=100_000)
    sweep(LifeThenPowerLoss, seeds=range(10), survivors=range(4), cases_max=4000)


@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("nth", range(1, 9))
@pytest.mark.parametrize("crash", Crash)
def test_a_failed_sync_commits_nothing_and_what_was_committed_stays(
    nth: int, after: AfterFailedSync, crash: Crash
) -> None:
    world = World(nth)
    world.disk.faults.fail("fdatasync", nth=nth, after=after)
    life = Life()
    with contextlib.suppress(LakebedError):
        life.run(world)
    world.restart(crash, survivors=nth)
    twin = world.copy()
    Opened(twin).close()
    served = stored(twin)
    twin.restart(Crash.POWER, survivors=nth)
    assert stored(twin)[: len(served)] == served, "served, and gone"
    life.check(world)
