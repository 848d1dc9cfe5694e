"""A manifest log that is written: commits, rotation, snapshots, full disks, and rest."""

from __future__ import annotations

import dataclasses
import errno

import pytest

from lakebed.aof.manifest.chunk import Verdict
from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    RECORDS_START,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
)
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.records import (
    CustomEvent,
    Payload,
    Position,
    Tier2DeleteQueued,
    Unknown,
    UploadDone,
    UploadStarted,
)
from lakebed.base.errors import Busy, Closed, DiskError, InputError, NoSpace, Poisoned, SyncFailed
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.manifest.journals import FOLDER, SMALL, Opened, folded, reader, replayed, stored

MS = 10**6
SECOND = 10**9
DEFAULT = dataclasses.replace(SMALL, commit_ms=250, commit_bytes=64 * KIB)


def open_segments(journal: Journal, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        payload = SegmentOpened(number * 4096, 1)
        journal.append(payload, segment_id=number, logical_offset=number * 4096)


def fill(journal: Journal, size: int) -> Position:
    return journal.append(CustomEvent(1, b"x" * size), segment_id=0, logical_offset=0)


def names(world: World) -> list[str]:
    return world.disk.names(FOLDER) if world.disk.exists(FOLDER) else []


def test_what_was_committed_is_on_disk_where_it_was_said_to_be() -> None:
    world = World(1)
    journal = Opened(world).journal
    open_segments(journal, 3)
    position = journal.append(LocalEvicted(7), segment_id=1, logical_offset=9)
    journal.commit()
    placed = list(reader(world).records())
    assert [one.record.segment_id for one in placed] == [0, 1, 2, 1]
    assert placed[-1].position == position
    assert placed[-1].record.payload == LocalEvicted(7)
    assert folded(stored(world)) == journal.index()


def test_records_nobody_waits_for_are_committed_by_the_timer() -> None:
    world = World(1)
    opened = Opened(world, DEFAULT)
    open_segments(opened.journal, 1)
    world.runner.advance(200 * MS)
    assert names(world) == []
    world.runner.advance(60 * MS)
    assert len(stored(world)) == 1


def test_many_bytes_are_committed_at_once() -> None:
    world = World(1)
    opened = Opened(world, dataclasses.replace(DEFAULT, commit_bytes=4 * KIB))
    open_segments(opened.journal, 1)
    fill(opened.journal, 5000)
    world.runner.settle()
    assert len(stored(world)) == 2


def test_a_chunk_has_its_name_only_when_it_has_a_record() -> None:
    world = World(1)
    opened = Opened(world, DEFAULT)
    world.disk.faults.fail("rename", code=errno.ENOSPC)
    open_segments(opened.journal, 1)
    with pytest.raises(NoSpace):
        opened.journal.commit()
    assert names(world) == ["00000000000000000000.mlog.tmp"]
    opened.journal.commit()
    assert names(world) == ["00000000000000000000.mlog"]
    world.restart(Crash.POWER)
    assert len(stored(world)) == 1


def test_rotation_boundaries_stitch_checksums_and_ordinals() -> None:
    world = World(2)
    opened = Opened(world)
    open_segments(opened.journal, 1)
    for number in range(400):
        fill(opened.journal, 1 + number * 97 % 1500)
    opened.journal.commit()
    indexes = reader(world).chunk_indexes()
    assert len(indexes) > 10
    ordinal = 0
    for index in indexes:
        judged = reader(world).chunk(index)
        assert judged.verdict is Verdict.WHOLE
        assert judged.header is not None
        assert judged.header.base_record == ordinal
        assert judged.is_sealed == (index != indexes[-1])
        assert judged.header.tail_offset == judged.header.committed_len == judged.end
        ordinal += len(judged.records)
    assert ordinal == len(stored(world))
    assert folded(stored(world)) == replayed(world) == opened.journal.index()


def test_records_appended_together_are_in_one_chunk_and_counted_one_by_one() -> None:
    world = World(2)
    journal = Opened(world).journal
    open_segments(journal, 1)
    together: list[Payload] = [LocalEvicted(1), CustomEvent(1, b"x" * 3000), LocalEvicted(2)]
    for _ in range(20):
        journal.append(*together, segment_id=0, logical_offset=0)
    journal.commit()
    assert [record.payload for record in stored(world)][1:] == together * 20
    chunks = [reader(world).chunk(index) for index in reader(world).chunk_indexes()]
    counts = [len(chunk.records) for chunk in chunks]
    assert len(counts) > 2
    assert all((count - (index == 0)) % len(together) == 0 for index, count in enumerate(counts))
    headers = [chunk.header for chunk in chunks]
    assert [h and h.base_record for h in headers] == [sum(counts[:i]) for i in range(len(counts))]
    assert folded(stored(world)) == replayed(world) == journal.index()


def test_of_records_for_which_the_queue_has_no_room_none_is_appended() -> None:
    world = World(2)
    slow = dataclasses.replace(DEFAULT, queue_bytes_max=256 * KIB, commit_ms=60_000)
    journal = Opened(world, slow).journal
    open_segments(journal, 1)
    while (room := 256 * KIB - journal.lag_bytes) > 150:
        fill(journal, min(4096, room - 150))
    before = journal.index()
    together: list[Payload] = [UploadStarted("key"), LocalEvicted(1), LocalEvicted(2)]
    with pytest.raises(Busy):
        journal.append(*together, segment_id=0, logical_offset=0)
    assert journal.index() == before
    journal.commit()
    journal.append(*together, segment_id=0, logical_offset=0)
    journal.commit()
    assert [record.payload for record in stored(world)][-3:] == together
    assert folded(stored(world)) == replayed(world) == journal.index()


@pytest.mark.parametrize("spare_bytes", [0, 8, 16])
def test_a_record_that_just_fits_does_not_rotate(spare_bytes: int) -> None:
    world = World(2)
    journal = Opened(world).journal
    open_segments(journal, 1)
    room = SMALL.chunk_bytes - journal.end.offset
    position = fill(journal, room - 40 - 6 - spare_bytes)
    assert (position.chunk_index, journal.end.offset) == (0, SMALL.chunk_bytes - spare_bytes)
    assert fill(journal, 1).chunk_index == (0 if spare_bytes >= 48 else 1)


def test_a_record_larger_than_a_chunk_gets_one_that_grows() -> None:
    world = World(3)
    opened = Opened(world)
    open_segments(opened.journal, 1)
    assert fill(opened.journal, 60_000) == Position(1, RECORDS_START)
    assert fill(opened.journal, 10).chunk_index == 2
    opened.journal.commit()
    with world.disk.open(reader(world).paths.chunk(1)) as file:
        size = file.size()
    assert size > 60_000
    assert (size - SMALL.chunk_bytes) % SMALL.growth_bytes == 0
    assert folded(stored(world)) == opened.journal.index()
    opened.close()
    assert Opened(world).replayed.problems == []


def test_a_chunk_with_news_is_sealed_after_a_time_and_then_all_is_quiet() -> None:
    world = World(4)
    opened = Opened(world, DEFAULT)
    open_segments(opened.journal, 1)
    world.runner.advance(599 * SECOND)
    assert not reader(world).chunk(0).is_sealed
    world.runner.advance(2 * SECOND)
    assert reader(world).chunk(0).is_sealed
    before, steps = len(world.trace), opened.steps
    world.runner.advance(24 * 3600 * SECOND)
    assert len(world.trace) == before
    assert opened.steps == steps
    assert reader(world).chunk_indexes() == [0]


def test_book_keeping_alone_does_not_arm_the_rotation() -> None:
    world = World(4)
    opened = Opened(world, DEFAULT)
    opened.journal.append(UploadStarted("manifest/0"), segment_id=MANIFEST_ITSELF, logical_offset=0)
    world.runner.advance(3600 * SECOND)
    assert not reader(world).chunk(0).is_sealed
    opened.close()
    assert reader(world).snapshot_ids() == []


def test_an_idle_log_writes_nothing_however_often_it_is_opened() -> None:
    world = World(5)
    opened = Opened(world, DEFAULT)
    opened.close()
    assert world.disk.steps == 0
    first = Opened(world, DEFAULT)
    open_segments(first.journal, 2)
    first.close()
    before = {name: world.disk.open(f"{FOLDER}/{name}").pread(0, 1 << 20) for name in names(world)}
    for _ in range(5):
        opened = Opened(world, DEFAULT)
        world.runner.advance(3600 * SECOND)
        assert opened.steps <= 2, "woken without a reason"
        opened.close()
        counted = opened.counters.snapshot().counters
        assert (counted["manifest_commits"], counted["manifest_snapshots"]) == (0, 0)
    after = {name: world.disk.open(f"{FOLDER}/{name}").pread(0, 1 << 20) for name in names(world)}
    assert after == before


def test_closing_takes_a_snapshot_and_leaves_the_chunk_open() -> None:
    world = World(6)
    opened = Opened(world)
    open_segments(opened.journal, 2)
    index = opened.journal.index()
    opened.close()
    assert reader(world).snapshot_ids() == [1]
    assert not reader(world).chunk(0).is_sealed
    again = Opened(world)
    assert again.replayed.snapshot is not None
    assert again.replayed.news_count == 0
    assert list(again.journal.index().segments()) == list(index.segments())
    assert again.journal.end.chunk_index == 0
    open_segments(again.journal, 1, first=2)
    again.close()
    assert reader(world).chunk_indexes() == [0]
    assert reader(world).snapshot_ids() == [1, 2]
    assert folded(stored(world)) == replayed(world)


def test_a_marker_names_its_snapshot_and_the_place_it_stands_at() -> None:
    world = World(6)
    journal = Opened(world).journal
    open_segments(journal, 1)
    end = journal.end
    snapshot_id = journal.take_snapshot()
    journal.commit()
    (marker,) = [
        one for one in reader(world).records() if isinstance(one.record.payload, SnapshotMarker)
    ]
    assert marker.record.payload == SnapshotMarker(end.chunk_index, end.offset, snapshot_id)
    assert marker.position == end == reader(world).snapshot(snapshot_id).position


def test_snapshots_come_every_few_chunks_and_two_are_kept() -> None:
    world = World(7)
    opened = Opened(world)
    open_segments(opened.journal, 1)
    for _ in range(100):
        fill(opened.journal, 1000)
        opened.journal.commit()
        world.runner.settle()
    taken = opened.counters.snapshot().counters["manifest_snapshots"]
    chunks = len(reader(world).chunk_indexes())
    assert abs(taken - chunks // SMALL.snapshot_chunks) <= 1
    assert reader(world).snapshot_ids() == [taken - 1, taken]


def test_a_snapshot_that_fails_is_told_and_taken_with_the_next_chunk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(7)
    opened = Opened(world, dataclasses.replace(SMALL, snapshot_chunks=1))
    for number in range(2):
        open_segments(opened.journal, 1, first=number)
        opened.journal.commit()
        if not number:
            world.disk.faults.fail("rename")
        opened.journal.rotate()
        world.runner.settle()
        told = [one for one in caplog.messages if one.startswith("manifest_upkeep_failed ")]
        assert len(told) == 1
        assert FOLDER in told[0]
        assert len(reader(world).snapshot_ids()) == number


def test_pending_uploads_and_deletes_are_in_the_snapshot() -> None:
    world = World(8)
    opened = Opened(world)
    journal = opened.journal
    open_segments(journal, 2)
    journal.append(UploadStarted("key-0"), segment_id=0, logical_offset=0)
    journal.append(UploadDone("key-1", "etag"), segment_id=1, logical_offset=0)
    journal.append(Tier2DeleteQueued("key-1"), segment_id=1, logical_offset=0)
    journal.append(Tier2DeleteQueued("an orphan"), segment_id=1, logical_offset=0)
    before = sorted(map(str, journal.index().reconciliation()))
    opened.close()
    again = Opened(world)
    assert again.replayed.snapshot is not None
    assert sorted(map(str, again.journal.index().reconciliation())) == before
    assert len(before) == 3


def test_a_full_disk_loses_nothing_and_is_tried_again() -> None:
    world = World(9)
    opened = Opened(world)
    open_segments(opened.journal, 1)
    opened.journal.commit()
    world.disk.capacity_bytes = world.disk.used_bytes()
    for _ in range(5):
        fill(opened.journal, 3000)
    with pytest.raises(NoSpace):
        opened.journal.commit()
    assert opened.journal.has_failed is True
    assert opened.counters.snapshot().gauges["manifest_journal_lag_bytes"] > 12_000
    world.runner.advance(10 * SECOND)
    world.disk.capacity_bytes = 1 << 30
    world.runner.advance(10 * SECOND)
    assert opened.counters.snapshot().gauges["manifest_journal_lag_bytes"] == 0
    assert len(stored(world)) == 6
    assert opened.failures == []


def test_after_a_failed_sync_nothing_is_taken_any_more() -> None:
    world = World(10)
    opened = Opened(world)
    open_segments(opened.journal, 1)
    opened.journal.commit()
    world.disk.faults.fail("fdatasync")
    fill(opened.journal, 10)
    with pytest.raises(SyncFailed):
        opened.journal.commit()
    assert len(opened.failures) == 1
    with pytest.raises(Poisoned):
        fill(opened.journal, 10)
    with pytest.raises(DiskError):
        opened.close()
    world.restart(Crash.POWER)
    assert stored(world)[0].payload == SegmentOpened(0, 1)


def test_after_closing_nothing_is_taken() -> None:
    world = World(11)
    opened = Opened(world)
    open_segments(opened.journal, 1)
    opened.close()
    opened.journal.close()
    with pytest.raises(Closed):
        fill(opened.journal, 1)


@pytest.mark.parametrize(
    ("payload", "segment_id"),
    [
        (Unknown(99, b"x"), 0),
        (LocalEvicted(1), 7),
        (SegmentOpened(8, 1), 1),
        (SegmentOpened(0, 1), 1 << 40),
    ],
)
def test_what_a_replay_would_not_believe_is_not_written(payload: Payload, segment_id: int) -> None:
    world = World(13)
    opened = Opened(world)
    open_segments(opened.journal, 1)
    with pytest.raises(InputError):
        opened.journal.append(payload, segment_id=segment_id, logical_offset=0)
    opened.close()
    assert [record.segment_id for record in stored(world)] == [0, MANIFEST_ITSELF]


def test_times_never_fall_even_if_the_clock_does() -> None:
    world = World(12)
    world.clock.advance(3600 * SECOND)
    first = Opened(world)
    open_segments(first.journal, 1)
    first.close()
    world.clock.skew(-1800 * SECOND)
    second = Opened(world)
    journal = second.journal
    journal.append(SealSegment(1, 2, 3, 4, 0), segment_id=0, logical_offset=0)
    second.close()
    times = [record.timestamp_ms for record in stored(world)]
    assert times == sorted(times)
