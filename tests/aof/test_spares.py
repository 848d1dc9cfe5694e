"""Spare segments: made ahead of need, trusted only by those who made them, not closed too early."""

from __future__ import annotations

import contextlib

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.paths import SPARE_SUFFIX, LogPaths
from lakebed.aof.spares import Spares
from lakebed.base.errors import LakebedError
from lakebed.base.files import make_folders
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

FOLDER = "/store/aof/orders/segments"


def _open(world: World, *, preallocate: int = 1) -> tuple[AofManager, Aof]:
    config = AofConfig(
        segment_bytes=64 * KIB,
        preallocate_segments=preallocate,
        flush=FlushConfig(reserve_bytes=0),
    )
    manager = AofManager("/store", config=config, disk=world.disk, runner=world.runner)
    return manager, manager.open("orders")


def _spares(world: World) -> list[str]:
    return [name for name in world.disk.names(FOLDER) if name.endswith(SPARE_SUFFIX)]


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


def test_a_log_with_large_flushes_is_not_filled() -> None:
    world = World(6)
    config = AofConfig(segment_bytes=512 * KIB, flush=FlushConfig(reserve_bytes=0))
    manager = AofManager("/store", config=config, disk=world.disk, runner=world.runner)
    log = manager.open("orders")
    log.append_records([b"x" * 50_000] * 5)
    log.flush()
    world.runner.settle()
    assert len(_spares(world)) == 1
    assert world.disk.used_bytes() < 300 * KIB


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


def test_a_spare_is_not_closed_while_it_is_filled() -> None:
    """The zeros would go to whatever file gets its number next."""
    for seed in range(60):
        world = World(seed)
        paths = LogPaths("/store", "orders")
        make_folders(world.disk, paths.segments)
        spares = Spares(
            world.disk,
            paths,
            segment_bytes=64 * KIB,
            mutex=world.runner.mutex(),
            filling_mutex=world.runner.mutex(),
        )

        def fill(spares: Spares = spares) -> None:
            for _ in range(6):
                spares.prepare(wanted=2, zero_fill=True)

        filler = world.runner.call("filler", fill)
        closer = world.runner.call("closer", spares.close)
        world.runner.run()
        filler.result()
        closer.result()
        assert _spares(world) == []
