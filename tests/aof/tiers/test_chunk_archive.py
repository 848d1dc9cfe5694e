"""Sealed manifest chunks go to Tier 2, and leave the disk when nothing local needs them."""

from __future__ import annotations

import pytest

from lakebed.aof.manifest.format import FLAG_UPLOADED, MANIFEST_ITSELF, SegmentOpened
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.records import UploadDone, UploadFailed, UploadStarted
from lakebed.aof.tiers.chunk_archive import ChunkArchive
from lakebed.aof.tiers.errors import Unavailable
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from tests.aof.manifest.journals import Opened
from tests.aof.tiers.chaotic_logs import fake_of
from tests.fakes.object_store import FakeObjectStore, Trouble

PREFIX = "aof2/manifest/00000000000000aa/"


def archive_of(journal: Journal, store: FakeObjectStore) -> ChunkArchive:
    return ChunkArchive(journal.reader(), disk=journal.disk, store=store, prefix=PREFIX)


def seal_chunks(journal: Journal, count: int, *, first: int = 0) -> None:
    """That many sealed chunks, and an open one behind them."""
    for number in range(first, first + count):
        journal.append(
            SegmentOpened(number * 100, 1), segment_id=number, logical_offset=number * 100
        )
        journal.rotate()
    journal.append(SegmentOpened(99_999, 1), segment_id=first + count, logical_offset=99_999)
    journal.commit()


def recorded(journal: Journal) -> list[str]:
    """What the manifest log says about the uploads of its chunks."""
    journal.commit()
    records = (placed.record for placed in journal.reader().records())
    kinds = (UploadStarted, UploadDone, UploadFailed)
    own = [r.payload for r in records if r.segment_id == MANIFEST_ITSELF]
    return [type(one).__name__ for one in own if isinstance(one, kinds)]


def test_sealed_chunks_are_uploaded_once_and_the_open_one_is_not() -> None:
    world = World(1)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 3)
    archive = archive_of(opened.journal, store)
    for _ in range(3):
        archive.step(opened.journal)
    assert sorted(store.objects) == [archive.key(index) for index in range(3)]
    assert recorded(opened.journal) == ["UploadStarted", "UploadDone"] * 3
    assert all(store.calls["put", archive.key(index)] == 1 for index in range(3))
    for index in range(3):
        header = opened.journal.reader().chunk(index).header
        assert header is not None
        assert header.flags & FLAG_UPLOADED
    opened.close()


def test_without_a_snapshot_every_chunk_stays() -> None:
    world = World(2)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 1)
    archive_of(opened.journal, store).step(opened.journal)
    assert opened.journal.reader().snapshot_ids() == []
    assert opened.journal.reader().chunk_indexes() == [0, 1]
    opened.close()


def test_the_two_newest_sealed_chunks_stay_and_all_that_a_kept_snapshot_needs() -> None:
    world = World(3)
    store = fake_of(world)
    opened = Opened(world)
    journal, reader = opened.journal, opened.journal.reader()
    archive = archive_of(journal, store)
    seal_chunks(journal, 3)
    journal.take_snapshot()
    seal_chunks(journal, 3, first=10)
    archive.step(journal)
    kept = [reader.snapshot(number).position.chunk_index for number in reader.snapshot_ids()]
    assert reader.chunk_indexes()[0] == min(kept), "the oldest snapshot that is kept begins there"
    journal.take_snapshot()
    journal.take_snapshot()
    archive.step(journal)
    end = journal.end.chunk_index
    assert reader.chunk_indexes() == [end - 2, end - 1, end]
    opened.close()


def test_the_gauge_of_chunks_follows_those_that_are_there() -> None:
    world = World(3)
    opened = Opened(world)
    journal, archive = opened.journal, archive_of(opened.journal, fake_of(world))

    def counted() -> float:
        return opened.counters.snapshot().gauges["manifest_chunks_active"]

    assert counted() == 0
    seal_chunks(journal, 6)
    assert counted() == 7
    journal.take_snapshot()
    journal.take_snapshot()
    archive.step(journal)
    assert counted() == len(journal.reader().chunk_indexes()) == 3
    opened.close()
    assert Opened(world).counters.snapshot().gauges["manifest_chunks_active"] == 3


