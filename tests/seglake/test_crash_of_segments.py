"""A crash at every I/O step of writing, sealing and recovering segments.

After each: every chunk that was acknowledged is there, every file is sealed and its index is right,
nothing is told to be damaged, and writing goes on.
"""

from __future__ import annotations

from functools import partial

import pytest

from lakebed.base.errors import LakebedError
from lakebed.base.files import make_folders
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.model import Chunk
from lakebed.seglake.segment_file import read_sealed
from lakebed.seglake.segment_id import segment_path
from lakebed.seglake.segment_pool import SegmentPool
from tests.seglake.segment_worlds import (
    FOLDER,
    new_world,
    open_reader,
    open_segments,
    record,
    recover,
    segment_ids,
)

pytestmark = pytest.mark.sweep


class Life:
    """Small batches beside large bodies. `rows` are the metadata: what is in it is durable."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[Chunk, bytes]] = []
        self.rows: dict[str, SegmentRow] = {}

    def run(self, world: World) -> None:
        make_folders(world.disk, FOLDER)
        segments = open_segments(world)
        world.runner.call("batches", partial(self.write_batches, segments))
        world.runner.call("bodies", partial(self.write_bodies, segments))
        world.runner.run()
        self.seal(segments.close())

    def write_batches(self, segments: SegmentPool) -> None:
        for batch in range(7):
            records = [record(100 * batch + number, 900 * number + 1) for number in range(5)]
            writer = segments.borrow()
            try:
                chunks = writer.append_synced(records)
                self.commit(writer.row, list(zip(chunks, records, strict=True)))
            finally:
                segments.give_back(writer)
            if batch in (3, 5):
                self.seal(segments.seal_due())

    def write_bodies(self, segments: SegmentPool) -> None:
        for body in range(4):
            writer = segments.borrow()
            try:
                records = [record(1000 + 10 * body + number, 11 * KIB) for number in range(3)]
                chunks = [writer.append(*one) for one in records]
                if body == 2:
                    continue  # given up
                writer.sync()
                self.commit(writer.row, list(zip(chunks, records, strict=True)))
            finally:
                segments.give_back(writer)
            self.seal(segments.seal_due())

    def commit(self, row: SegmentRow, written: list[tuple[Chunk, tuple[bytes, bytes]]]) -> None:
        known = self.rows.get(row.segment_id)
        if known is None or (known.state == "OPEN" and known.size < row.size):
            self.rows[row.segment_id] = row
        self.acknowledged += [(chunk, data) for chunk, (_, data) in written]

    def seal(self, rows: list[SegmentRow]) -> None:
        self.rows.update((row.segment_id, row) for row in rows)

    def check(self, world: World) -> None:
        make_folders(world.disk, FOLDER)
        found = recover(world, self.rows)
        assert found.damage == []
        self.check_files(world)
        assert recover(world, self.rows) == ([], [], []), "recovered twice"
        self.go_on(world)

    def check_files(self, world: World) -> None:
        reader = open_reader(world)
        for chunk, data in self.acknowledged:
            assert bytes(reader.read(chunk)) == data, "not what was written"
        assert segment_ids(world.disk) == sorted(self.rows)
        for segment_id, row in self.rows.items():
            with world.disk.open(segment_path(FOLDER, segment_id)) as file:
                sealed = read_sealed(file)
                assert (row.state, row.size) == ("SEALED", file.size())
            assert row.footer_checksum == sealed.checksum
            own = [chunk for chunk, _ in self.acknowledged if chunk.segment_id == segment_id]
            entries = {(entry.offset, entry.hash) for entry in sealed.entries}
            assert entries.issuperset((chunk.offset, chunk.hash) for chunk in own)
            assert all(sealed.has(chunk.hash) for chunk in own)

    def go_on(self, world: World) -> None:
        segments = open_segments(world, seed=5)
        writer = segments.borrow()
        assert writer.segment_id not in self.rows
        one = record(5000)
        self.commit(writer.row, list(zip(writer.append_synced([one]), [one], strict=True)))
        segments.give_back(writer)
        self.seal(segments.close())
        self.check_files(world)


class LifeThenCrashOfRecovery(Life):
    """What recovery did is cut short, too, and what it told is not lost in the next crash."""

    def check(self, world: World) -> None:
        probe = world.copy()
        make_folders(probe.disk, FOLDER)
        recover(probe, dict(self.rows))
        steps = probe.disk.steps
        for step in range(0, steps + 1, max(1, steps // 5)):
            for crash in Crash:
                twin, twin_life = world.copy(), Life()
                twin_life.acknowledged = list(self.acknowledged)
                twin_life.rows = dict(self.rows)
                twin.disk.faults.crash_at_step = step
                try:
                    make_folders(twin.disk, FOLDER)
                    recover(twin, twin_life.rows)
                except SimulatedCrash:
                    pass
                twin.restart(crash, survivors=step % 4)
                twin_life.check(twin)


def test_a_crash_anywhere_loses_no_chunk_and_leaves_every_segment_sealed() -> None:
    assert sweep(Life, seeds=range(3), survivors=range(4), cases_max=400) > 300


def test_a_crash_in_recovery_loses_nothing_either() -> None:
    assert sweep(LifeThenCrashOfRecovery, seeds=[4], survivors=[0, 2, 3], cases_max=60) > 30


@pytest.mark.slow
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    sweep(Life, seeds=range(50, 60), survivors=range(8), cases_max=6000)


@pytest.mark.slow
def test_a_crash_in_recovery_in_a_long_sweep() -> None:
    sweep(LifeThenCrashOfRecovery, seeds=range(6, 9), survivors=range(4), cases_max=700)


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite", "fsync"])
@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("crash", Crash)
def test_a_failure_acknowledges_nothing_and_what_was_acknowledged_stays(
    operation: str, after: AfterFailedSync, crash: Crash
) -> None:
    for nth in range(1, 14):
        world, life = new_world(nth), Life()
        segments = open_segments(world)
        world.disk.faults.fail(operation, nth=nth, after=after)
        calls = [
            world.runner.call("batches", partial(life.write_batches, segments)),
            world.runner.call("bodies", partial(life.write_bodies, segments)),
        ]
        world.runner.run()
        for call in calls:
            assert call.error is None or isinstance(call.error, LakebedError)
        life.seal(segments.close())
        world.restart(crash, survivors=nth % 4)
        life.check(world)
        world.restart(Crash.POWER, survivors=nth % 4)
        life.check_files(world)


@pytest.mark.parametrize("seed", range(4))
def test_a_disk_that_is_full_now_and_then_loses_nothing(seed: int) -> None:
    world, life = new_world(seed), Life()
    segments = open_segments(world)
    world.disk.capacity_bytes = 40 * KIB * (seed + 1)
    calls = [
        world.runner.call("batches", partial(life.write_batches, segments)),
        world.runner.call("bodies", partial(life.write_bodies, segments)),
    ]
    world.runner.run()
    assert any(call.error is not None for call in calls)
    life.seal(segments.close())
    world.disk.capacity_bytes = 1 << 40
    world.restart(Crash.POWER, survivors=seed)
    life.check(world)
