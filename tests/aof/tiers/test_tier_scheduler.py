"""A log whose tiers drive themselves: budgets are kept, appends wait, all stays readable."""

from __future__ import annotations

import dataclasses

import pytest

from lakebed.aof.config import AofConfig, RetentionConfig
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.records import CustomEvent
from lakebed.aof.tiers.config import SharedTierConfig, TierConfig
from lakebed.aof.tiers.tier_scheduler import TierScheduler
from lakebed.base.errors import BadConfig
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.tiers.tiered_logs import CONFIG, check_artefacts, contents, write_segments

SECOND = 10**9
TIERED = dataclasses.replace(
    CONFIG, tiers=TierConfig(tiering_enabled=True, tier0_bytes_max=256 * KIB)
)
SHARED = SharedTierConfig(tier1_bytes_max=64 * KIB)


def open_tiered(
    world: World, *, config: AofConfig = TIERED, shared: SharedTierConfig = SHARED
) -> tuple[AofManager, Aof]:
    manager = AofManager(
        "/store", config=config, tier_config=shared, disk=world.disk, runner=world.runner
    )
    return manager, manager.open("orders")


def resident_bytes(log: Aof) -> int:
    return sum(place.durable_bytes for place in log.tiers.residency() if 0 in place.tiers)


def random_payload(world: World, size: int) -> bytes:
    return world.random.randbytes(size)


def test_a_log_much_larger_than_its_tiers_is_written_and_read_back() -> None:
    world = World(1)
    manager, log = open_tiered(world)
    written = []
    for _ in range(60):
        written.append(random_payload(world, 30_000))
        log.append_record_with_timeout(written[-1], 60)
        assert resident_bytes(log) <= TIERED.tiers.tier0_bytes_max
    log.flush()
    world.runner.advance(10 * SECOND)
    places = log.tiers.residency()
    assert len(places) > 20
    assert sum(2 in place.tiers for place in places) >= len(places) - 4
    warm = sum(p.compressed_bytes for p in places if 1 in p.tiers and 0 not in p.tiers)
    assert warm <= SHARED.tier1_bytes_max
    assert contents(log) == written
    check_artefacts(world, log)
    manager.close()
    world.restart(Crash.POWER)
    manager, log = open_tiered(world)
    assert contents(log) == written
    check_artefacts(world, log)
    manager.close()


def test_a_log_that_is_off_moves_nothing_by_itself() -> None:
    world = World(2)
    manager, log = open_tiered(world, config=CONFIG)
    write_segments(log, 8)
    world.runner.advance(60 * SECOND)
    assert all(place.tiers == (0,) for place in log.tiers.residency())
    assert log.tiering is None
    manager.close()


def test_without_room_in_tier_0_an_append_would_block_for_admission() -> None:
    world = World(3)
    manager, log = open_tiered(world)
    log.tiers.cold.store._store = Unreachable()  # type: ignore[attr-defined]
    payload = random_payload(world, 30_000)

    def append_too_much() -> None:
        for _ in range(40):
            log.append_record_with_timeout(payload, 2)

    with pytest.raises(WouldBlock) as blocked:
        append_too_much()
    assert blocked.value.kind is BackpressureKind.ADMISSION
    assert resident_bytes(log) <= TIERED.tiers.tier0_bytes_max
    seen = log.observe_tiers()
    assert seen.admissions_refused > 0
    assert seen.tier2_retries > 0
    manager.close()


class Unreachable:
    """Tier 2 is down."""

    def __getattr__(self, name: str) -> object:
        from lakebed.aof.tiers.errors import Unavailable

        def fail(*_: object, **__: object) -> object:
            raise Unavailable(f"{name}: no route to host")

        return fail


def test_a_rollover_is_acknowledged_when_its_record_is_durable() -> None:
    world = World(4)
    _, log = open_tiered(world)
    log.append_record(random_payload(world, 40_000))
    with pytest.raises(WouldBlock) as blocked:
        log.append_record(random_payload(world, 40_000))
    assert blocked.value.kind is BackpressureKind.ROLLOVER
    assert log._state.chain.is_rollover_requested
    log.append_record_with_timeout(random_payload(world, 40_000), 5)
    assert log.manifest is not None
    reader = log.manifest.reader()
    world.restart(Crash.POWER)
    found = [placed.record for placed in reader.records() if placed.record.segment_id == 0]
    assert [record.type_name for record in found] == ["SegmentOpened", "CompressionStarted"]


