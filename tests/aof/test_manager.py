"""Many logs under one manager, and what it does at its ends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.manager import AofManager
from lakebed.base.errors import AlreadyExists, BadName, Closed, DiskError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.fakes.aof_scan import scan_log

CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))


def _manager(world: World) -> AofManager:
    return AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner)


def test_many_logs_are_flushed_and_sealed_side_by_side() -> None:
    world = World(1)
    manager = _manager(world)
    logs = {f"log-{n}": manager.open(f"log-{n}") for n in range(25)}
    for number in range(30):
        for name, log in logs.items():
            log.append_record_with_timeout(f"{name} {number}".encode() * 300, 10)
    world.runner.advance(10**9)
    world.restart(Crash.POWER)
    for name in logs:
        found = [record[3] for record in scan_log(world.disk, name=name)]
        assert found == [f"{name} {number}".encode() * 300 for number in range(30)]
    assert len(world.disk.names("/store/aof/log-3/segments")) > 1


def test_an_idle_log_makes_no_flush_and_no_step_spins() -> None:
    world = World(2)
    manager = _manager(world)
    log = manager.open("orders")
    log.append_record(b"x")
    world.runner.advance(601 * 10**9)  # the flush, the cursor, the manifest chunk's rotation
    before = len(world.trace)
    world.runner.advance(3600 * 10**9)
    assert len(world.trace) == before
    assert log.counters.snapshot().counters["aof_flush_operations"] == 1


def test_names_are_those_of_logs_and_of_nothing_else() -> None:
    world = World(3)
    manager = _manager(world)
    assert manager.names() == []
    manager.open("orders")
    world.disk.create("/store/aof/stray").close()
    world.disk.make_folder("/store/aof/.hidden")
    assert manager.names() == ["orders"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b", ".x", "x" * 201, "ü", "a\nb"])
def test_names_that_would_leave_their_folder_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        _manager(World(4)).open(name)


def test_a_closed_log_can_be_opened_again_and_a_closed_manager_opens_nothing() -> None:
    manager = _manager(World(5))
    manager.open("orders").append_record(b"x")
    manager.close_log("orders")
    manager.close_log("orders")
    assert len(list(manager.open("orders").read())) == 1
    manager.close()
    manager.close()
    with pytest.raises(Closed):
        manager.open("orders")


def test_one_of_many_who_open_the_same_log_gets_it(tmp_path: Path) -> None:
    with AofManager(tmp_path, config=CONFIG) as manager:
        opened: list[str] = []
        refused: list[str] = []

        def work() -> None:
            try:
                opened.append(manager.open("orders").name)
            except AlreadyExists as error:
                refused.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(opened), len(refused)) == (1, 7)


def test_a_root_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((DiskError, AlreadyExists)):
        AofManager(tmp_path / "file")