def test_a_log_whose_old_chunks_are_gone_opens_as_before() -> None:
    world = World(4)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 6)
    opened.journal.take_snapshot()
    opened.journal.take_snapshot()
    archive_of(opened.journal, store).step(opened.journal)
    opened.journal.commit()
    index = opened.journal.index()
    assert opened.journal.reader().chunk_indexes()[0] > 0
    world.restart(Crash.POWER)
    again = Opened(world)
    assert again.journal.index() == index
    assert not again.replayed.damages
    again.close()


def test_a_damaged_chunk_is_not_uploaded_and_stays() -> None:
    world = World(5)
    store = fake_of(world)
    opened = Opened(world)
    journal = opened.journal
    seal_chunks(journal, 5)
    path = journal.reader().paths.chunk(1)
    with world.disk.open(path, writable=True) as file:
        file.pwrite(70, b"\xff\xff\xff")
        file.sync()
    journal.take_snapshot()
    journal.take_snapshot()
    archive = archive_of(journal, store)
    archive.step(journal)
    assert sorted(store.objects) == [archive.key(index) for index in (0, 2, 3, 4)]
    assert 1 in journal.reader().chunk_indexes()
    assert 0 not in journal.reader().chunk_indexes()


def test_a_lost_answer_is_followed_by_a_look_not_by_another_put() -> None:
    world = World(6)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 1)
    archive = archive_of(opened.journal, store)
    store.plan("put", Trouble.LOST_ANSWER)
    with pytest.raises(Unavailable):
        archive.step(opened.journal)
    archive.step(opened.journal)
    archive.step(opened.journal)
    assert store.calls["put", archive.key(0)] == 1
    assert recorded(opened.journal).count("UploadStarted") == 1
    opened.close()


def test_a_failed_upload_is_recorded_and_repeated() -> None:
    world = World(7)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 1)
    archive = archive_of(opened.journal, store)
    store.plan("put", Trouble.UNAVAILABLE)
    with pytest.raises(Unavailable):
        archive.step(opened.journal)
    assert opened.journal.reader().chunk_indexes() == [0, 1]
    archive.step(opened.journal)
    expected = ["UploadStarted", "UploadFailed", "UploadStarted", "UploadDone"]
    assert recorded(opened.journal) == expected
    opened.close()


@pytest.mark.parametrize("harm", ["lost", "another object", "none"])
def test_a_chunk_that_tier_2_lost_is_put_again_as_it_was(harm: str) -> None:
    world = World(9)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 3)
    archive = archive_of(opened.journal, store)
    archive.step(opened.journal)
    objects = {key: (stored.data, stored.metadata) for key, stored in store.objects.items()}
    if harm == "lost":
        store.lose(archive.key(1))
    elif harm == "another object":
        store.put(archive.key(1), BytesSource(b"whatever"), metadata={"crc64": "0" * 16})
    world.restart(Crash.POWER)
    store.runner, puts = world.runner, store.calls["put", archive.key(1)]
    again = Opened(world)
    archive = archive_of(again.journal, store)
    archive.reconcile(again.journal)
    assert {key: (stored.data, stored.metadata) for key, stored in store.objects.items()} == objects
    assert store.calls["put", archive.key(1)] - puts == (harm != "none")
    assert recorded(again.journal).count("UploadDone") == (3 if harm == "none" else 4)
    again.close()


def test_chunks_that_were_not_uploaded_yet_are_no_matter_of_reconciliation() -> None:
    world = World(10)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 2)
    archive_of(opened.journal, store).reconcile(opened.journal)
    assert not store.calls
    opened.close()


@pytest.mark.parametrize("crash", Crash)
def test_after_a_restart_nothing_is_uploaded_again(crash: Crash) -> None:
    world = World(8)
    store = fake_of(world)
    opened = Opened(world)
    seal_chunks(opened.journal, 2)
    archive_of(opened.journal, store).step(opened.journal)
    world.restart(crash)
    store.runner = world.runner
    again = Opened(world)
    archive = archive_of(again.journal, store)
    archive.step(again.journal)
    assert [store.calls["put", archive.key(index)] for index in range(2)] == [1, 1]
    again.close()
