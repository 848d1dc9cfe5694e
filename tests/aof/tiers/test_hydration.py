"""The queue of segments that are to come back, and the tiers' use of it."""

from __future__ import annotations

import pytest

from lakebed.aof.errors import WouldBlock
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.hydration import HydrationQueue, Priority
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.tiers.chaotic_logs import SECOND, check_settled, fake_of, open_tiered
from tests.aof.tiers.tiered_logs import CONFIG, contents, write_segments


def new_queue() -> HydrationQueue:
    return HydrationQueue(World(1).runner.mutex())


def taken(queue: HydrationQueue) -> list[int]:
    found = []
    while (one := queue.take()) is not None:
        found.append(one.segment_id)
    return found


def test_the_most_urgent_comes_first_and_equals_in_order() -> None:
    queue = new_queue()
    wanted = [
        (1, Priority.RECOVERY),
        (2, Priority.PREFETCH),
        (3, Priority.READ_MISS),
        (4, Priority.FOLLOWER),
        (5, Priority.READ_MISS),
    ]
    for number, priority in wanted:
        queue.add(number, priority, now_ns=0)
    assert len(queue) == 5
    assert taken(queue) == [3, 5, 4, 2, 1]
    assert len(queue) == 0


def test_a_segment_that_is_asked_for_again_is_queued_once() -> None:
    queue = new_queue()
    for _ in range(3):
        queue.add(1, Priority.PREFETCH, now_ns=0)
    assert len(queue) == 1
    assert taken(queue) == [1]


def test_asking_again_makes_it_more_urgent_never_less() -> None:
    queue = new_queue()
    queue.add(1, Priority.PREFETCH, now_ns=0)
    queue.add(2, Priority.FOLLOWER, now_ns=0)
    queue.add(1, Priority.READ_MISS, now_ns=0)
    queue.add(2, Priority.RECOVERY, now_ns=0)
    assert taken(queue) == [1, 2]


def test_the_wait_counts_from_when_it_was_first_asked_for() -> None:
    queue = new_queue()
    queue.add(1, Priority.PREFETCH, now_ns=10)
    queue.add(1, Priority.READ_MISS, now_ns=20)
    assert queue.take() == (1, Priority.READ_MISS, 10)
    queue.add(1, Priority.PREFETCH, now_ns=30)
    assert queue.take() == (1, Priority.PREFETCH, 30)
    assert queue.take() is None


def test_a_warm_file_that_fails_a_reader_is_replaced_behind_it() -> None:
    world = World(2)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    written = write_segments(log, 2)
    world.runner.advance(30 * SECOND)
    log.tiers.evict([0])
    world.disk.unlink(log.segments()[0].path)
    assert contents(log) == written, "the object is read in its place"
    world.runner.advance(30 * SECOND)
    assert log.tiers.residency()[0].tiers == (0, 2)
    assert contents(log) == written
    check_settled(world, log, store)
    manager.close()


def test_a_damaged_warm_file_is_read_from_the_object_without_tiering_too() -> None:
    world = World(3)
    store = fake_of(world)
    manager, log = open_tiered(world, store, config=CONFIG)
    written = write_segments(log, 2)
    log.tiers.upload()
    log.tiers.evict()
    with world.disk.open(log.segments()[1].path, writable=True) as file:
        file.pwrite(10, b"\xff" * 30)
        file.sync()
    assert contents(log) == written
    manager.close()


def test_at_rest_a_segment_that_is_wanted_takes_the_place_of_one_that_is_not() -> None:
    world = World(4)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    written = [world.random.randbytes(60_000) for _ in range(8)]
    for payload in written:
        log.append_record_with_timeout(payload, 60)
    world.runner.advance(30 * SECOND)
    assert log.tiering is not None
    assert [place.segment_id for place in log.tiers.residency() if 0 not in place.tiers][:2] == [
        0,
        1,
    ]
    log.get(RecordId.from_parts(0, 64))
    world.runner.advance(30 * SECOND)
    resident = [place for place in log.tiers.residency() if 0 in place.tiers]
    assert resident[0].segment_id == 0
    assert sum(place.durable_bytes for place in resident) <= 256 * KIB // 2
    assert log.tiering.queue_depth == 0
    assert contents(log) == written
    manager.close()


def test_a_segment_for_which_there_is_no_room_stays_queued_until_there_is() -> None:
    world = World(5)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    for _ in range(4):
        log.append_record_with_timeout(world.random.randbytes(60_000), 60)
    world.runner.advance(30 * SECOND)
    log.tiers.evict([0], warm=True)
    store.is_down = True

    def append_too_much() -> None:
        for _ in range(8):
            log.append_record_with_timeout(world.random.randbytes(60_000), 2)

    with pytest.raises(WouldBlock):
        append_too_much()
    assert log.tiering is not None
    log.tiering.request(0, Priority.READ_MISS)
    world.runner.advance(5 * SECOND)
    assert log.tiering.queue_depth == 1
    assert log.observe_tiers().activation_queue_depth == 1
    store.is_down = False
    world.runner.advance(200 * SECOND)
    assert log.tiering.queue_depth == 0
    assert 0 in log.tiers.residency()[0].tiers
    manager.close()


def test_a_segment_that_is_read_on_comes_back_when_the_others_are_no_longer_read() -> None:
    world = World(6)
    manager, log = open_tiered(world, fake_of(world))
    written = [world.random.randbytes(60_000) for _ in range(8)]
    for payload in written:
        log.append_record_with_timeout(payload, 60)
    world.runner.advance(30 * SECOND)
    assert contents(log) == written  # all are in use
    world.runner.advance(30 * SECOND)
    assert 0 not in log.tiers.residency()[0].tiers
    for _ in range(10):
        log.get(RecordId.from_parts(0, 64))
        world.runner.advance(10 * SECOND)
    assert 0 in log.tiers.residency()[0].tiers
    manager.close()
