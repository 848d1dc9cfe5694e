"""What happens to a log's tiers at the same time: who waits is woken, who closes does not wait, and
retention, hydration and uploads do not undo one another.
"""

from __future__ import annotations

import dataclasses
import errno

import pytest

from lakebed.aof.config import RetentionConfig
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.reader import LogReader
from lakebed.aof.tiers.errors import Unavailable
from lakebed.aof.tiers.services import TierServices
from lakebed.base.errors import Busy
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.tiers.chaotic_logs import (
    MS,
    SECOND,
    SHARED,
    TIERED,
    attempt,
    calm,
    check_settled,
    fake_of,
    open_tiered,
    segment_objects,
)
from tests.aof.tiers.tiered_logs import (
    CONFIG,
    PATHS,
    contents,
    open_log,
    write_segments,
)

pytestmark = pytest.mark.thorough


def test_an_append_that_waits_for_room_goes_on_when_tier_2_is_back() -> None:
    world = World(5)
    store = fake_of(world)
    store.is_down = True
    manager, log = open_tiered(world, store)
    written: list[bytes] = []

    def append() -> None:
        for _ in range(20):
            written.append(world.random.randbytes(30_000))
            log.append_record_with_timeout(written[-1], 3600)

    world.runner.call("writer", append)
    world.runner.advance(300 * SECOND)
    assert len(written) < 20
    with pytest.raises(WouldBlock) as blocked:
        log.append_record(b"." * 30_000)
    assert blocked.value.kind is BackpressureKind.ADMISSION
    store.is_down = False
    world.runner.advance(120 * SECOND)
    assert len(written) == 20
    log.flush()
    assert contents(log) == written
    manager.close()


def test_room_that_another_log_makes_wakes_who_waits_for_it() -> None:
    world = World(6)
    store = fake_of(world)
    shared = dataclasses.replace(SHARED, tier0_bytes_max=256 * KIB)
    manager, log = open_tiered(world, store, shared=shared)
    other = manager.open("others")
    store.is_down = True
    for _ in range(4):
        other.append_record_with_timeout(world.random.randbytes(40_000), 60)
    log.append_record_with_timeout(world.random.randbytes(40_000), 60)
    world.runner.advance(SECOND)
    waiting = world.runner.call(
        "writer", lambda: log.append_record_with_timeout(world.random.randbytes(40_000), 10_000)
    )
    world.runner.advance(60 * SECOND)
    assert not waiting.done
    store.is_down = False
    world.runner.advance(200 * SECOND)
    waiting.result()
    manager.close()


def test_closing_a_log_gives_its_room_to_who_waits() -> None:
    world = World(7)
    store = fake_of(world)
    shared = dataclasses.replace(SHARED, tier0_bytes_max=256 * KIB)
    manager, log = open_tiered(world, store, shared=shared)
    other = manager.open("others")
    store.is_down = True
    for _ in range(4):
        other.append_record_with_timeout(world.random.randbytes(40_000), 60)
    log.append_record_with_timeout(world.random.randbytes(40_000), 60)
    world.runner.advance(SECOND)
    waiting = world.runner.call(
        "writer", lambda: log.append_record_with_timeout(world.random.randbytes(40_000), 10_000)
    )
    world.runner.advance(60 * SECOND)
    assert not waiting.done
    manager.close_log("others")
    world.runner.advance(SECOND)
    waiting.result()
    manager.close()


def test_a_segment_that_somebody_gave_up_is_taken_by_the_workers() -> None:
    world = World(9)
    store = fake_of(world)
    shared = dataclasses.replace(SHARED, retry_ms_first=1000)
    manager, log = open_tiered(world, store, shared=shared)
    write_segments(log, 1)
    store.is_down = True
    asked = world.runner.call("user", lambda: log.tiers.upload([0]))
    world.runner.advance(400 * MS)  # a pause began: the workers look, and leave the segment alone
    assert log.tiers.moves.claimed() == {0}
    world.runner.advance(10 * SECOND)
    with pytest.raises(Unavailable):
        asked.result()
    store.is_down = False
    world.runner.advance(60 * SECOND)
    check_settled(world, log, store)
    manager.close()


