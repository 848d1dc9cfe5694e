"""A log and its manifest log: what is recorded, and that they agree again after anything."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.identity import load_identity
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.format import (
    CHUNK_HEADER,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
)
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import (
    CustomEvent,
    ManifestRecord,
    Payload,
    Tier2DeleteQueued,
    UploadDone,
)
from lakebed.aof.manifest.replay import replay
from lakebed.aof.manifest.state import Residency
from lakebed.aof.paths import LogPaths, SegmentName
from lakebed.aof.recovery import read_footer
from lakebed.base.errors import Busy, Corrupt, NotFound, Poisoned, SyncFailed, UnknownVersion
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

SECOND = 10**9
CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0, flush_ms=1))
OFF = dataclasses.replace(CONFIG, manifest=ManifestConfig(manifest_log_enabled=False))
KEEP_TWO = dataclasses.replace(CONFIG, retention=RetentionConfig(count_max=2))


def open_log(world: World, config: AofConfig = CONFIG) -> tuple[AofManager, Aof]:
    manager = AofManager("/store", config=config, disk=world.disk, runner=world.runner)
    return manager, manager.open("orders")


def folder(world: World) -> str:
    paths = LogPaths("/store", "orders")
    return f"{paths.manifest}/{load_identity(world.disk, paths).stream}"


def reader(world: World) -> ManifestReader:
    return ManifestReader(world.disk, ManifestPaths(folder(world)))


def records(world: World) -> list[ManifestRecord]:
    found = [placed.record for placed in reader(world).records()]
    return [record for record in found if not isinstance(record.payload, SnapshotMarker)]


def write_segments(log: Aof, count: int) -> None:
    for number in range(count):
        log.append_record(b"record %d" % number, ext_id=number)
        log.seal_current_segment()


def fill_queue(log: Aof, event: CustomEvent) -> None:
    """Until no more of these fit."""
    assert log.manifest is not None
    with contextlib.suppress(Busy):
        for _ in range(10_000):
            log.manifest.append(event, segment_id=0, logical_offset=0)


def check_agreement(world: World, log: Aof) -> None:
    """The index says of each segment what its file says, and of no other that it is here."""
    assert log.manifest is not None
    index = log.manifest.index()
    resident = {s.segment_id for s in index.segments() if s.residency & Residency.TIER0}
    assert resident == {info.segment_id for info in log.segments()}
    for info in log.segments():
        state = index.get(info.segment_id)
        assert state is not None
        assert state.base_offset == info.base_offset
        assert state.is_sealed == info.is_sealed
        if info.is_sealed:
            with world.disk.open(info.path) as file:
                name = SegmentName(info.segment_id, info.base_offset, info.created_at)
                footer = read_footer(file, info.path, name)
            assert footer is not None
            assert (state.durable_bytes, state.segment_crc64, state.ext_id) == (
                footer.durable_bytes,
                footer.payload_checksum,
                footer.ext_id,
            )


def test_what_happens_to_a_segment_is_recorded_in_order() -> None:
    world = World(1)
    manager, log = open_log(world, KEEP_TWO)
    log.set_coordinator_watermark(42)
    write_segments(log, 4)
    world.runner.advance(SECOND)
    manager.close()
    first = [record.payload for record in records(world) if record.segment_id == 0]
    assert [type(payload) for payload in first] == [SegmentOpened, SealSegment, LocalEvicted]
    seal = first[1]
    assert isinstance(seal, SealSegment)
    assert (seal.ext_id, seal.coordinator_watermark, seal.flush_failure) == (0, 42, 0)
    assert first[2] == LocalEvicted(seal.durable_bytes)
    opened = [r for r in records(world) if isinstance(r.payload, SegmentOpened)]
    assert [record.segment_id for record in opened] == [0, 1, 2, 3]
    assert all(record.logical_offset == record.payload.base_offset for record in opened)  # type: ignore[union-attr]
    world.restart(Crash.POWER)
    _, log = open_log(world, KEEP_TWO)
    check_agreement(world, log)


def test_an_idle_log_has_no_chunk_and_no_snapshot() -> None:
    world = World(2)
    for _ in range(3):
        manager, log = open_log(world)
        world.runner.advance(3600 * SECOND)
        manager.close()
        assert log.counters.snapshot().counters["manifest_commits"] == 0
    assert not world.disk.exists(folder(world))


def test_what_a_crash_kept_from_being_recorded_is_recorded_at_the_next_opening() -> None:
    world = World(3)
    _, log = open_log(world)
    write_segments(log, 3)
    log.append_record(b"open")
    log.flush()
    world.restart(Crash.POWER)  # before the commit timer
    assert not world.disk.exists(folder(world))
    manager, log = open_log(world)
    check_agreement(world, log)
    manager.close()
    assert [r.segment_id for r in records(world) if isinstance(r.payload, SealSegment)] == [0, 1, 2]
    manager, log = open_log(world)
    before = len(records(world))
    manager.close()
    assert len(records(world)) == before, "recorded twice"


@pytest.mark.parametrize("archive", [False, True])
def test_files_that_went_or_stayed_against_the_record_are_found_out(archive: bool) -> None:
    world = World(4)
    retention = RetentionConfig(count_max=2, archive=archive)
    config = dataclasses.replace(CONFIG, retention=retention)
    manager, log = open_log(world, CONFIG)
    write_segments(log, 4)
    manager.close()
    oldest = log.segments()[0].path
    world.disk.rename(oldest, "/store/kept")  # as if it went before that was recorded
    manager, log = open_log(world, CONFIG)
    check_agreement(world, log)
    manager.close()
    world.disk.rename("/store/kept", oldest)  # as if it stayed though that was recorded
    manager, log = open_log(world, CONFIG)
    assert len(log.segments()) == 4
    check_agreement(world, log)
    manager.close()
    manager, log = open_log(world, config)
    world.runner.advance(SECOND)
    check_agreement(world, log)
    manager.close()


def test_a_log_without_a_manifest_log_writes_none_and_gets_one_when_it_is_switched_on() -> None:
    world = World(5)
    manager, log = open_log(world, OFF)
    write_segments(log, 3)
    assert log.manifest is None
    manager.close()
    assert not world.disk.exists(folder(world))
    manager, log = open_log(world, CONFIG)
    check_agreement(world, log)
    assert reader(world).snapshot_ids() == [1], "a snapshot comes first"
    manager.close()
    manager, log = open_log(world, OFF)
    write_segments(log, 2)
    manager.close()
    assert not load_identity(world.disk, LogPaths("/store", "orders")).manifest_log
    manager, log = open_log(world, CONFIG)
    check_agreement(world, log)
    assert reader(world).snapshot_ids()[-1] == 2
    manager.close()


def test_the_manifest_log_is_switched_off_and_on_while_the_log_is_written() -> None:
    world = World(6)
    manager, log = open_log(world)
    write_segments(log, 2)
    log.set_manifest_log_enabled(False)
    write_segments(log, 2)
    assert log.manifest is None
    log.append_record(b"open")
    log.set_manifest_log_enabled(True)
    log.set_manifest_log_enabled(True)
    log.flush()
    check_agreement(world, log)
    write_segments(log, 1)
    check_agreement(world, log)
    manager.close()
    assert sum(isinstance(r.payload, SegmentOpened) for r in records(world)) == 5


def test_switching_the_manifest_log_on_writes_a_snapshot_even_if_nothing_is_missing() -> None:
    world = World(6)
    manager, log = open_log(world)
    write_segments(log, 2)
    before = reader(world).snapshot_ids()
    log.set_manifest_log_enabled(False)  # closing it may write one
    closed = reader(world).snapshot_ids()
    log.set_manifest_log_enabled(True)
    assert (before, closed, reader(world).snapshot_ids()) == ([], [1], [1, 2])
    manager.close()
    open_log(world, OFF)[0].close()
    assert reader(world).snapshot_ids() == [1, 2]
    manager, log = open_log(world)
    assert reader(world).snapshot_ids() == [2, 3]
    check_agreement(world, log)
    manager.close()


def test_what_retention_removes_is_recorded_even_at_the_end() -> None:
    for seed in range(20):
        world = World(seed)
        manager, log = open_log(world, dataclasses.replace(KEEP_TWO))
        write_segments(log, 5)
        manager.close()
        assert log.manifest is None
        index = replay(reader(world)).index
        resident = {s.segment_id for s in index.segments() if s.residency & Residency.TIER0}
        names = map(SegmentName.parse, world.disk.names("/store/aof/orders/segments"))
        assert resident == {name.segment_id for name in names if name is not None}


@pytest.mark.parametrize("field", ["magic", "chunk_crc64"])
def test_a_damaged_chunk_is_met_once_and_a_snapshot_stands_in_for_it(field: str) -> None:
    world = World(14)
    manager, log = open_log(world)
    for _ in range(3):
        write_segments(log, 2)
        assert log.manifest is not None
        log.manifest.rotate()
    manager.close()
    for number in reader(world).snapshot_ids():
        world.disk.unlink(reader(world).paths.snapshot(number))
    with world.disk.open(reader(world).paths.chunk(1), writable=True) as file:
        file.write_and_sync(CHUNK_HEADER.offset_of(field), [b"\xff\xff"])
    assert replay(reader(world)).damages
    _, log = open_log(world)
    check_agreement(world, log)
    world.restart(Crash.POWER)
    found = replay(reader(world))
    assert (found.damages, found.problems) == ([], [])
    _, log = open_log(world)
    check_agreement(world, log)


def test_a_lost_chunk_of_which_the_segments_say_nothing_is_met_once_too() -> None:
    world = World(15)
    manager, log = open_log(world)
    write_segments(log, 2)
    for number in range(3):
        assert log.manifest is not None
        log.manifest.append(CustomEvent(number, b"x"), segment_id=0, logical_offset=0)
        log.manifest.rotate()
    manager.close()
    for number in reader(world).snapshot_ids():
        world.disk.unlink(reader(world).paths.snapshot(number))
    world.disk.unlink(reader(world).paths.chunk(1))
    assert replay(reader(world)).damages
    open_log(world)
    world.restart(Crash.POWER)
    assert replay(reader(world)).damages == []


@pytest.mark.parametrize("is_switched", [False, True])
def test_more_is_recorded_at_the_opening_than_the_queue_holds(is_switched: bool) -> None:
    world = World(16)
    small = ManifestConfig(queue_bytes_max=256 * KIB, snapshot_chunks=1000)
    config = dataclasses.replace(CONFIG, manifest=small)
    manager, log = open_log(world, config)
    write_segments(log, 2)
    for number in range(2, 6_000):  # their files are gone
        assert log.manifest is not None
        log.manifest.append(SegmentOpened(0, 1), segment_id=number, logical_offset=0)
        if number % 1000 == 0:
            log.manifest.commit()
    if is_switched:
        log.set_manifest_log_enabled(False)
        log.set_manifest_log_enabled(True)
    else:
        manager.close()
        manager, log = open_log(world, config)
    check_agreement(world, log)
    assert len(log.segments()) == 2
    manager.close()
    gone = [r.segment_id for r in records(world) if isinstance(r.payload, LocalEvicted)]
    assert gone == list(range(2, 6_000)), "each is recorded once"


def test_more_segments_went_while_the_manifest_log_was_off_than_the_queue_holds() -> None:
    world = World(16)
    small = ManifestConfig(queue_bytes_max=256 * KIB, snapshot_chunks=1000)
    config = dataclasses.replace(CONFIG, manifest=small)
    manager, log = open_log(world, config)
    write_segments(log, 6)
    keys = [f"aof2/{number}/{'k' * 60_000}" for number in range(5)]
    for number, key in enumerate(keys):
        assert log.manifest is not None
        log.manifest.append(UploadDone(key, ""), segment_id=number, logical_offset=0)
        log.manifest.commit()
    manager.close()
    off = dataclasses.replace(OFF, retention=RetentionConfig(count_max=1))
    manager, log = open_log(world, off)
    world.runner.advance(SECOND)
    manager.close()
    manager, log = open_log(world, config)
    check_agreement(world, log)
    assert log.manifest is not None
    assert [info.segment_id for info in log.segments()] == [5]
    manager.close()
    queued = [r.payload for r in records(world) if isinstance(r.payload, Tier2DeleteQueued)]
    assert queued == [Tier2DeleteQueued(key) for key in keys]


def test_what_left_while_the_manifest_log_was_off_is_recorded_with_the_mutex_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(16)
    keep_one = dataclasses.replace(CONFIG, retention=RetentionConfig(count_max=1))
    manager, log = open_log(world, keep_one)
    log.set_manifest_log_enabled(False)
    write_segments(log, 1)
    log.set_manifest_log_enabled(True)
    assert log.manifest is not None
    log.manifest.append(UploadDone("key", ""), segment_id=0, logical_offset=0)
    log.set_manifest_log_enabled(False)
    write_segments(log, 1)
    world.runner.advance(SECOND)
    append = Journal.append
    held: list[bool] = []

    def noted_append(journal: Journal, *payloads: Payload, **named: int) -> None:
        if Tier2DeleteQueued("key") in payloads:
            held.append(log._state.mutex._held)  # type: ignore[attr-defined]
        append(journal, *payloads, **named)

    monkeypatch.setattr(Journal, "append", noted_append)
    log.set_manifest_log_enabled(True)
    assert held == [True]
    check_agreement(world, log)
    manager.close()


def test_who_waits_for_room_in_the_manifest_log_is_told_of_it() -> None:
    world = World(17)
    slow = ManifestConfig(queue_bytes_max=256 * KIB, commit_ms=60_000, snapshot_chunks=1000)
    manager, log = open_log(world, dataclasses.replace(CONFIG, manifest=slow))
    write_segments(log, 1)
    fill_queue(log, CustomEvent(1, b"x" * 700))
    fill_queue(log, CustomEvent(1, b""))
    with pytest.raises(WouldBlock) as refused:
        log.append_record(b"first of a segment, which cannot be recorded now")
    assert refused.value.kind is BackpressureKind.ROLLOVER
    log.append_record_with_timeout(b"a moment later", 1)
    manager.close()
    check_agreement(world, open_log(world)[1])


def test_the_stream_id_stays_and_names_the_folder() -> None:
    world = World(7)
    manager, log = open_log(world)
    write_segments(log, 1)
    stream_id = log.stream_id
    manager.close()
    assert folder(world).endswith(f"{stream_id:016x}")
    manager, log = open_log(world)
    assert log.stream_id == stream_id
    manager.close()
    world.disk.unlink("/store/aof/orders/log.json")
    manager, log = open_log(world)
    assert log.stream_id == stream_id, "found again by its folder"
    check_agreement(world, log)
    other = manager.open("others")
    assert other.stream_id != stream_id


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1]", b"\xff", b'{"format": "lakebed log", "version": 1}', b"[" * 100_000,
     b'{"format": "lakebed log", "version": 1, "stream_id": "xyz", "manifest_log": true}',
     b'{"format": "lakebed log", "version": 1, "stream_id": 7, "manifest_log": true}'],
)  # fmt: skip
def test_a_damaged_identity_is_refused_in_one_line_and_left_alone(content: bytes) -> None:
    world = World(8)
    open_log(world)[0].close()
    path = "/store/aof/orders/log.json"
    world.disk.unlink(path)
    with world.disk.create(path) as file:
        file.write_and_sync(0, [content])
    with pytest.raises(Corrupt, match=r"log\.json"):
        open_log(world)
    with world.disk.open(path) as file:
        assert file.pread(0, 1 << 20) == content


def test_a_newer_identity_is_refused() -> None:
    world = World(8)
    open_log(world)[0].close()
    path = "/store/aof/orders/log.json"
    with world.disk.open(path, writable=True) as file:
        data = file.pread(0, 1000).replace(b'"version": 1', b'"version": 2')
        file.write_and_sync(0, [data])
    with pytest.raises(UnknownVersion, match=r"log\.json"):
        open_log(world)


def test_a_manifest_log_that_cannot_be_synced_ends_the_logs_writing_and_loses_nothing() -> None:
    world = World(9)
    manager, log = open_log(world)
    record_id = log.append_record(b"first")
    log.flush()
    assert log.manifest is not None
    world.disk.faults.fail("fdatasync")
    with pytest.raises(SyncFailed):
        log.manifest.commit()
    with pytest.raises(Poisoned):
        log.append_record(b"second")
    manager.close()
    world.restart(Crash.POWER)
    manager, log = open_log(world)
    assert [(r.record_id, bytes(r.payload)) for r in log.read()] == [(record_id, b"first")]
    check_agreement(world, log)


def test_a_watermark_that_only_the_manifest_log_knows_is_given_back() -> None:
    world = World(10)
    manager, log = open_log(world, KEEP_TWO)
    log.set_coordinator_watermark(99)
    write_segments(log, 1)
    manager.close()
    for path in ("segments/current.sealed", "durable_end"):
        world.disk.unlink(f"/store/aof/orders/{path}")
    world.disk.unlink(log.segments()[0].path)
    _, log = open_log(world)
    assert log.coordinator_watermark == 99


def test_there_is_no_identity_before_the_log_is() -> None:
    with pytest.raises(NotFound):
        load_identity(World(11).disk, LogPaths("/store", "orders"))
