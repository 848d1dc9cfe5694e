"""Spare segments: made ahead of need, within a budget that all logs share, trusted only by those
who made them, and filled where and when that pays."""

from __future__ import annotations

import contextlib

import pytest

from lakebed.aof.config import AofConfig, FlushConfig, ManagerConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.metrics import LogMetrics
from lakebed.aof.paths import SPARE_SUFFIX, LogPaths
from lakebed.aof.spare_preparer import REFUSED_NS
from lakebed.aof.spares import FILL_STEP_BYTES, Spares
from lakebed.base.counters import Counters, Histogram
from lakebed.base.errors import BadConfig, LakebedError
from lakebed.base.files import make_folders
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.base.zero_fill import (
    WINDOW_NS,
    FillDecision,
    FlushShare,
    Load,
    SpareBudget,
    decide_fill,
)

FOLDER = "/store/aof/orders/segments"
SECOND = 10**9


def _manager(
    world: World,
    *,
    preallocate: int = 1,
    segment_bytes: int = 64 * KIB,
    spare_bytes_max: int = ManagerConfig().spare_bytes_max,
) -> AofManager:
    config = AofConfig(
        segment_bytes=segment_bytes,
        preallocate_segments=preallocate,
        flush=FlushConfig(reserve_bytes=0),
    )
    return AofManager(
        "/store",
        config=config,
        manager_config=ManagerConfig(spare_bytes_max=spare_bytes_max),
        disk=world.disk,
        runner=world.runner,
    )


def _open(world: World, *, preallocate: int = 1) -> tuple[AofManager, Aof]:
    manager = _manager(world, preallocate=preallocate)
    return manager, manager.open("orders")


def _append(world: World, log: Aof, size: int) -> None:
    log.append_record_with_timeout(b"x" * size, 10)
    log.flush()
    world.runner.settle()


def _spares(world: World, log: str = "orders") -> list[str]:
    names = world.disk.names(f"/store/aof/{log}/segments")
    return [name for name in names if name.endswith(SPARE_SUFFIX)]


def _gauge(log: Aof, name: str) -> float:
    return log.counters.snapshot().gauges[name]


def test_a_spare_is_ready_long_before_the_segment_is_full() -> None:
    world = World(1)
    _, log = _open(world)
    log.append_record(b"x" * 10_000)
    log.flush()
    world.runner.settle()
    assert _spares(world) == []
    log.append_record(b"x" * 10_000)
    log.flush()
    world.runner.settle()
    assert len(_spares(world)) == 1


def test_a_busy_logs_spare_is_zero_filled_and_an_idle_ones_is_not() -> None:
    for seconds, is_filled in ((0, True), (60, False)):
        world = World(2)
        _, log = _open(world)
        world.runner.advance(seconds * 10**9)
        used = world.disk.used_bytes()
        log.append_record(b"x" * 20_000)
        log.flush()
        world.runner.settle()
        assert (world.disk.used_bytes() - used >= 80 * KIB) == is_filled


def test_a_spare_of_a_log_with_large_flushes_is_filled_in_its_next_pause() -> None:
    world = World(6)
    log = _manager(world, segment_bytes=512 * KIB).open("orders")
    log.append_records([b"x" * 50_000] * 5)
    log.flush()
    world.runner.settle()
    assert len(_spares(world)) == 1
    assert _gauge(log, "aof_spare_filled_bytes") == 0
    world.runner.advance(WINDOW_NS)
    assert _gauge(log, "aof_spare_filled_bytes") == 512 * KIB


def test_filling_that_was_begun_ends_and_an_idle_log_is_quiet() -> None:
    world = World(8)
    size = 4 * FILL_STEP_BYTES
    log = _manager(world, segment_bytes=size).open("orders")
    log.append_records([b"x" * 1_000_000] * 5)
    log.flush()
    world.runner.advance(601 * SECOND)  # the manifest chunk's rotation is the last that happens
    assert _gauge(log, "aof_spare_filled_bytes") == size
    before = len(world.trace)
    world.runner.advance(3600 * SECOND)
    assert len(world.trace) == before


def test_a_spare_that_is_filled_in_part_can_be_used() -> None:
    world = World(9)
    spares, budget = _bare_spares(world, segment_bytes=2 * FILL_STEP_BYTES)
    assert spares.prepare(count_max=1, is_busy=True)
    spares.fill()
    unfilled = spares.unfilled()
    assert unfilled is not None
    assert unfilled.filled == FILL_STEP_BYTES
    assert spares.take() == unfilled.path
    spares.fill()  # finds none
    assert spares.unfilled() is None
    assert budget.used_bytes == 0


def test_a_spare_becomes_the_next_segment() -> None:
    world = World(3)
    _, log = _open(world)
    log.append_record(b"x" * 20_000)
    log.flush()
    world.runner.settle()
    log.append_record(b"y" * 60_000)
    log.flush()
    assert _spares(world) == []
    assert [info.segment_id for info in log.segments()] == [0, 1]