def test_closing_does_not_wait_for_the_retries_of_an_upload() -> None:
    world = World(8)
    store = fake_of(world)
    store.is_down = True
    shared = dataclasses.replace(SHARED, retry_count=100, retry_ms_first=60_000)
    manager, log = open_tiered(world, store, shared=shared)
    written = write_segments(log, 2)
    world.runner.advance(10 * SECOND)
    before = world.clock.monotonic_ns()
    manager.close()
    assert world.clock.monotonic_ns() - before < SECOND
    store.is_down = False
    world.restart(Crash.KILL)
    manager, log = open_tiered(world, store)
    world.runner.advance(60 * SECOND)
    assert contents(log) == written
    check_settled(world, log, store)
    manager.close()


@pytest.mark.parametrize("closes", ["the manager", "the log"])
def test_closing_cuts_an_upload_short_and_it_is_made_after_the_restart(closes: str) -> None:
    world = World(22)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    log.append_record_with_timeout(world.random.randbytes(60_000), 60)
    log.seal_current_segment()
    store.delay_ns_max = 2 * SECOND  # for each of its pieces
    world.runner.advance(4 * SECOND)
    assert log.tiers.moves.claimed() == {0}
    (key,) = [key for operation, key in store.calls if operation == "put"]
    before = world.clock.monotonic_ns()
    if closes == "the log":
        manager.close_log("orders")
        world.runner.advance(2 * SECOND)
        assert not log.tiers.moves.claimed()
    manager.close()
    assert world.clock.monotonic_ns() - before <= 4 * SECOND
    assert not store.objects
    assert store.calls["put", key] == 1
    world.restart(Crash.KILL)
    calm(store)
    manager, log = open_tiered(world, store)
    world.runner.advance(60 * SECOND)
    check_settled(world, log, store)
    manager.close()


def test_a_log_opened_later_is_looked_after_at_once() -> None:
    world = World(9)
    store = fake_of(world)
    manager, _ = open_tiered(world, store)
    manager.open("others", config=CONFIG)
    others = manager._logs["others"]
    write_segments(others, 2)
    manager.close_log("others")
    world.runner.advance(60 * SECOND)
    others = manager.open("others")
    world.runner.advance(10 * SECOND)
    assert [place.tiers[-1] for place in others.tiers.residency()] == [2, 2]
    manager.close()


def test_a_pinned_segment_is_never_evicted() -> None:
    world = World(10)
    store = fake_of(world)
    manager, log = open_tiered(world, store, is_pinned=lambda _, number: number == 0)
    for _ in range(20):
        log.append_record_with_timeout(world.random.randbytes(40_000), 60)
    world.runner.advance(60 * SECOND)
    places = log.tiers.residency()
    assert 0 in places[0].tiers
    assert sum(0 in place.tiers for place in places[:-1]) <= 3
    manager.close()


@pytest.mark.parametrize("seed", range(12))
def test_retention_during_an_upload_leaves_no_object_behind(seed: int) -> None:
    print(f"seed {seed}")
    world = World(200 + seed)
    store = fake_of(world)
    store.delay_ns_max = 400 * MS
    config = dataclasses.replace(TIERED, retention=RetentionConfig(count_max=1))
    manager, log = open_tiered(world, store, config=config)
    for _ in range(12):
        log.append_record_with_timeout(world.random.randbytes(40_000), 600)
        world.runner.advance(world.random.randrange(2 * SECOND))
    log.flush()
    calm(store)
    world.runner.advance(300 * SECOND)
    check_settled(world, log, store)
    assert len(segment_objects(store)) == 1
    assert set(log.tiers.cold.warm_names()) <= set(segment_objects(store))
    assert not world.runner.failures()
    assert not manager.failures()
    manager.close()


