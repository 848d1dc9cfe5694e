"""The barrier on the simulated disk: crashes, failed syncs and full disks, threads included.

Records are numbered and checksummed here, so that a mix of old and new cannot be taken for one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from lakebed.base.commit import Barrier, CommitConfig, FileTail, SpaceReserve
from lakebed.base.errors import DiskError, LakebedError, NoSpace, Poisoned, SyncFailed
from lakebed.base.files import Disk, File
from lakebed.base.layout import Buffer, Layout, u32
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.kernels import crc32c

pytestmark = pytest.mark.thorough

PATH = "/log"
SLOW = CommitConfig(delay_ms_max=60_000)  # what nobody waits for waits
RECORD_BYTES = 300  # not a divisor of a sector: records straddle sectors


class Head(NamedTuple):
    """Before the filling of a test record."""

    crc: u32
    caller: u32
    number: u32


HEAD = Layout(Head, order="<", size=12)
Key = tuple[int, int]


def encode(caller: int, number: int) -> bytes:
    body = HEAD.pack(Head(0, caller, number))[4:] + bytes([caller * 16 + number + 1]) * 288
    return HEAD.pack(Head(crc32c(body), caller, number))[:4] + body


def scan(disk: Disk, path: str = PATH) -> list[Key]:
    """The whole records from the start up to the first that is not whole."""
    found: list[Key] = []
    if not disk.exists(path):
        return found
    with disk.open(path) as file:
        while len(record := file.pread(len(found) * RECORD_BYTES, RECORD_BYTES)) == RECORD_BYTES:
            head = HEAD.unpack(record)
            if head.crc == 0 or head.crc != crc32c(record[4:]):
                break
            found.append((head.caller, head.number))
    return found


def open_barrier(
    world: World,
    *,
    size: int = 0,
    config: CommitConfig | None = None,
    reserve: SpaceReserve | None = None,
) -> tuple[Barrier[Buffer, int], File]:
    file = world.disk.create(PATH, size=size)
    world.disk.sync_folder("/")
    barrier: Barrier[Buffer, int] = Barrier(
        FileTail(file, end=0),
        name=PATH,
        runner=world.runner,
        wake=lambda: task.wake(),
        config=config,
        reserve=reserve,
    )
    task = world.runner.spawn("commit", barrier.step)
    return barrier, file


class Commits:
    """Callers that commit and note what was acknowledged, and where."""

    size = 0  # of the file when it is created: 0 grows
    callers = 4
    rounds = 3
    config = CommitConfig()

    def __init__(self) -> None:
        self.acknowledged: dict[Key, int] = {}
        self.refused: list[Key] = []

    def run(self, world: World) -> None:
        barrier, file = open_barrier(world, size=self.size, config=self.config)
        for caller in range(self.callers):
            world.runner.call(f"caller {caller}", partial(self.work, barrier, caller))
        world.runner.run()
        barrier.close()
        world.runner.close()
        file.close()

    def work(self, barrier: Barrier[Buffer, int], caller: int) -> None:
        for number in range(self.rounds):
            record = encode(caller, number)
            try:
                if (caller + number) % 4 == 3:
                    ticket = barrier.submit(record, size=len(record))
                    ticket.when_done(partial(self.note, (caller, number), ticket.result))
                else:
                    commit = partial(barrier.commit, record, size=len(record))
                    self.note((caller, number), commit)
            except LakebedError:
                self.refused.append((caller, number))

    def note(self, key: Key, result: Callable[[], int]) -> None:
        assert key not in self.acknowledged
        try:
            self.acknowledged[key] = result()
        except LakebedError:
            self.refused.append(key)

    def check(self, world: World) -> None:
        found = scan(world.disk)
        for key, offset in self.acknowledged.items():
            assert offset % RECORD_BYTES == 0
            place = offset // RECORD_BYTES
            assert place < len(found), f"{key} was acknowledged and is lost"
            assert found[place] == key, f"{key} was acknowledged and is now {found[place]}"
        assert len(set(found)) == len(found), "a record is there twice"
        for caller in range(self.callers):
            numbers = [number for who, number in found if who == caller]
            assert numbers == list(range(len(numbers))), "a caller's records have a gap"


class CommitsIntoZeros(Commits):
    size = 4 * 3 * RECORD_BYTES + 1000


class CommitsInSmallBatches(Commits):
    config = CommitConfig(batch_count_max=2, queue_count_max=3, delay_ms_max=1)


@pytest.mark.parametrize("scenario", [Commits, CommitsIntoZeros, CommitsInSmallBatches])
def test_no_acknowledged_write_is_lost_by_a_crash_at_any_step(scenario: type[Commits]) -> None:
    tried = sweep(scenario, seeds=range(12), survivors=range(5))
    assert tried > 500


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [Commits, CommitsIntoZeros, CommitsInSmallBatches])
def test_no_acknowledged_write_is_lost_in_a_long_sweep(scenario: type[Commits]) -> None:
    sweep(scenario, seeds=range(1000, 1600), survivors=range(10), cases_max=1_000_000)


def test_without_a_crash_everything_is_acknowledged_and_found() -> None:
    for seed in range(30):
        world, scenario = World(seed), CommitsInSmallBatches()
        scenario.run(world)
        world.restart(Crash.POWER)
        scenario.check(world)
        assert len(scenario.acknowledged) == len(scan(world.disk)) == 12
        assert not scenario.refused


def test_the_same_seed_gives_the_same_trace_twice() -> None:
    def trace(seed: int) -> list[str]:
        world = World(seed)
        CommitsInSmallBatches().run(world)
        return world.trace

    assert trace(7) == trace(7)
    assert len({tuple(trace(seed)) for seed in range(10)}) == 10


@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("nth", range(1, 6))
def test_a_failed_sync_is_never_followed_by_an_ack_for_the_same_bytes(
    nth: int, after: AfterFailedSync
) -> None:
    for seed in range(20):
        for survivors in range(4):
            world, scenario = World(seed), CommitsInSmallBatches()
            world.disk.faults.fail("fdatasync", nth=nth, after=after)
            scenario.run(world)
            syncs = [line for line in world.trace if "fdatasync" in line and line[0].isdigit()]
            assert len(syncs) <= nth, "the file was synced again after its sync had failed"
            assert scenario.refused or len(scenario.acknowledged) == 12
            world.restart(Crash.POWER, survivors=survivors)
            scenario.check(world)


def test_callers_covered_by_a_failed_sync_get_it_and_those_behind_are_refused() -> None:
    world = World(3)
    barrier, _ = open_barrier(world)
    barrier.commit(encode(0, 0), size=RECORD_BYTES)
    world.disk.faults.fail("fdatasync")
    with pytest.raises(SyncFailed):
        barrier.commit(encode(0, 1), size=RECORD_BYTES)
    with pytest.raises(Poisoned):
        barrier.commit(encode(0, 2), size=RECORD_BYTES)


class CommitsAcrossFiles(Commits):
    """A failed sync; the work goes on in a second file."""

    def run(self, world: World) -> None:
        world.disk.faults.fail("fdatasync", nth=3)
        first = world.disk.create(PATH)
        world.disk.sync_folder("/")

        def recover(cause: LakebedError) -> FileTail:
            assert isinstance(cause, SyncFailed)
            file = world.disk.create("/second")
            world.disk.sync_folder("/")
            return FileTail(file, end=0)

        barrier: Barrier[Buffer, int] = Barrier(
            FileTail(first, end=0),
            name=PATH,
            runner=world.runner,
            wake=lambda: task.wake(),
            config=CommitConfig(batch_count_max=2),
            recover=recover,
        )
        task = world.runner.spawn("commit", barrier.step)
        for caller in range(self.callers):
            world.runner.call(f"caller {caller}", partial(self.work, barrier, caller))
        world.runner.run()
        barrier.close()

    def check(self, world: World) -> None:
        found = [*scan(world.disk), *scan(world.disk, "/second")]
        lost = [key for key in self.acknowledged if key not in found]
        assert not lost, "acknowledged and lost"
        assert len(set(found)) == len(found)


def test_work_goes_on_in_a_new_file_and_loses_nothing_to_a_crash() -> None:
    assert sweep(CommitsAcrossFiles, seeds=range(6), survivors=range(4)) > 200
    world, scenario = World(0), CommitsAcrossFiles()
    scenario.run(world)
    assert 0 < len(scenario.refused) <= 2, "only the batch whose sync failed"
    assert len(scenario.acknowledged) + len(scenario.refused) == 12


@pytest.mark.parametrize("size", [0, 40 * RECORD_BYTES])
def test_a_full_disk_refuses_and_comes_back_and_nothing_refused_reappears(size: int) -> None:
    for seed in range(20):
        world = World(seed)
        barrier, _ = open_barrier(world, size=size, config=SLOW)
        world.disk.capacity_bytes = world.disk.used_bytes() + 4096
        for number in range(5):
            barrier.commit(encode(0, number), size=RECORD_BYTES)
        tickets = [barrier.submit(encode(1, n), size=RECORD_BYTES) for n in range(12)]
        with pytest.raises(NoSpace):
            tickets[-1].wait()
        assert scan(world.disk) == [(0, number) for number in range(5)]
        world.disk.capacity_bytes += 1 << 20
        barrier.commit(encode(0, 5), size=RECORD_BYTES)
        for crash in Crash:
            for survivors in range(4):
                twin = world.copy()
                twin.restart(crash, survivors=survivors)
                assert scan(twin.disk) == [(0, number) for number in range(6)]


def test_the_remains_of_a_refused_write_are_gone_before_its_caller_hears_of_it() -> None:
    for survivors in range(20):
        world = World(survivors)
        barrier, _ = open_barrier(world, size=40 * RECORD_BYTES, config=SLOW)
        world.disk.capacity_bytes = world.disk.used_bytes() + 4096
        tickets = [barrier.submit(encode(1, n), size=RECORD_BYTES) for n in range(15)]
        with pytest.raises(NoSpace):
            tickets[0].wait()
        world.restart(Crash.POWER, survivors=survivors)
        assert scan(world.disk) == []


def test_below_the_reserve_writes_are_refused_and_come_back_by_themselves() -> None:
    world = World(1)
    world.disk.capacity_bytes = 100_000
    reserve = SpaceReserve(world.disk, "/", reserve_bytes=50_000)
    barrier, _ = open_barrier(world, reserve=reserve)
    barrier.commit(encode(0, 0), size=RECORD_BYTES)
    with world.disk.create("/ballast") as ballast:
        ballast.pwrite(0, bytes(60_000))
    granted = 50_000 // 16 // RECORD_BYTES  # a sixteenth of the reserve is used without looking
    for number in range(1, 1 + granted):
        barrier.commit(encode(0, number), size=RECORD_BYTES)
    number = 1 + granted
    for _ in range(2):
        with pytest.raises(NoSpace, match="in reserve: writes are refused until space is freed"):
            barrier.commit(encode(0, number), size=RECORD_BYTES)
    world.disk.unlink("/ballast")
    barrier.commit(encode(0, number), size=RECORD_BYTES)
    assert scan(world.disk) == [(0, each) for each in range(number + 1)]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_a_failed_write_ends_the_file(code: int) -> None:
    world = World(4)
    barrier, _ = open_barrier(world)
    barrier.commit(encode(0, 0), size=RECORD_BYTES)
    world.disk.faults.fail("pwrite", code=code)
    with pytest.raises(DiskError):
        barrier.commit(encode(0, 1), size=RECORD_BYTES)
    with pytest.raises(Poisoned):
        barrier.commit(encode(0, 2), size=RECORD_BYTES)
    world.restart(Crash.KILL)
    assert scan(world.disk)[:1] == [(0, 0)]


def test_short_writes_and_interrupted_calls_are_finished() -> None:
    for seed in range(10):
        world = World(seed)
        world.disk.faults.short_writes = True
        world.disk.faults.fail("pwrite", nth=2, code=errno.EINTR)
        world.disk.faults.fail("pwrite", nth=5, code=errno.EAGAIN)
        scenario = Commits()
        scenario.run(world)
        world.restart(Crash.POWER)
        scenario.check(world)
        assert len(scenario.acknowledged) == 12