def test_leftover_spares_are_removed_and_closing_gives_them_back() -> None:
    world = World(4)
    manager, log = _open(world)
    log.append_record(b"x" * 20_000)
    log.flush()
    world.runner.settle()
    world.restart(Crash.KILL)
    assert len(_spares(world)) == 1
    manager, _ = _open(world)
    manager.close()
    assert _spares(world) == []


def test_a_spare_that_cannot_be_made_stops_nothing() -> None:
    for operation in ("create", "pwrite", "fdatasync"):
        world = World(7)
        manager, log = _open(world)
        log.append_record(b"x" * 1000)
        log.flush()
        log.append_record(b"x" * 20_000)
        world.disk.faults.fail(operation, nth=3 if operation == "pwrite" else 1)
        if operation != "create":
            world.disk.faults.fail("fdatasync", nth=2)
        with contextlib.suppress(LakebedError):
            log.flush()
        world.runner.settle()
        if operation == "create":
            log.append_record(b"y" * 60_000)
            assert log.seal_current_segment() is not None
            log.append_record(b"z")
            log.flush()
            manager.close()
        assert not world.runner.failures()


def test_none_are_made_if_none_are_wanted() -> None:
    world = World(5)
    _, log = _open(world, preallocate=0)
    log.append_record(b"x" * 40_000)
    log.flush()
    world.runner.settle()
    assert _spares(world) == []


def _bare_spares(
    world: World, *, segment_bytes: int = 64 * KIB, bytes_max: int = 1 << 30
) -> tuple[Spares, SpareBudget]:
    paths = LogPaths("/store", "orders")
    make_folders(world.disk, paths.segments)
    budget = SpareBudget(bytes_max=bytes_max, mutex=world.runner.mutex())
    spares = Spares(
        world.disk,
        paths,
        segment_bytes=segment_bytes,
        budget=budget,
        metrics=LogMetrics(Counters()),
        mutex=world.runner.mutex(),
        filling_mutex=world.runner.mutex(),
    )
    return spares, budget


def test_closing_waits_for_a_step_and_leaves_nothing() -> None:
    for seed in range(60):
        world = World(seed)
        spares, budget = _bare_spares(world)

        def fill(spares: Spares = spares) -> None:
            for _ in range(6):
                spares.prepare(count_max=2, is_busy=True)
                spares.fill()

        filler = world.runner.call("filler", fill)
        closer = world.runner.call("closer", spares.close)
        world.runner.run()
        filler.result()
        closer.result()
        assert _spares(world) == []
        assert budget.used_bytes == 0


def test_no_zero_is_written_to_a_spare_that_was_taken() -> None:
    """Whatever the order of things: what is written to a taken file stays there."""
    data = b"a record" * 1000
    for seed in range(60):
        world = World(seed)
        spares, budget = _bare_spares(world)

        def fill(spares: Spares = spares) -> None:
            for _ in range(6):
                spares.prepare(count_max=1, is_busy=True)
                spares.fill()

        def take(world: World = world, spares: Spares = spares) -> list[str]:
            taken = []
            for number in range(4):
                path = f"{FOLDER}/{number}.seg"
                world.disk.rename(spares.take(), path)
                with world.disk.open(path, writable=True) as file:
                    file.write_and_sync(0, [data])
                taken.append(path)
            return taken

        filler = world.runner.call("filler", fill)
        taker = world.runner.call("taker", take)
        world.runner.run()
        filler.result()
        for path in taker.result():
            with world.disk.open(path) as file:
                assert file.pread(0, len(data)) == data
        spares.close()
        assert budget.used_bytes == 0


# The budget.


def test_many_logs_share_the_budget_and_those_without_a_spare_work_as_well() -> None:
    world = World(20)
    manager = _manager(world, spare_bytes_max=3 * 64 * KIB)
    logs = {f"log-{number}": manager.open(f"log-{number}") for number in range(10)}
    for turn in range(8):
        for log in logs.values():
            _append(world, log, 20_000 + turn)
            spare_bytes = sum(_gauge(log, "aof_spare_bytes") for log in logs.values())
            assert spare_bytes == 64 * KIB * sum(len(_spares(world, name)) for name in logs)
            assert spare_bytes <= 3 * 64 * KIB
    for log in logs.values():
        assert [len(record.payload) for record in log.read()] == [20_000 + n for n in range(8)]
    manager.close()
    assert not any(_spares(world, name) for name in logs)


def test_a_cap_below_one_segment_means_no_spares() -> None:
    for spare_bytes_max in (0, 64 * KIB - 1):
        world = World(21)
        log = _manager(world, spare_bytes_max=spare_bytes_max).open("orders")
        for _ in range(10):
            _append(world, log, 20_000)
            assert _spares(world) == []
        assert len(list(log.read())) == 10


