"""Tier 2 at its worst: late, failing, answering into the void, listing what was long ago.

Whatever it does: no segment is lost, none is stored under two keys, and none leaves the local disk
before its object was confirmed.
"""

from __future__ import annotations

import dataclasses
import os

import pytest

from lakebed.aof.config import RetentionConfig
from lakebed.aof.log import Aof
from lakebed.aof.manifest.format import MANIFEST_ITSELF, LocalEvicted
from lakebed.aof.manifest.records import (
    ReasonCode,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.errors import Unauthorised
from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk, PathLike
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from tests.aof.tiers.chaotic_logs import (
    CHANCES,
    MS,
    SECOND,
    SHARED,
    TIERED,
    attempt,
    calm,
    check_settled,
    fake_of,
    open_tiered,
    recorded,
    segment_objects,
)
from tests.aof.tiers.tiered_logs import (
    CONFIG,
    PATHS,
    contents,
    write_segments,
)
from tests.fakes.object_store import FakeObjectStore, Trouble

pytestmark = pytest.mark.sweep


def watch_removals(disk: Disk, store: FakeObjectStore) -> list[int]:
    """Have every removal of a segment's file checked: Tier 2 has the segment. Those removed."""
    removed: list[int] = []
    unlink = disk.unlink

    def checked(path: PathLike) -> None:
        path = os.fspath(path)
        if path.startswith(PATHS.segments) and path.endswith(".seg"):
            segment_id = int(path.rsplit("/", 1)[1].split("_")[0])
            assert segment_id in segment_objects(store), f"segment {segment_id}: evicted too soon"
            removed.append(segment_id)
        unlink(path)

    disk.unlink = checked  # type: ignore[method-assign]
    return removed


@pytest.mark.parametrize("seed", range(8))
def test_whatever_tier_2_does_no_segment_is_lost_doubled_or_evicted_too_soon(seed: int) -> None:
    print(f"seed {seed}")
    world = World(seed)
    store = fake_of(world)
    store.chances = dict(CHANCES)
    store.delay_ns_max, store.list_lag_ns = 40 * MS, 5 * SECOND
    removed = watch_removals(world.disk, store)
    manager, log = open_tiered(world, store)
    written: list[tuple[RecordId, bytes]] = []
    for number in range(40):
        data = world.random.randbytes(world.random.randrange(10_000, 30_000))
        written.append((log.append_record_with_timeout(data, 600), data))
        if number % 13 == 7:
            record_id, data = world.random.choice(written)
            log.flush()
            assert read_through(log, record_id) == data
    log.flush()
    calm(store)
    world.runner.advance(300 * SECOND)
    assert len(removed) > 5
    assert contents(log) == [data for _, data in written]
    assert [bytes(log.get(record_id).payload) for record_id, _ in written] == [
        data for _, data in written
    ]
    world.runner.advance(300 * SECOND)
    check_settled(world, log, store)
    assert not world.runner.failures()
    assert not manager.failures()
    manager.close()


def read_through(log: Aof, record_id: RecordId) -> bytes:
    """As somebody would who knows that Tier 2 fails at times."""
    for _ in range(20):
        try:
            return bytes(log.get(record_id).payload)
        except LakebedError:
            continue
    return bytes(log.get(record_id).payload)


@pytest.mark.parametrize("seed", range(4))
def test_restarts_in_the_middle_of_the_chaos_change_nothing(seed: int) -> None:
    print(f"seed {seed}")
    world = World(100 + seed)
    store = fake_of(world)
    written: list[bytes] = []
    for round_ in range(4):
        store.chances = dict(CHANCES)
        store.delay_ns_max, store.list_lag_ns = 20 * MS, 60 * SECOND
        _, log = open_tiered(world, store)
        for _ in range(8):
            written.append(world.random.randbytes(25_000))
            log.append_record_with_timeout(written[-1], 600)
        log.flush()
        world.runner.advance(world.random.randrange(3 * SECOND))
        world.restart(world.random.choice(list(Crash)), survivors=round_)
    calm(store)
    manager, log = open_tiered(world, store)
    world.runner.advance(300 * SECOND)
    assert contents(log) == written
    world.runner.advance(300 * SECOND)
    check_settled(world, log, store)
    manager.close()


def test_an_upload_that_fails_is_tried_again_under_the_same_key() -> None:
    world = World(1)
    store = fake_of(world)
    store.plan("put", *[Trouble.UNAVAILABLE] * 4, Trouble.THROTTLED)
    manager, log = open_tiered(world, store)
    write_segments(log, 1)
    world.runner.advance(60 * SECOND)
    kinds = [type(payload).__name__ for payload in recorded(log, 0)]
    assert kinds == ["UploadStarted", "UploadFailed", "UploadStarted", "UploadDone"]
    assert len({payload.key for payload in recorded(log, 0)}) == 1  # type: ignore[attr-defined]
    (failed,) = (one for one in recorded(log, 0) if isinstance(one, UploadFailed))
    assert failed.reason_code == ReasonCode.UNAVAILABLE
    check_settled(world, log, store)
    manager.close()


@pytest.mark.parametrize("crash", Crash)
def test_a_replay_after_a_failed_upload_enqueues_it_once(crash: Crash) -> None:
    world = World(2)
    store = fake_of(world)
    store.is_down = True
    _, log = open_tiered(world, store)
    written = write_segments(log, 2)
    world.runner.advance(30 * SECOND)
    assert [type(one) for one in recorded(log, 0)][:2] == [UploadStarted, UploadFailed]
    world.restart(crash)
    store.is_down = False
    manager, log = open_tiered(world, store)
    world.runner.advance(60 * SECOND)
    done = [one for number in (0, 1) for one in recorded(log, number) if type(one) is UploadDone]
    assert [one.key for one in done] == [place.key for place in log.tiers.residency()]
    assert contents(log) == written
    check_settled(world, log, store)
    manager.close()


def test_an_answer_that_was_lost_leads_to_no_second_put_after_a_restart() -> None:
    world = World(3)
    store = fake_of(world)
    shared = dataclasses.replace(SHARED, retry_count=0)
    store.plan("put", Trouble.LOST_ANSWER)
    _, log = open_tiered(world, store, shared=shared)
    write_segments(log, 1)
    world.runner.advance(400 * MS)
    assert [type(one) for one in recorded(log, 0)] == [UploadStarted, UploadFailed]
    world.restart(Crash.POWER)
    manager, log = open_tiered(world, store, shared=shared)
    world.runner.advance(10 * SECOND)
    (place,) = log.tiers.residency()
    assert store.calls["put", place.key] == 1, "it was there: a look is enough"
    check_settled(world, log, store)
    manager.close()


def test_a_refused_upload_waits_for_an_operator() -> None:
    world = World(4)
    store = fake_of(world)
    store.refuses = True
    manager, log = open_tiered(world, store)
    write_segments(log, 1)
    world.runner.advance(10 * SECOND)
    (failed,) = (one for one in recorded(log, 0) if isinstance(one, UploadFailed))
    assert failed.reason_code == ReasonCode.UNAUTHORISED
    puts = store.calls["put", failed.key]
    world.runner.advance(3600 * SECOND)
    assert store.calls["put", failed.key] == puts, "tried again by itself"
    with pytest.raises(Unauthorised):
        log.tiers.retry_uploads()
    store.refuses = False
    world.runner.advance(3600 * SECOND)
    assert not store.objects.keys() & {failed.key}
    assert log.tiers.retry_uploads() == [0]
    world.runner.advance(120 * SECOND)
    check_settled(world, log, store)
    manager.close()


def test_a_damaged_warm_file_is_made_anew_before_it_is_uploaded() -> None:
    world = World(11)
    store = fake_of(world)
    store.is_down = True
    manager, log = open_tiered(world, store)
    written = write_segments(log, 1)
    world.runner.advance(10 * SECOND)
    path = log.tiers.cold.warm_path(log.tiers.cold.warm_names()[0])
    with world.disk.open(path, writable=True) as file:
        file.pwrite(60, b"\xff\xff\xff\xff")
        file.sync()
    store.is_down = False
    world.runner.advance(120 * SECOND)
    log.tiers.evict(warm=True)
    assert contents(log) == written
    check_settled(world, log, store)
    manager.close()


def test_nothing_leaves_while_its_object_is_missing_and_cannot_be_made_anew() -> None:
    world = World(12)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    written = write_segments(log, 2)
    world.runner.advance(30 * SECOND)
    manager.close()
    for key in [key for key in store.objects if "/segment-" in key]:
        store.lose(key)
    world.restart(Crash.KILL)
    store.plan("put", *[Trouble.UNAVAILABLE] * 200)
    manager, log = open_tiered(world, store)
    for _ in range(4):
        attempt(lambda: log.append_record_with_timeout(world.random.randbytes(40_000), 30))
    log.flush()
    assert [0 in place.tiers for place in log.tiers.residency()][:2] == [True, True]
    assert contents(log)[: len(written)] == written
    store._planned["put"].clear()
    world.runner.advance(300 * SECOND)
    check_settled(world, log, store)
    manager.close()


def test_a_delete_that_fails_is_tried_again_though_the_log_is_idle() -> None:
    world = World(13)
    store = fake_of(world)
    config = dataclasses.replace(TIERED, retention=RetentionConfig(count_max=1))
    manager, log = open_tiered(world, store, config=config)
    write_segments(log, 1)
    world.runner.advance(30 * SECOND)
    store.plan("delete", *[Trouble.UNAVAILABLE] * 9)
    write_segments(log, 1)
    world.runner.advance(300 * SECOND)
    assert segment_objects(store) == [1]
    check_settled(world, log, store)
    manager.close()


def test_a_store_that_is_down_for_long_is_not_asked_all_the_time() -> None:
    world = World(14)
    store = fake_of(world)
    store.is_down = True
    manager, log = open_tiered(world, store)
    write_segments(log, 2)
    world.runner.advance(600 * SECOND)
    before, steps = sum(store.calls.values()), len(world.trace)
    world.runner.advance(3600 * SECOND)
    hourly = sum(store.calls.values()) - before
    assert 60 < hourly < 4 * 4 * 120, "three jobs, each about once a minute, with three retries"
    assert len(world.trace) - steps < 100 * hourly
    manager.close()


def test_damage_on_the_way_is_not_taken_for_damage_of_the_object() -> None:
    world = World(15)
    store = fake_of(world)
    manager, log = open_tiered(world, store, config=CONFIG)
    written = write_segments(log, 2)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    for trouble in (Trouble.CORRUPTED, Trouble.TRUNCATED):
        store.plan("get", trouble, trouble)
        assert contents(log) == written
        store.plan("get", trouble, trouble)
        log.tiers.hydrate([0])
        assert contents(log) == written
        log.tiers.evict(warm=True)
        log._reader._handles._evict(0)
    manager.close()


def test_what_was_evicted_was_recorded_as_stored_before() -> None:
    world = World(16)
    store = fake_of(world)
    store.chances = {Trouble.LOST_ANSWER: 0.3, Trouble.UNAVAILABLE: 0.2}
    manager, log = open_tiered(world, store)
    for _ in range(30):
        log.append_record_with_timeout(world.random.randbytes(30_000), 600)
    assert log.manifest is not None
    log.manifest.commit()
    stored: dict[int, str] = {}
    evictions = 0
    for placed in log.manifest.reader().records():
        record = placed.record
        if isinstance(record.payload, UploadDone) and record.segment_id != MANIFEST_ITSELF:
            assert stored.setdefault(record.segment_id, record.payload.key) == record.payload.key
        if isinstance(record.payload, LocalEvicted):
            assert record.segment_id in stored
            evictions += 1
    assert evictions > 5
    manager.close()
