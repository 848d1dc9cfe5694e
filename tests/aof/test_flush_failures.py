"""A disk that stays full: what is logged, not a line for every try, and what waits for it."""

from __future__ import annotations

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import NoSpace
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.test_log import open_log

CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=1 << 19))
LARGE = b"refused at first" * 3000  # more than is granted without a look


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one for one in caplog.messages if one.startswith("flush_failed")]


def test_a_full_disk_is_logged_once_a_minute_and_anew_after_it_was_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(17)
    world.disk.capacity_bytes = 3 << 20
    manager, log = open_log(world, CONFIG)
    log.append_record(b"first")
    log.flush()
    for failures in range(2):
        caplog.clear()
        world.disk.capacity_bytes = (1 << 19) + world.disk.used_bytes()
        refused = log.append_record(LARGE)
        with pytest.raises(NoSpace):
            log.flush(refused)
        assert len(lines_of(caplog)) == 1, failures
        assert "log=orders" in lines_of(caplog)[0]
        world.runner.advance(150 * NS_PER_S)
        lines = lines_of(caplog)
        assert len(lines) == 3
        assert "left_out=" in lines[-1]
        assert "left_out=0" not in lines[-1]
        world.disk.capacity_bytes = 3 << 20
        world.runner.advance(NS_PER_S)
        log.flush()
    manager.close()


def test_a_wait_for_a_segment_on_a_full_disk_says_that_it_waits_for_a_flush() -> None:
    world = World(18)
    world.disk.capacity_bytes = 3 << 20
    manager, log = open_log(world, CONFIG)
    world.disk.capacity_bytes = (1 << 19) + world.disk.used_bytes()
    with pytest.raises(NoSpace):
        log.flush(log.append_record(LARGE))
    for refused in (lambda: log.append_record(b"x"), lambda: log.wait_for_writable_segment(5)):
        with pytest.raises(WouldBlock, match="flushes are failing") as blocked:
            refused()
        assert blocked.value.kind is BackpressureKind.FLUSH
    world.disk.capacity_bytes = 3 << 20
    log.wait_for_writable_segment(5)
    log.flush(log.append_record(b"x"))
    manager.close()
