"""The durability cursor: written at a seal, at the close, now and then; trusted by nobody."""

from __future__ import annotations

import json

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.record_id import RecordId
from lakebed.base.files import read_file
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

PATH = "/store/aof/orders/warm/durability/orders.json"


def _open(world: World) -> tuple[AofManager, Aof]:
    config = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))
    manager = AofManager("/store", config=config, disk=world.disk, runner=world.runner)
    return manager, manager.open("orders")


def _durable(world: World) -> RecordId:
    document = json.loads(read_file(world.disk, PATH, size_max=1000))
    assert document["instance"] == "orders"
    return RecordId.from_parts(document["durable"]["segment_id"], document["durable"]["offset"])


def test_it_follows_the_log_now_and_then_and_rests_with_it() -> None:
    world = World(1)
    _, log = _open(world)
    for _ in range(3):
        log.append_record(b"x" * 100)
        world.runner.advance(25 * 10**9)
        assert _durable(world) == log.durable_end()
    world.runner.advance(601 * 10**9)  # the manifest chunk's rotation
    before = world.disk.steps
    world.runner.advance(3600 * 10**9)
    assert world.disk.steps == before


def test_it_is_written_at_a_seal_and_at_the_close() -> None:
    world = World(2)
    manager, log = _open(world)
    log.append_record(b"x")
    log.seal_current_segment()
    world.runner.settle()
    assert _durable(world) == RecordId.from_parts(0, 96)
    log.append_record(b"y")
    manager.close()
    assert _durable(world) == RecordId.from_parts(1, 96)


def test_recovery_does_not_look_at_it() -> None:
    world = World(3)
    manager, log = _open(world)
    record_id = log.append_record(b"x")
    manager.close()
    with world.disk.open(PATH, writable=True) as file:
        file.truncate(3)
    _, again = _open(world)
    assert again.get(record_id).payload == b"x"


def test_a_cursor_that_cannot_be_written_harms_nothing() -> None:
    world = World(4)
    _, log = _open(world)
    log.append_record(b"x")
    world.disk.faults.fail("rename", nth=3)  # behind the segment's and the pointer's
    log.seal_current_segment()
    world.runner.settle()
    assert log.append_record(b"y").segment_index == 1
