"""Background work of logs: it ends with its log, and a log whose work fails stops no other."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.base.errors import Busy, Closed, LakebedError, Locked
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.fakes.aof_scan import scan_log
from tests.fakes.troubled_disk import TroubledDisk

SMALL = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))
KEPT_FOR_LONG = AofConfig(
    segment_bytes=64 * KIB,
    flush=FlushConfig(reserve_bytes=0),
    retention=RetentionConfig(count_max=1000),
)


def _manager(world: World, config: AofConfig = SMALL) -> AofManager:
    return AofManager("/store", config=config, disk=world.disk, runner=world.runner)


def _fill(log: Aof, count: int) -> list[bytes]:
    payloads = [b"%08d" % number + b"." * 2000 for number in range(count)]
    for payload in payloads:
        log.append_record_with_timeout(payload, 60)
    log.flush()
    return payloads


def _fill_up(log: Aof) -> None:
    """Three segments and more, without waiting for a seal."""
    for _ in range(10):
        log.append_records([b"x" * 2000] * 20)
        log.flush()


def _being_sealed(world: World, log: Aof, disk: TroubledDisk) -> None:
    """The maintenance step stands right before it writes the footer of segment 0."""
    log.append_record(b"first")
    log.flush()
    disk.held = f"/segments/{0:020}_"
    world.runner.call("seal", log.seal_current_segment)
    world.runner.settle()
    assert disk.reached.is_set()


@pytest.mark.parametrize("how", ["close_log", "close"])
def test_a_log_that_is_opened_again_during_a_slow_seal_loses_nothing(how: str) -> None:
    world = World(1)
    world.disk = disk = TroubledDisk(world)
    manager = _manager(world)
    log = manager.open("orders")
    _being_sealed(world, log, disk)

    def open_again() -> None:
        if how == "close_log":
            manager.close_log("orders")
        else:
            log.close()
        again = manager.open("orders")
        again.append_record(b"second")
        again.flush()

    opening = world.runner.call("open again", open_again)
    world.runner.settle()
    disk.release()
    world.runner.advance(10**9)
    opening.result()
    world.restart(Crash.POWER)
    assert [record[3] for record in scan_log(world.disk)] == [b"first", b"second"]
    reopened = _manager(world).open("orders")
    assert [record.payload for record in reopened.read()] == [b"first", b"second"]


def test_a_log_cannot_be_opened_while_it_is_being_closed() -> None:
    world = World(2)
    world.disk = disk = TroubledDisk(world)
    manager = _manager(world)
    log = manager.open("orders")
    _being_sealed(world, log, disk)
    closing = world.runner.call("close", log.close)
    closing_again = world.runner.call("close again", log.close)
    world.runner.settle()
    assert (closing.done, closing_again.done) == (False, False)
    with pytest.raises(Busy, match="being closed"):
        manager.open("orders")
    disk.release()
    world.runner.advance(10**9)
    closing.result()
    closing_again.result()
    assert [record.payload for record in manager.open("orders").read()] == [b"first"]


def test_a_log_that_its_user_closed_can_be_opened_again() -> None:
    manager = _manager(World(3))
    log = manager.open("orders")
    log.append_record(b"first")
    log.close()
    log.close()
    again = manager.open("orders")
    assert again is not log
    assert [record.payload for record in again.read()] == [b"first"]
    with pytest.raises(Closed):
        log.append_record(b"late")
    log.close()
    again.append_record(b"second")
    again.flush()
    manager.close()
    with pytest.raises(Closed):
        manager.open("orders")


def test_a_truncated_segment_of_one_log_stops_no_log(tmp_path: Path) -> None:
    """On the real disk, which refuses to read before the start of a file."""
    with AofManager(tmp_path, config=KEPT_FOR_LONG) as manager:
        damaged, innocent = manager.open("damaged"), manager.open("innocent")
        _fill(damaged, 100)
        path = damaged.segments()[0].path
        manager.close_log("damaged")
        os.truncate(path, 10)
        damaged = manager.open("damaged")
        payloads = _fill(innocent, 200)
        _fill(damaged, 200)
        assert [record.payload for record in innocent.read()] == payloads
        assert manager.failures() == {}, "it counts as sealed when it was made"


def test_a_log_whose_upkeep_fails_is_named_with_file_and_cause_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(5)
    world.disk = disk = TroubledDisk(world)
    manager = _manager(world, KEPT_FOR_LONG)
    innocent, failing = manager.open("innocent"), manager.open("failing")
    _fill(failing, 100)
    failing.seal_current_segment()
    path = failing.segments()[0].path
    manager.close_log("failing")
    disk.refused = path
    failing = manager.open("failing")
    world.runner.advance(60 * 10**9)
    assert list(manager.failures()) == ["failing"]
    assert path in str(manager.failures()["failing"])
    assert "Input/output error" in str(manager.failures()["failing"])
    told = [one for one in caplog.records if "background_work_failed" in one.getMessage()]
    assert len(told) == 1, "however often it was tried again"
    payloads = _fill(innocent, 200)
    assert [record.payload for record in innocent.read()] == payloads
    _fill(failing, 200)
    assert failing.failure is None, "it goes on sealing, too"
    disk.refused = ""
    world.runner.advance(31 * 10**9)
    assert manager.failures() == {}


def test_running_out_of_descriptors_ends_no_background_work() -> None:
    world = World(6)
    manager = _manager(world, KEPT_FOR_LONG)
    logs = [manager.open(f"log-{number}") for number in range(3)]
    for log in logs:
        log.append_record(b"first")
        log.flush()
    for nth in range(1, 7):
        world.disk.faults.fail("open", nth=nth, code=errno.EMFILE)
    sealer = [world.runner.call("seal", log.seal_current_segment) for log in logs]
    world.runner.settle()
    failures = manager.failures()
    assert failures
    assert all("/segments/" in str(error) for error in failures.values())
    assert all(isinstance(error, LakebedError) for error in failures.values())
    world.runner.advance(10**9)
    assert all(call.result() is not None for call in sealer)
    assert manager.failures() == {}
    for log in logs:
        assert log.failure is None
        _fill(log, 200)


def test_a_log_that_cannot_seal_is_named_while_its_appends_would_block() -> None:
    world = World(7)
    world.disk = disk = TroubledDisk(world)
    manager = _manager(world)
    log = manager.open("orders")
    log.append_record(b"first")
    log.flush()
    disk.refused, disk.code = f"/segments/{0:020}_", errno.EMFILE
    with pytest.raises(WouldBlock) as caught:
        _fill_up(log)
    assert caught.value.kind is BackpressureKind.ROLLOVER
    world.runner.advance(10**9)
    with pytest.raises(WouldBlock):
        log.append_records([b"x" * 2000] * 20)
    assert list(manager.failures()) == ["orders"]
    assert "Too many open files" in str(manager.failures()["orders"])
    disk.refused = ""
    world.runner.advance(31 * 10**9)
    assert manager.failures() == {}
    log.append_records([b"x" * 2000] * 20)


def test_a_log_that_is_opened_while_its_manager_is_closed_is_not_left_open() -> None:
    world = World(8)
    world.disk = disk = TroubledDisk(world)
    with _manager(world) as manager:
        manager.open("orders").append_record(b"first")
    manager = _manager(world)
    disk.held = f"/segments/{0:020}_"
    opening = world.runner.call("open", lambda: manager.open("orders"))
    world.runner.settle()
    assert disk.reached.is_set()
    closing = world.runner.call("close", manager.close)
    world.runner.settle()
    assert not closing.done
    with pytest.raises(Locked):
        _manager(world)
    disk.release()
    world.runner.settle()
    closing.result()
    with pytest.raises(Closed, match="closed while the log was being opened"):
        opening.result()
    assert [record.payload for record in _manager(world).open("orders").read()] == [b"first"]
