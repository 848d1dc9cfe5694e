"""Segments moved from tier to tier by hand: records stay where their ids say."""

from __future__ import annotations

import dataclasses

import pytest

from lakebed.aof.format import SEGMENT_HEADER
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.state import Residency
from lakebed.aof.paths import LogPaths
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.reader import LogReader
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.errors import Missing, Unauthorised, Unavailable
from lakebed.aof.tiers.services import TierServices
from lakebed.base.errors import (
    BadConfig,
    Busy,
    Closed,
    DiskError,
    InputError,
    LakebedError,
    NotFound,
)
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from tests.aof.tiers.chaotic_logs import calm, fake_of
from tests.aof.tiers.tiered_logs import (
    CONFIG,
    PATHS,
    check_artefacts,
    contents,
    open_log,
    write_segments,
)


def tiers_of(log: object) -> dict[int, tuple[int, ...]]:
    return {place.segment_id: place.tiers for place in log.tiers.residency()}  # type: ignore[attr-defined]


def test_a_segment_goes_through_all_tiers_and_back() -> None:
    world = World(1)
    manager, log = open_log(world)
    written = write_segments(log, 3)
    ids = [record.record_id for record in log.read()]
    assert log.tiers.upload() == [0, 1, 2]
    seen = log.observe_tiers()
    assert seen.segments == (3, 3, 3)
    assert seen.bytes[0] > seen.bytes[1] == seen.bytes[2] > 0
    metadata = log.tiers.cold.store.head(log.tiers.residency()[0].key).metadata
    assert metadata is not None
    assert {"crc64", "record-count", "durable-bytes", "snapshot-id"} <= set(metadata)
    assert tiers_of(log) == {0: (0, 1, 2), 1: (0, 1, 2), 2: (0, 1, 2)}
    assert log.tiers.evict([0]) == [0]
    assert log.tiers.evict([1], warm=True) == [1]
    assert tiers_of(log) == {0: (1, 2), 1: (2,), 2: (0, 1, 2)}
    assert contents(log) == written
    assert [bytes(log.get(record_id).payload) for record_id in ids] == written
    assert log.tiers.hydrate([0, 1]) == [0, 1]
    assert tiers_of(log) == {0: (0, 1, 2), 1: (0, 2), 2: (0, 1, 2)}
    assert contents(log) == written
    check_artefacts(world, log)
    manager.close()


def test_moves_are_done_once() -> None:
    world = World(1)
    _, log = open_log(world)
    write_segments(log, 2)
    assert log.tiers.hydrate() == []
    assert log.tiers.evict() == [], "Tier 2 has none of them"
    assert log.tiers.upload() == [0, 1]
    assert log.tiers.upload() == []
    assert log.tiers.evict(warm=True) == [0, 1]
    assert log.tiers.evict(warm=True) == []


def test_everything_may_be_elsewhere_and_the_log_goes_on() -> None:
    world = World(2)
    manager, log = open_log(world)
    written = write_segments(log, 3)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    manager.close()
    assert [n for n in world.disk.names(PATHS.segments) if n.endswith(".seg")] == []
    world.restart(Crash.POWER)
    manager, log = open_log(world)
    assert contents(log) == written
    record_id = log.append_record(b"behind it all")
    log.flush()
    assert record_id.segment_index == 3
    assert contents(log) == [*written, b"behind it all"]
    info = log.seal_current_segment()
    assert info is not None
    assert info.base_offset == sum(s.durable_bytes + 96 for s in log.tiers.residency()[:3])
    check_artefacts(world, log)
    manager.close()


@pytest.mark.parametrize(
    ("trouble", "error"), [("is_down", Unavailable), ("refuses", Unauthorised)]
)
def test_where_a_log_goes_on_is_not_guessed_while_tier_2_does_not_answer(
    trouble: str, error: type[LakebedError]
) -> None:
    world = World(2)
    store = fake_of(world)
    manager, log = open_log(world, store=store)
    written = write_segments(log, 3)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    manager.close()
    before = {name: content(world, name) for name in world.disk.names(PATHS.segments)}
    setattr(store, trouble, True)
    with pytest.raises(error, match="orders: its newest segment, 2, cannot be read from Tier 2"):
        open_log(world, store=store)
    world.restart(Crash.KILL)
    calm(store)
    store.runner = world.runner
    assert {name: content(world, name) for name in world.disk.names(PATHS.segments)} == before
    manager, log = open_log(world, store=store)
    log.append_record(b"behind it all")
    info = log.seal_current_segment()
    assert info is not None
    with world.disk.open(info.path) as file:
        header = SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size))
    assert header.base_record_count == len(written)
    assert contents(log) == [*written, b"behind it all"]
    manager.close()


