"""Followers beside a writer, with every order of events that the seeds give."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakebed.aof.follower import Follower
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Closed, NotFound
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.kernels.disk import real_disk
from tests.fakes.aof import FakeLog, OvertakenLog

SEEDS = range(120)


def _write(log: FakeLog, world: World, count: int) -> None:
    """Append and publish at random moments, with segments that end, are sealed, and go."""
    random = world.random
    late: list[Callable[[], None]] = []
    for number in range(count):
        if log.built and random.random() < 0.15:
            before = log.active
            log.roll(seals=random.random() < 0.5)
            late.append(lambda segment=before: log.seal(segment))  # type: ignore[misc]
        log.append(random.randbytes(random.randrange(1, 600)), timestamp=number)
        if random.random() < 0.5:
            log.publish()
        if late and random.random() < 0.3:
            late.pop(0)()
        world.runner.sleep_ns(random.randrange(3) * NS_PER_MS)
    log.publish()


@pytest.mark.parametrize("seed", SEEDS)
def test_followers_get_every_record_once_and_in_order(seed: int) -> None:
    world = World(seed)
    log = FakeLog(world.disk, "/", runner=world.runner, tells_end=bool(seed % 2))
    count = 25

    def follow() -> list[Record]:
        with Follower(log, batch_bytes_max=world.random.choice([1, 700, 1 << 20])) as follower:
            return [next(follower) for _ in range(count)]

    def follow_batches() -> list[Record]:
        taken: list[Record] = []
        with Follower(log) as follower:
            while len(taken) < count:
                batch = follower.next_batch(timeout=0.002)
                assert batch is None or batch.end == follower.position
                taken += batch or []
        return taken

    followers = [world.runner.call("follower", follow) for _ in range(2)]
    followers += [world.runner.call("batches", follow_batches)]
    world.runner.call("writer", lambda: _write(log, world, count))
    world.runner.run()
    assert [call.result() for call in followers] == [log.records] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_closed_at_any_moment_ends_and_its_position_continues(seed: int) -> None:
    world = World(seed)
    log = FakeLog(world.disk, "/", runner=world.runner)
    log.roll()
    follower = Follower(log)

    def close() -> None:
        world.runner.sleep_ns(world.random.randrange(40) * NS_PER_MS)
        follower.close()

    follows = world.runner.call("follower", lambda: list(follower))
    world.runner.call("closer", close)
    world.runner.call("writer", lambda: _write(log, world, 15))
    world.runner.run()
    taken = follows.result()
    assert taken == log.records[: len(taken)]
    with LogReader(log) as reader:
        assert taken + list(reader.read(follower.position)) == log.records
    assert list(follower) == []


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FakeLog]:
    with ThreadRunner() as runner:
        log = FakeLog(real_disk(), str(tmp_path), runner=runner)
        yield log
        log.close()


def test_a_waiting_follower_is_woken_by_a_publication_and_by_close(log: FakeLog) -> None:
    follower = Follower(log)
    taken: list[Record] = []
    got_one = threading.Event()

    def follow() -> None:
        for record in follower:
            taken.append(record)
            got_one.set()

    thread = threading.Thread(target=follow)
    thread.start()
    log.append(b"one")
    log.publish()
    assert got_one.wait(10)
    follower.close()
    thread.join(10)
    assert not thread.is_alive()
    assert taken == log.records
    with pytest.raises(Closed, match="follower was closed"):
        follower.next_batch(0)


def test_a_batch_continues_where_the_records_ended(log: FakeLog) -> None:
    for number in range(5):
        log.append(bytes([number + 1]))
    log.publish()
    with Follower(log) as follower:
        assert [next(follower).payload for _ in range(2)] == [b"\1", b"\2"]
        assert follower.position == log.records[2].record_id
        batch = follower.next_batch(0)
        assert batch is not None
        assert list(batch) == log.records[2:]
        assert follower.next_batch(0) is None
        assert follower.position == log.durable_end()


def test_following_from_the_durable_end_gives_what_comes_after(log: FakeLog) -> None:
    for start_is_empty in (True, False):
        with Follower(log, log.durable_end()) as follower:
            assert follower.next_batch(0) is None
            record_id = log.append(b"new" if start_is_empty else b"newer")
            log.publish()
            assert next(follower).record_id == record_id


def test_a_follower_that_fell_behind_retention_is_told(log: FakeLog) -> None:
    for _ in range(12):
        log.append(b"x" * 1000)
    log.publish()
    with Follower(log, log.records[1].record_id) as follower:
        log.remove_oldest()
        with pytest.raises(NotFound, match="the oldest record is at 1:64"):
            next(follower)


def test_a_segment_that_was_read_to_its_end_may_go(log: FakeLog) -> None:
    for _ in range(3):
        log.append(b"x" * 1000)
    log.publish()
    with Follower(log) as follower:
        assert [next(follower) for _ in range(3)] == log.records
        log.roll()
        log.append(b"in the next one")
        log.publish()
        log.remove_oldest()
        assert next(follower).payload == b"in the next one"
        log.roll()
        log.publish()
        assert follower.next_batch(0) is None
        log.remove_oldest()
        assert follower.next_batch(0) is None
        assert follower.position == log.durable_end()


def test_a_segment_that_was_not_read_to_its_end_may_not(log: FakeLog) -> None:
    log.append(b"taken")
    log.publish()
    with Follower(log) as follower:
        assert next(follower).payload == b"taken"
        log.append(b"missed")
        log.roll()
        log.append(b"in the next one")
        log.publish()
        log.remove_oldest()
        with pytest.raises(NotFound, match="the oldest record is at 1:64"):
            next(follower)


def test_a_segment_that_is_being_read_may_go(log: FakeLog) -> None:
    for _ in range(3):
        log.append(b"x" * 1000)
    log.publish()
    with Follower(log, batch_bytes_max=1) as follower:
        next(follower)
        log.roll()
        log.append(b"in the next one")
        log.publish()
        log.remove_oldest()
        assert [next(follower) for _ in range(3)] == log.records[1:]


def test_the_end_of_the_log_ends_its_followers(log: FakeLog) -> None:
    log.append(b"last")
    log.publish()
    with Follower(log) as follower:
        log.close()
        assert next(follower).payload == b"last"
        with pytest.raises(Closed, match="log is closed"):
            next(follower)


def test_a_publication_between_the_look_and_the_wait_is_not_missed() -> None:
    world = World(1)
    log = OvertakenLog(world.disk, "/", runner=world.runner)
    with Follower(log) as follower:
        assert follower.next_batch(timeout=3) is not None
    assert world.clock.monotonic_ns() == 0


def test_a_time_out_passes_on_the_clock_that_was_given() -> None:
    world = World(1)
    log = FakeLog(world.disk, "/", runner=world.runner)
    with Follower(log, RecordId(0)) as follower:
        assert follower.next_batch(timeout=3) is None
    assert world.clock.monotonic_ns() == 3000 * NS_PER_MS