def test_reading_a_cold_segment_brings_it_back_only_if_there_is_room() -> None:
    world = World(5)
    manager, log = open_tiered(world)
    written = write_segments(log, 3)
    world.runner.advance(10 * SECOND)
    log.tiers.evict([0], warm=True)
    assert contents(log) == written
    world.runner.advance(10 * SECOND)
    assert log.tiers.residency()[0].tiers == (0, 2)
    seen = log.observe_tiers()
    assert seen.hydration_count == 1
    assert seen.segments[0] >= 3
    manager.close()


@pytest.mark.parametrize("reads", ["one record", "follows"])
def test_the_segment_behind_a_read_and_the_one_a_follower_begins_with_come_back(reads: str) -> None:
    world = World(11)
    manager, log = open_tiered(world)
    write_segments(log, 3, records=1)
    ids = [record.record_id for record in log.read()]
    world.runner.advance(10 * SECOND)
    log.tiers.evict([0, 1], warm=True)
    if reads == "follows":
        log.follow(ids[1])
    else:
        log.get(ids[0])
    world.runner.advance(10 * SECOND)
    back = [0 in place.tiers for place in log.tiers.residency()]
    assert back == ([False, True, True] if reads == "follows" else [True, True, True])
    manager.close()


def test_retention_deletes_from_every_tier() -> None:
    world = World(6)
    config = dataclasses.replace(TIERED, retention=RetentionConfig(count_max=3))
    manager, log = open_tiered(world, config=config)
    write_segments(log, 10)
    world.runner.advance(120 * SECOND)
    kept = [info.segment_id for info in log.segments()]
    assert len(kept) == 3
    names = log.tiers.cold.warm_names()
    assert set(names) <= set(kept)
    world.runner.advance(120 * SECOND)
    manager._coordinator.wake()
    world.runner.advance(SECOND)
    store = log.tiers.cold.store
    keys = [info.key for info in store.list("aof2/") if "/segment-" in info.key]
    assert len(keys) <= 3
    assert log.manifest is not None
    assert list(log.manifest.index().pending_deletes) == []
    check_artefacts(world, log)
    manager.close()


def test_sealed_manifest_chunks_are_uploaded_and_old_ones_leave_the_disk() -> None:
    world = World(7)
    manifest = ManifestConfig(chunk_bytes=16 * KIB, snapshot_chunks=2)
    config = dataclasses.replace(TIERED, manifest=manifest)
    manager, log = open_tiered(world, config=config)
    written = write_segments(log, 10, records=1)
    assert log.manifest is not None
    for number in range(80):
        log.manifest.append(CustomEvent(number, b"x" * 900), segment_id=9, logical_offset=0)
    world.runner.advance(60 * SECOND)
    log.manifest.rotate()
    world.runner.advance(60 * SECOND)
    local = log.manifest.reader().chunk_indexes()
    store = log.tiers.cold.store
    stored = [i for i in store.list("aof2/manifest/") if i.key.endswith(".mlog")]
    assert len(stored) >= 3
    assert local[0] > 0, "old chunks stay"
    assert len(local) >= 3
    for info in stored:
        metadata = store.head(info.key).metadata
        assert metadata is not None
        assert {"chunk-crc64", "base-record", "record-count", "snapshot-id"} <= set(metadata)
    manager.close()
    world.restart(Crash.POWER)
    manager, log = open_tiered(world, config=config)
    assert contents(log) == written
    check_artefacts(world, log)
    manager.close()


def test_a_chunk_that_is_sealed_for_its_age_is_uploaded_though_nothing_else_happens() -> None:
    world = World(8)
    manager, log = open_tiered(world)
    write_segments(log, 1)
    world.runner.advance(590 * SECOND)
    store = log.tiers.cold.store
    assert list(store.list("aof2/manifest/")) == []
    world.runner.advance(20 * SECOND)
    (chunk,) = store.list("aof2/manifest/")
    assert chunk.key.endswith(f"{0:020}.mlog")
    manager.close()