def test_a_log_whose_newest_object_is_lost_is_opened_all_the_same() -> None:
    world = World(2)
    store = fake_of(world)
    manager, log = open_log(world, store=store)
    write_segments(log, 2)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    manager.close()
    store.lose(max(store.objects))
    manager, log = open_log(world, store=store)
    assert log.append_record(b"on").segment_index == 2
    manager.close()


def content(world: World, name: str) -> bytes:
    with world.disk.open(f"{PATHS.segments}/{name}") as file:
        return file.pread(0, file.size())


def test_readers_beside_the_writer_find_segments_in_every_tier() -> None:
    world = World(3)
    _, log = open_log(world)
    written = write_segments(log, 4)
    beside = ReadOnlyLog("/store", "orders", disk=world.disk, runner=world.runner)
    with LogReader(beside) as reader:
        assert [bytes(r.payload) for r in reader.read()] == written
        log.tiers.upload()
        log.tiers.evict([0, 1])
        log.tiers.evict([1, 2], warm=True)
        assert [bytes(r.payload) for r in reader.read()] == written
        log.tiers.hydrate([1])
        assert [bytes(r.payload) for r in reader.read()] == written
    later = ReadOnlyLog("/store", "orders", disk=world.disk, runner=world.runner)
    with LogReader(later) as reader:
        assert [bytes(r.payload) for r in reader.read()] == written
        assert [bytes(r.payload) for r in reader.read_backward()] == written[::-1]


class CountingServices(TierServices):
    """Counts the logs whose tiers were opened."""

    count = 0

    def cold(self, paths: LogPaths, address: str, *, is_writer: bool = False) -> ColdSegments:
        self.count += 1
        return super().cold(paths, address, is_writer=is_writer)


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_refresh_a_log_at_once_open_its_tiers_once(seed: int) -> None:
    world = World(seed)
    _, log = open_log(world)
    written = write_segments(log, 2)
    log.append_record(b"open")
    log.flush()
    services = CountingServices("/store", disk=world.disk, runner=world.runner)
    beside = ReadOnlyLog(
        "/store", "orders", disk=world.disk, runner=world.runner, services=services
    )
    assert services.count == 0
    log.tiers.upload()
    log.tiers.evict(warm=True)
    calls = [world.runner.call(f"reader {number}", beside.refresh) for number in range(3)]
    world.runner.run()
    assert [call.result() for call in calls] == [None] * 3
    assert services.count == 1
    assert [bytes(record.payload) for record in beside.read()] == [*written, b"open"]


def test_a_follower_crosses_tiers() -> None:
    world = World(4)
    _, log = open_log(world)
    written = write_segments(log, 3)
    log.tiers.upload()
    log.tiers.evict([0], warm=True)
    follower = log.follow()
    found = [bytes(next(follower).payload) for _ in range(7)]
    log.tiers.evict(warm=True)
    found += [bytes(next(follower).payload) for _ in range(len(written) - 7)]
    assert found == written


def test_what_is_not_stored_in_tier_2_is_not_evicted() -> None:
    world = World(5)
    _, log = open_log(world)
    write_segments(log, 1)
    with pytest.raises(InputError, match="Tier 2 has no intact copy of it"):
        log.tiers.evict([0])
    with pytest.raises(NotFound, match="segment 7"):
        log.tiers.upload([7])
    log.append_record(b"open")
    with pytest.raises(NotFound, match="segment 1"):
        log.tiers.upload([1])


def test_a_pinned_segment_stays() -> None:
    world = World(6)
    _, log = open_log(world, is_pinned=lambda name, number: (name, number) == ("orders", 0))
    write_segments(log, 2)
    log.tiers.upload()
    assert log.tiers.evict() == [1]
    with pytest.raises(Busy, match="pinned"):
        log.tiers.evict([0])


def test_without_its_manifest_log_nothing_is_moved() -> None:
    world = World(7)
    config = dataclasses.replace(CONFIG, manifest=ManifestConfig(manifest_log_enabled=False))
    _, log = open_log(world, config=config)
    write_segments(log, 1)
    for move in (log.tiers.upload, log.tiers.evict, log.tiers.hydrate):
        with pytest.raises(BadConfig, match="manifest log"):
            move()
    assert log.tiers.residency() == []


@pytest.mark.parametrize("move", ["upload", "evict", "hydrate"])
def test_a_closed_log_says_that_it_is_closed_and_not_that_a_setting_is_wrong(move: str) -> None:
    _, log = open_log(World(1))
    write_segments(log, 2)
    log.tiers.upload([0])
    log.close()
    with pytest.raises(Closed):
        getattr(log.tiers, move)()


WITHOUT_MANIFEST = dataclasses.replace(CONFIG, manifest=ManifestConfig(manifest_log_enabled=False))