@pytest.mark.parametrize("seed", range(12))
def test_retention_during_a_hydration_brings_nothing_back(seed: int) -> None:
    print(f"seed {seed}")
    world = World(300 + seed)
    store = fake_of(world)
    config = dataclasses.replace(TIERED, retention=RetentionConfig(count_max=2))
    manager, log = open_tiered(world, store, config=config)
    write_segments(log, 2)
    world.runner.advance(30 * SECOND)
    log.tiers.evict(warm=True)
    store.delay_ns_max = 200 * MS
    world.runner.call("reader", lambda: attempt(lambda: log.tiers.hydrate([0])))
    world.runner.advance(world.random.randrange(600 * MS))
    write_segments(log, 2)
    calm(store)
    world.runner.advance(120 * SECOND)
    assert [info.segment_id for info in log.segments()] == [2, 3]
    names = [name for name in world.disk.names(PATHS.segments) if name.endswith(".seg")]
    assert not [name for name in names if int(name.split("_")[0]) < 2]
    check_settled(world, log, store)
    assert not world.runner.failures()
    assert not manager.failures()
    manager.close()


def test_a_reader_beside_the_writer_finds_the_newest_segment_though_it_is_elsewhere() -> None:
    world = World(17)
    store = fake_of(world)
    _, log = open_tiered(world, store, config=CONFIG)
    written = write_segments(log, 3)
    log.tiers.upload()
    log.tiers.evict([2], warm=True)
    services = TierServices("/store", disk=world.disk, runner=world.runner, store=store)
    beside = ReadOnlyLog(
        "/store", "orders", disk=world.disk, runner=world.runner, services=services
    )
    with LogReader(beside) as reader:
        assert [bytes(record.payload) for record in reader.read()] == written


def test_a_full_disk_delays_a_rollover_and_does_not_forget_it() -> None:
    world = World(18)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    log.append_record(world.random.randbytes(40_000))
    log.flush()
    world.runner.advance(SECOND)
    world.disk.faults.fail("pwrite", nth=1, code=errno.ENOSPC)
    started = len(world.trace)
    log.append_record_with_timeout(world.random.randbytes(40_000), 60)
    log.flush()
    assert len(world.trace) - started < 2_000, "it is not asked for in a circle"
    assert len(contents(log)) == 2
    manager.close()


def test_a_journal_that_takes_no_more_puts_jobs_off(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(19)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    write_segments(log, 1)
    assert log.manifest is not None

    def refuse(*_: object, **__: object) -> None:
        raise Busy("too much is queued")

    with monkeypatch.context() as patch:
        patch.setattr(log.manifest, "append", refuse)
        world.runner.advance(10 * SECOND)
        assert log.counters.snapshot().counters["tier_job_failures"] > 0
        assert len(world.trace) < 5_000, "it is not tried in a circle"
    world.runner.advance(120 * SECOND)
    check_settled(world, log, store)
    manager.close()


def test_leftovers_of_puts_are_removed_for_a_writer_and_only_for_one() -> None:
    world = World(20)
    manager, log = open_log(world)
    write_segments(log, 1)
    log.tiers.upload()
    manager.close()
    leftover = "/store/tier2/aof2/some.zst.7.tmp"
    with world.disk.create(leftover) as file:
        file.sync()
    services = TierServices("/store", disk=world.disk, runner=world.runner)
    list(services.store("tier2").list("aof2/"))
    assert world.disk.exists(leftover)
    manager, log = open_log(world)
    log.tiers.repair()
    assert not world.disk.exists(leftover)
    manager.close()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_segment_without_a_whole_record_does_not_stop_rollovers(is_damaged: bool) -> None:
    """Found by the sweep: one that was made, never written to, and met by two crashes."""
    world = World(21)
    _, log = open_log(world)
    log.append_record(b"x" * 1000)
    if is_damaged:
        log.flush()
    path = f"{PATHS.segments}/{log._state.chain.active.name}"
    if not is_damaged:
        with world.disk.create(path) as file:
            file.zero_fill(0, CONFIG.segment_bytes)
            file.sync()
        world.disk.sync_folder(PATHS.segments)
    world.restart(Crash.KILL)
    if is_damaged:
        with world.disk.open(path, writable=True) as file:
            file.pwrite(0, b"\x55" * 3000)
            file.sync()
    open_log(world)
    world.restart(Crash.POWER)
    manager, log = open_log(world)
    log.append_record(b"goes on")
    assert log.seal_current_segment(timeout=5) is not None
    log.append_record(b"and on")
    assert log.seal_current_segment(timeout=5) is not None
    manager.close()