def test_an_idle_tiered_log_is_quiet() -> None:
    world = World(8)
    manager, log = open_tiered(world)
    write_segments(log, 6)
    world.runner.advance(3600 * SECOND)
    before = len(world.trace)
    world.runner.advance(24 * 3600 * SECOND)
    assert len(world.trace) == before
    manager.close()


def test_segments_may_take_a_quarter_of_the_logs_tier_0() -> None:
    with pytest.raises(BadConfig, match="quarter"):
        AofConfig(
            segment_bytes=128 * KIB,
            tiers=TierConfig(tiering_enabled=True, tier0_bytes_max=256 * KIB),
        )


def test_a_missing_object_is_made_anew_from_a_local_copy_after_a_restart() -> None:
    world = World(9)
    manager, log = open_tiered(world)
    written = write_segments(log, 2)
    world.runner.advance(10 * SECOND)
    log.tiers.evict([0], warm=True)
    for place in log.tiers.residency():
        log.tiers.cold.store.delete(place.key)
    manager.close()
    manager, log = open_tiered(world)
    world.runner.advance(10 * SECOND)
    first, second = log.tiers.residency()
    assert first.needs_repair, "no copy of it is left"
    assert log.tiers.cold.store.head(second.key).size == second.compressed_bytes
    assert contents_of(log, 1) == written[5:]
    manager.close()


def test_a_chunk_of_the_manifest_log_that_is_missing_is_made_anew_after_a_restart() -> None:
    world = World(12)
    manager, log = open_tiered(world)
    write_segments(log, 1)
    assert log.manifest is not None
    log.manifest.rotate()
    world.runner.advance(10 * SECOND)
    store = log.tiers.cold.store
    (chunk,) = store.list("aof2/manifest/")
    store.delete(chunk.key)
    manager.close()
    manager, log = open_tiered(world)
    world.runner.advance(10 * SECOND)
    assert list(log.tiers.cold.store.list("aof2/manifest/")) == [chunk]
    manager.close()


def contents_of(log: Aof, segment_id: int) -> list[bytes]:
    records = log.read(start=log.segments()[segment_id].segment_id << 32)  # type: ignore[arg-type]
    return [bytes(record.payload) for record in records]


def test_two_logs_share_the_budget_of_tier_0() -> None:
    world = World(10)
    shared = SharedTierConfig(tier0_bytes_max=448 * KIB)
    manager, log = open_tiered(world, shared=shared)
    other = manager.open("others")
    for number in range(30):
        for one in (log, other):
            one.append_record_with_timeout(random_payload(world, 30_000 + number), 60)
    world.runner.advance(10 * SECOND)
    total = resident_bytes(log) + resident_bytes(other)
    assert total <= shared.tier0_bytes_max
    tier2 = [place for one in (log, other) for place in one.tiers.residency() if 2 in place.tiers]
    assert len(tier2) > 15
    manager.close()


@pytest.mark.parametrize(
    "work", ["compress_next", "upload_next", "upkeep", "times_due_ns", "due_ns"]
)
def test_tiers_that_fail_unexpectedly_stop_those_of_no_other_log(
    work: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(3)
    done = getattr(TierScheduler, work)
    is_broken = True

    def fail(tiering: TierScheduler) -> object:
        if is_broken and tiering.name == "broken":
            raise ZeroDivisionError("a mistake of ours")
        return done(tiering)

    monkeypatch.setattr(TierScheduler, work, fail)
    manager = AofManager(
        "/store", config=TIERED, tier_config=SHARED, disk=world.disk, runner=world.runner
    )
    broken, whole = manager.open("broken"), manager.open("whole")
    caplog.clear()
    for log in (broken, whole):
        for _ in range(8):
            log.append_record_with_timeout(random_payload(world, 30_000), 60)
        log.flush()
        log.seal_current_segment()
    world.runner.advance(60 * SECOND)

    def uploaded(log: Aof) -> bool:
        return all(2 in place.tiers for place in log.tiers.residency() if place.is_sealed)

    assert uploaded(whole)
    assert isinstance(manager.failures()["broken"], ZeroDivisionError)
    assert "whole" not in manager.failures()
    assert len([line for line in caplog.records if line.exc_info]) <= 8  # one for each worker
    is_broken = False
    world.runner.advance(120 * SECOND)
    assert uploaded(broken), "it is tried again"
    assert manager.failures() == {}
    manager.close()