def test_the_manifest_log_cannot_be_switched_off_while_it_alone_knows_of_segments() -> None:
    world = World(9)
    manager, log = open_log(world)
    written = write_segments(log, 3)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    with pytest.raises(BadConfig, match="3 of its segments, 0 to 2, are only in colder tiers"):
        log.set_manifest_log_enabled(False)
    assert log.manifest is not None
    manager.close()
    manager = AofManager("/store", config=WITHOUT_MANIFEST, disk=world.disk, runner=world.runner)
    for _ in range(2):
        with pytest.raises(BadConfig, match="3 of its segments, 0 to 2, are only in colder tiers"):
            manager.open("orders")
    manager.close()
    manager, log = open_log(world)
    assert contents(log) == written
    assert log.append_record(b"next").segment_index == 3
    log.flush()
    log.tiers.hydrate()
    manager.close()
    manager, log = open_log(world, config=WITHOUT_MANIFEST)
    assert contents(log) == [*written, b"next"]
    manager.close()


def test_a_segment_that_is_being_moved_is_left_alone_by_others() -> None:
    world = World(8)
    _, log = open_log(world)
    write_segments(log, 1)
    with log.tiers.moves.claim(0), pytest.raises(Busy, match="segment 0"):
        log.tiers.upload()
    assert log.tiers.upload() == [0]


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_a_warm_file_that_fails_is_given_up_for_the_object(damage: str) -> None:
    world = World(9)
    _, log = open_log(world)
    written = write_segments(log, 1)
    log.tiers.upload()
    log.tiers.evict()
    path = log.segments()[0].path
    if damage == "missing":
        world.disk.unlink(path)
    else:
        with world.disk.open(path, writable=True) as file:
            file.pwrite(40, b"\xff\xff\xff\xff")
            file.sync()
    log.tiers.hydrate()
    assert log.segments()[0].tier == 0
    assert contents(log) == written
    assert log.manifest is not None
    state = log.manifest.state(0)
    assert state is not None
    assert not state.residency & Residency.TIER1
    assert not state.needs_repair
    check_artefacts(world, log)


def test_a_missing_object_is_told_and_needs_repair() -> None:
    world = World(10)
    _, log = open_log(world)
    write_segments(log, 2)
    log.tiers.upload()
    log.tiers.evict([0], warm=True)
    log.tiers.cold.store.delete(log.segments()[0].path)
    with pytest.raises(NotFound):
        log.tiers.hydrate([0])
    (first, _) = log.tiers.residency()
    assert first.needs_repair
    assert first.failures == ("hydration",)


def test_a_segment_that_needs_repair_keeps_no_other_from_being_evicted() -> None:
    world = World(10)
    manager, log = open_log(world)
    written = write_segments(log, 3)
    log.tiers.upload()
    log.tiers.cold.store.delete(log.tiers.residency()[0].key)
    world.disk.faults.unreadable.update(f"{PATHS.warm}/{n}" for n in world.disk.names(PATHS.warm))
    with pytest.raises(DiskError):
        log.tiers.repair()
    assert log.tiers.residency()[0].needs_repair
    with pytest.raises(InputError, match="Tier 2 has no intact copy of it"):
        log.tiers.evict([0])
    world.disk.faults.unreadable.clear()
    assert log.tiers.evict() == [1, 2]
    assert contents(log) == written
    log.tiers.repair()
    assert log.tiers.evict() == [0]
    assert contents(log) == written
    manager.close()


def test_a_lost_identity_hides_nothing_from_readers_or_the_writer() -> None:
    world = World(12)
    manager, log = open_log(world)
    written = write_segments(log, 2)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    manager.close()
    world.disk.unlink(PATHS.identity)
    beside = ReadOnlyLog("/store", "orders", disk=world.disk, runner=world.runner)
    with LogReader(beside) as reader:
        assert [bytes(r.payload) for r in reader.read()] == written
    _, log = open_log(world)
    assert contents(log) == written


def test_a_deleted_object_is_called_missing_by_its_key() -> None:
    world = World(13)
    _, log = open_log(world)
    write_segments(log, 1)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    key = log.segments()[0].path
    log.tiers.cold.store.delete(key)
    with pytest.raises(Missing, match=key):
        contents(log)


def test_the_address_of_tier_2_is_the_one_the_log_was_created_with() -> None:
    world = World(11)
    manager, log = open_log(world)
    written = write_segments(log, 1)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    manager.close()
    assert world.disk.names("/store/tier2") == ["aof2"]
    manager, log = open_log(world, shared=SharedTierConfig(url="/elsewhere"))
    assert contents(log) == written
    write_segments(log, 1)
    assert log.tiers.upload() == [1]
    assert not world.disk.exists("/elsewhere")
    other = manager.open("others")
    write_segments(other, 1)
    other.tiers.upload()
    assert world.disk.exists("/elsewhere/aof2"), "those that are created now go there"
    manager.close()
