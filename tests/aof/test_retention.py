"""What retention removes, as values; and that it spares readers and pins in a real log."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.record_id import RecordId
from lakebed.aof.retention import HELD_LOOK_NS, SealedSegment, expired, is_wanted, next_look_ns
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import NotFound
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.fakes.aof_scan import scan_log

FIVE = [SealedSegment(n, 100, n * 1000 * NS_PER_MS) for n in range(5)]


def _expired(
    config: RetentionConfig, *, now_ms: int = 10_000, needed: frozenset[int] = frozenset()
) -> list[int]:
    return expired(
        FIVE, config=config, now_ns=now_ms * NS_PER_MS, is_needed=lambda number: number in needed
    )


def test_without_limits_nothing_goes() -> None:
    assert not is_wanted(RetentionConfig())
    assert _expired(RetentionConfig()) == []


@pytest.mark.parametrize(
    ("config", "gone"),
    [
        (RetentionConfig(count_max=3), [0, 1]),
        (RetentionConfig(bytes_max=250), [0, 1, 2]),
        (RetentionConfig(age_ms_max=7500), [0, 1, 2]),
        (RetentionConfig(age_ms_max=1), [0, 1, 2, 3]),
        (RetentionConfig(count_max=4, bytes_max=200), [0, 1, 2]),
    ],
)
def test_the_oldest_go_while_any_limit_is_exceeded(
    config: RetentionConfig, gone: list[int]
) -> None:
    assert _expired(config) == gone


def test_a_segment_that_is_needed_keeps_all_behind_it() -> None:
    assert _expired(RetentionConfig(count_max=1), needed=frozenset({2})) == [0, 1]


def test_a_segment_sealed_while_the_clock_ran_ahead_holds_back_no_other() -> None:
    year_ns = 365 * 24 * 3600 * 1000 * NS_PER_MS
    segments = [FIVE[0]._replace(sealed_at=year_ns), *FIVE[1:]]
    config = RetentionConfig(age_ms_max=7500)
    now_ns = 10_000 * NS_PER_MS

    gone = expired(segments, config=config, now_ns=now_ns, is_needed=lambda _: False)

    assert gone == [0, 1, 2]
    delay_ns = next_look_ns(segments[:2], config=config, now_ns=2000 * NS_PER_MS)
    assert delay_ns is not None
    assert delay_ns <= 7500 * NS_PER_MS + 1


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 10**6)), max_size=12),
    st.builds(
        RetentionConfig,
        age_ms_max=st.integers(0, 10**6),
        bytes_max=st.integers(0, 5000),
        count_max=st.integers(0, 12),
    ),
    st.sets(st.integers(0, 11)),
)
def test_what_goes_is_a_run_of_the_oldest_and_never_the_last(
    facts: list[tuple[int, int]], config: RetentionConfig, needed: set[int]
) -> None:
    segments = [SealedSegment(n, size, at * NS_PER_MS) for n, (size, at) in enumerate(facts)]
    gone = expired(segments, config=config, now_ns=10**6 * NS_PER_MS, is_needed=needed.__contains__)
    assert gone == list(range(len(gone)))
    assert len(gone) < len(segments) or not segments
    assert not needed & set(gone)


def test_the_next_look_is_when_the_oldest_expires() -> None:
    config = RetentionConfig(age_ms_max=5000)
    assert next_look_ns(FIVE, config=config, now_ns=2000 * NS_PER_MS) == 3000 * NS_PER_MS + 1
    assert next_look_ns(FIVE, config=config, now_ns=9000 * NS_PER_MS) == HELD_LOOK_NS
    assert next_look_ns(FIVE[:1], config=config, now_ns=0) is None
    assert next_look_ns(FIVE, config=RetentionConfig(), now_ns=0) is None


def _open(
    world: World, retention: RetentionConfig, pinned: set[int] | None = None
) -> tuple[AofManager, Aof]:
    config = AofConfig(
        segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0), retention=retention
    )
    manager = AofManager(
        "/store",
        config=config,
        disk=world.disk,
        runner=world.runner,
        is_pinned=lambda log, segment_id: segment_id in (pinned or ()),
    )
    return manager, manager.open("orders")


def _seal_some(log: Aof, count: int) -> list[RecordId]:
    ids = []
    for number in range(count):
        ids.append(log.append_record(b"segment %d" % number))
        log.seal_current_segment()
    return ids


def test_segments_beyond_the_limit_are_deleted_and_their_records_not_found() -> None:
    world = World(1)
    manager, log = _open(world, RetentionConfig(count_max=2))
    ids = _seal_some(log, 5)
    world.runner.settle()
    assert [info.segment_id for info in log.segments()] == [3, 4]
    with pytest.raises(NotFound):
        log.get(ids[0])
    assert log.get(ids[4]).payload == b"segment 4"
    manager.close()
    _, again = _open(world, RetentionConfig(count_max=2))
    assert again.append_record(b"next") == RecordId.from_parts(5, 64)


def test_archived_segments_keep_their_bytes() -> None:
    world = World(2)
    manager, log = _open(world, RetentionConfig(count_max=1, archive=True))
    _seal_some(log, 3)
    world.runner.settle()
    manager.close()
    names = world.disk.names("/store/aof/orders/archive")
    assert [name.split("_")[0] for name in names] == [f"{n:020}" for n in range(2)]
    with world.disk.open(f"/store/aof/orders/archive/{names[0]}") as file:
        assert b"segment 0" in file.pread(0, 200)


def test_pins_and_followers_keep_what_they_need() -> None:
    world = World(3)
    pinned = {1}
    _, log = _open(world, RetentionConfig(count_max=1), pinned)
    follower = log.follow()
    _seal_some(log, 4)
    world.runner.settle()
    assert [info.segment_id for info in log.segments()] == [0, 1, 2, 3]
    assert next(follower).payload == b"segment 0"
    assert next(follower).payload == b"segment 1"
    assert next(follower).payload == b"segment 2"
    _seal_some(log, 1)
    world.runner.settle()
    assert [info.segment_id for info in log.segments()] == [1, 2, 3, 4], "the pin holds"
    pinned.clear()
    follower.close()
    del follower
    gc.collect()
    _seal_some(log, 1)
    world.runner.settle()
    assert [info.segment_id for info in log.segments()] == [5]


def test_a_follower_that_is_dropped_without_being_closed_keeps_nothing() -> None:
    world = World(6)
    _, log = _open(world, RetentionConfig(count_max=1), set())
    follower = log.follow()
    _seal_some(log, 2)
    world.runner.settle()
    assert [info.segment_id for info in log.segments()] == [0, 1]
    del follower
    gc.collect()
    _seal_some(log, 2)
    world.runner.settle()
    assert [info.segment_id for info in log.segments()] == [3]
    assert log._notifier._listeners == []


def test_age_is_looked_at_without_an_append() -> None:
    world = World(4)
    _, log = _open(world, RetentionConfig(age_ms_max=60_000))
    _seal_some(log, 3)
    world.runner.advance(30_000 * NS_PER_MS)
    assert len(log.segments()) == 3
    world.runner.advance(40_000 * NS_PER_MS)
    assert [info.segment_id for info in log.segments()] == [2]


def test_a_pinned_segment_that_is_overdue_is_looked_at_now_and_then_until_its_pin_is_gone() -> None:
    world = World(5)
    pinned, looks = {0}, 0

    def is_pinned(log: str, segment_id: int) -> bool:
        nonlocal looks
        looks += 1
        return segment_id in pinned

    config = AofConfig(
        segment_bytes=64 * KIB,
        flush=FlushConfig(reserve_bytes=0),
        retention=RetentionConfig(age_ms_max=1000),
    )
    manager = AofManager(
        "/store", config=config, disk=world.disk, runner=world.runner, is_pinned=is_pinned
    )
    log = manager.open("orders")
    _seal_some(log, 3)
    world.runner.advance(60_000 * NS_PER_MS)
    assert len(log.segments()) == 3
    assert 0 < looks < 100
    pinned.clear()
    world.runner.advance(10_000 * NS_PER_MS)
    assert [info.segment_id for info in log.segments()] == [2]
    manager.close()


def test_a_pinned_segment_beyond_the_count_goes_when_its_pin_is_gone() -> None:
    world = World(6)
    pinned = {0}
    _, log = _open(world, RetentionConfig(count_max=1), pinned)
    _seal_some(log, 3)
    world.runner.advance(60_000 * NS_PER_MS)
    assert len(log.segments()) == 3
    pinned.clear()
    world.runner.advance(10_000 * NS_PER_MS)
    assert [info.segment_id for info in log.segments()] == [2]


class Archiving:
    """Archives under crashes: a segment is in one place or the other, never in none."""

    def __init__(self) -> None:
        self.sealed = 0

    def run(self, world: World) -> None:
        manager, log = _open(world, RetentionConfig(count_max=1, archive=True))
        for number in range(4):
            log.append_record(b"segment %d" % number)
            log.seal_current_segment()
            self.sealed += 1
        world.runner.settle()
        manager.close()

    def check(self, world: World) -> None:
        manager, log = _open(world, RetentionConfig(archive=True))
        live = {record_id.segment_index for record_id, *_ in scan_log(world.disk)}
        archived = {int(name[:20]) for name in world.disk.names("/store/aof/orders/archive")}
        assert set(range(self.sealed)) <= live | archived
        assert not live & archived
        assert log.append_record(b"more").segment_index >= self.sealed
        manager.close()


@pytest.mark.sweep
def test_a_crash_while_archiving_loses_no_segment() -> None:
    assert sweep(Archiving, seeds=[1, 2], survivors=range(4), cases_max=600) > 300


class Removing:
    """Retention under crashes: what it removed is never taken for lost."""

    def run(self, world: World) -> None:
        manager, log = _open(world, RetentionConfig(age_ms_max=1000))
        for number in range(4):
            log.append_record(b"segment %d" % number)
            log.seal_current_segment()
        world.runner.advance(2000 * NS_PER_MS)  # recorded first, and removed a while after that
        manager.close()

    def check(self, world: World) -> None:
        losses: list[str] = []
        manager = AofManager(
            "/store",
            disk=world.disk,
            runner=world.runner,
            on_lost=lambda _log, problems: losses.extend(problems),
        )
        manager.open("orders")
        assert losses == []
        manager.close()


@pytest.mark.sweep
def test_segments_that_retention_removed_before_a_crash_are_not_taken_for_lost() -> None:
    assert sweep(Removing, seeds=[1, 2], survivors=range(4), cases_max=600) > 200
