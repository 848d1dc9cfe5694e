"""The queue of segments that are to come back, and the tiers' use of it."""

from __future__ import annotations

from lakebed.aof.tiers.hydration import HydrationQueue, Priority
from lakebed.base.simulation.world import World
from tests.aof.tiers.chaotic_logs import SECOND, check_settled, fake_of, open_tiered
from tests.aof.tiers.tiered_logs import CONFIG, contents, write_segments


def new_queue() -> HydrationQueue:
    return HydrationQueue(World(1).runner.mutex())


def taken(queue: HydrationQueue) -> list[int]:
    found = []
    while (one := queue.take()) is not None:
        found.append(one[0])
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
    assert queue.take() == (1, 10)
    queue.add(1, Priority.PREFETCH, now_ns=30)
    assert queue.take() == (1, 30)
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


def test_a_segment_without_room_stays_where_it_is() -> None:
    world = World(4)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    for _ in range(8):
        log.append_record_with_timeout(world.random.randbytes(60_000), 60)
    world.runner.advance(30 * SECOND)
    before = [place.tiers for place in log.tiers.residency()]
    assert log.tiering is not None
    for number in range(4):
        log.tiering.request(number, Priority.READ_MISS)
    world.runner.advance(30 * SECOND)
    assert [place.tiers for place in log.tiers.residency()] == before
    assert not log.tiering.hydrate_next()
    manager.close()