def test_the_budget_comes_back_when_a_spare_becomes_a_segment() -> None:
    world = World(22)
    manager = _manager(world, spare_bytes_max=64 * KIB)
    log, other = manager.open("orders"), manager.open("other")
    _append(world, log, 20_000)
    _append(world, other, 20_000)
    assert (len(_spares(world)), len(_spares(world, "other"))) == (1, 0)
    _append(world, log, 60_000)  # the spare is its segment now, and due is a new one
    _append(world, other, 1_000)
    assert len(_spares(world)) + len(_spares(world, "other")) == 1
    manager.close_log("orders")
    manager.close_log("other")
    assert _gauge(log, "aof_spare_bytes") == _gauge(other, "aof_spare_bytes") == 0


@pytest.mark.parametrize("operation", ["create", "pwrite", "fdatasync", "open"])
def test_the_budget_comes_back_when_a_spare_fails(operation: str) -> None:
    world = World(23)
    spares, budget = _bare_spares(world)
    world.disk.faults.fail(operation, nth=1)
    with contextlib.suppress(LakebedError):
        spares.prepare(count_max=1, is_busy=True)
        spares.fill()
    assert budget.used_bytes == 0
    assert _spares(world) == []
    assert spares.prepare(count_max=1, is_busy=True)
    assert budget.used_bytes == 64 * KIB
    spares.give_up()
    assert budget.used_bytes == 0
    assert _spares(world) == []


@pytest.mark.parametrize("names", [("busy", "idle"), ("idle", "busy")])
def test_an_idle_log_gives_its_spare_to_a_busy_one(names: tuple[str, str]) -> None:
    world = World(24)
    manager = _manager(world, segment_bytes=8 * MIB, spare_bytes_max=8 * MIB)
    logs = {name: manager.open(name) for name in names}
    _append(world, logs["idle"], 2 * MIB)
    assert len(_spares(world, "idle")) == 1
    world.runner.advance(3600 * SECOND)
    _append(world, logs["busy"], 5 * MIB)  # in an old segment, it does not count as busy
    _append(world, logs["busy"], 4 * MIB)
    world.runner.advance(REFUSED_NS)
    assert len(_spares(world, "busy")) == 1
    assert len(_spares(world, "idle")) == 0


def test_a_full_disk_gets_the_spares_back() -> None:
    world = World(25)
    log = _manager(world, segment_bytes=512 * KIB).open("orders")
    for _ in range(3):
        _append(world, log, 60_000)
    assert len(_spares(world)) == 1
    world.disk.capacity_bytes = world.disk.used_bytes() + 100 * KIB
    log.append_record(b"x")
    log.flush()
    world.runner.advance(20 * SECOND)  # the cursor's timer
    assert _spares(world) == []
    world.disk.capacity_bytes = 1 << 30
    log.append_record(b"x")
    log.flush()
    world.runner.advance(20 * SECOND)
    assert len(_spares(world)) == 1


def test_the_cap_is_checked() -> None:
    with pytest.raises(BadConfig, match="spare_bytes_max"):
        ManagerConfig(spare_bytes_max=-1)


# The policy.

BUSY, IDLE = 1 << 20, (1 << 20) - 1
SMALL, LARGE = 64 * KIB, 64 * KIB + 1


@pytest.mark.parametrize(
    ("load", "begun", "expected"),
    [
        (Load(IDLE, SMALL, 0.0), False, FillDecision.NO),
        (Load(99 * 200, 200, 0.0), False, FillDecision.NO),
        (Load(100 * 200, 200, 0.0), False, FillDecision.NOW),
        (Load(IDLE, LARGE, 0.0), False, FillDecision.NO),
        (Load(IDLE, LARGE, 0.0), True, FillDecision.NOW),
        (Load(IDLE, LARGE, None), True, FillDecision.LATER),
        (Load(IDLE, SMALL, None), True, FillDecision.NOW),
        (Load(BUSY, SMALL, None), False, FillDecision.NOW),
        (Load(BUSY, SMALL, 1.0), False, FillDecision.NOW),
        (Load(BUSY, LARGE, None), False, FillDecision.LATER),
        (Load(BUSY, LARGE, 0.5), False, FillDecision.LATER),
        (Load(BUSY, LARGE, 0.5), True, FillDecision.LATER),
        (Load(BUSY, LARGE, 0.49), False, FillDecision.NOW),
        (Load(BUSY, LARGE, 0.0), True, FillDecision.NOW),
    ],
)
def test_when_a_spare_is_filled(load: Load, begun: bool, expected: FillDecision) -> None:
    assert decide_fill(load, has_begun=begun) is expected


def test_the_share_is_that_of_the_last_window() -> None:
    clock, durations = SimulatedClock(), Histogram()
    share = FlushShare(durations, clock)
    assert share.measure() is None
    clock.advance(WINDOW_NS)
    durations.observe(WINDOW_NS // 4)
    assert share.measure() == 0.25
    clock.advance(WINDOW_NS - 1)
    durations.observe(WINDOW_NS)
    assert share.measure() == 0.25  # not yet a window
    clock.advance(1)
    assert share.measure() == 1.0
    clock.advance(WINDOW_NS * 10)
    assert share.measure() is None  # nobody looked for long
    clock.advance(WINDOW_NS)
    assert share.measure() == 0.0
