"""What the manifest log says after a restart, against what is there."""

from __future__ import annotations

import pytest

from lakebed.aof.manifest.format import CompressionStarted, HydrationFailed, LocalEvicted
from lakebed.aof.manifest.records import Payload, ReasonCode, Tier2DeleteQueued
from lakebed.aof.manifest.state import Condition, Draft, Pending, Residency, SegmentState, frozen
from lakebed.aof.tiers.object_store import ObjectInfo
from lakebed.aof.tiers.reconciliation import corrections, doubtful, orphans
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from tests.aof.tiers.chaotic_logs import (
    SECOND,
    check_settled,
    fake_of,
    open_tiered,
    segment_objects,
)
from tests.aof.tiers.tiered_logs import contents, write_segments

T0, T1, T2 = Residency
OPENED = Condition.OPENED | Condition.SEALED


def segment(
    residency: Residency, *, pending: int = 0, condition: int = OPENED, number: int = 3
) -> SegmentState:
    draft = Draft(number, base_offset=77, compressed_bytes=10, residency=int(residency))
    draft.pending, draft.condition = int(pending), int(condition)
    if residency & T2:
        draft.key, draft.etag = f"key{number}", '"1"'
    return frozen(draft)


@pytest.mark.parametrize(
    ("state", "has_warm", "expected"),
    [
        (segment(T0), False, []),
        (segment(T0 | T1 | T2), True, []),
        (segment(T2), False, []),
        (segment(T2, pending=Pending.HYDRATION), False, [HydrationFailed(ReasonCode.TRANSIENT)]),
        (segment(T0 | T1), False, [CompressionStarted(3)]),
        (segment(T0 | T1 | T2), False, [CompressionStarted(3)]),
        (segment(T1 | T2), False, [LocalEvicted(10)]),
        (segment(T1), False, [HydrationFailed(ReasonCode.MISSING)]),
        (segment(T2, condition=0), False, [Tier2DeleteQueued("key3")]),
        (segment(T2, condition=0, pending=Pending.DELETE), False, []),
        (
            segment(T1 | T2, pending=Pending.HYDRATION),
            False,
            [HydrationFailed(ReasonCode.TRANSIENT), LocalEvicted(10)],
        ),
    ],
)
def test_what_a_crash_left_unsaid(
    state: SegmentState, has_warm: bool, expected: list[Payload]
) -> None:
    found = list(corrections([state], warm={3} if has_warm else set()))
    assert [correction.payload for correction in found] == expected
    assert {(one.segment_id, one.logical_offset) for one in found} <= {(3, 77)}


def test_warm_files_that_nobody_counts_on_are_orphans() -> None:
    states = [segment(T0, number=1), segment(T0 | T1, number=2), segment(T1 | T2, number=3)]
    assert orphans(states, warm=[1, 2, 3, 4]) == {1, 4}


def info(number: int, *, size: int = 10, etag: str = '"1"') -> ObjectInfo:
    return ObjectInfo(f"key{number}", size, etag, None)


@pytest.mark.parametrize(
    ("state", "listed", "is_doubtful"),
    [
        (segment(T2), [info(3)], False),
        (segment(T2), [], True),
        (segment(T2), [info(4)], True),
        (segment(T2), [info(3, size=9)], True),
        (segment(T2), [info(3, etag='"2"')], True),
        (segment(T0), [], False),
        (segment(T2, pending=Pending.DELETE), [], False),
        (segment(T2, condition=0), [], False),
    ],
)
def test_objects_that_a_listing_does_not_show_as_stored_are_doubtful(
    state: SegmentState, listed: list[ObjectInfo], is_doubtful: bool
) -> None:
    found = doubtful([state], listed={one.key: one for one in listed})
    assert bool(found) == is_doubtful


def test_an_object_that_was_replaced_by_another_is_made_anew() -> None:
    world = World(1)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    written = write_segments(log, 1)
    world.runner.advance(30 * SECOND)
    (place,) = log.tiers.residency()
    manager.close()
    stored = store.objects[place.key]
    metadata = {**stored.metadata, "segment-crc64": "0" * 16}
    store.objects[place.key] = stored._replace(metadata=metadata, etag='"another"')
    world.restart(Crash.KILL)
    manager, log = open_tiered(world, store)
    world.runner.advance(30 * SECOND)
    mended = dict(store.objects[place.key].metadata)
    assert mended | {"snapshot-id": "0"} == dict(stored.metadata) | {"snapshot-id": "0"}
    log.tiers.evict(warm=True)
    assert contents(log) == written
    check_settled(world, log, store)
    manager.close()


def test_a_stale_listing_makes_nothing_anew() -> None:
    world = World(2)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    write_segments(log, 3)
    world.runner.advance(30 * SECOND)
    manager.close()
    puts = sum(count for (kind, _), count in store.calls.items() if kind == "put")
    store.list_lag_ns = 3600 * SECOND
    world.restart(Crash.POWER)
    manager, log = open_tiered(world, store)
    world.runner.advance(30 * SECOND)
    assert sum(count for (kind, _), count in store.calls.items() if kind == "put") == puts
    check_settled(world, log, store)
    manager.close()


def test_what_the_manifest_log_does_not_know_is_left_alone_in_tier_2() -> None:
    world = World(3)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    write_segments(log, 1)
    world.runner.advance(30 * SECOND)
    (place,) = log.tiers.residency()
    manager.close()
    strange = place.key.replace("segment-00000000000000000000", "segment-00000000000000000099")
    store.objects[strange] = store.objects[place.key]
    world.restart(Crash.KILL)
    manager, log = open_tiered(world, store)
    world.runner.advance(60 * SECOND)
    assert segment_objects(store) == [0, 99]
    manager.close()


def test_a_store_that_is_down_at_the_start_is_looked_at_later() -> None:
    world = World(4)
    store = fake_of(world)
    manager, log = open_tiered(world, store)
    write_segments(log, 1)
    world.runner.advance(30 * SECOND)
    (place,) = log.tiers.residency()
    manager.close()
    store.lose(place.key)
    store.is_down = True
    world.restart(Crash.KILL)
    manager, log = open_tiered(world, store)
    world.runner.advance(60 * SECOND)
    store.is_down = False
    world.runner.advance(180 * SECOND)
    check_settled(world, log, store)
    manager.close()
