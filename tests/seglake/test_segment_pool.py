"""Open segments: borrowing, appending, syncing, sealing, and what a failing disk does to them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import pytest

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Closed, NoSpace, Poisoned, SyncFailed, TooManyFiles, WriteFailed
from lakebed.base.files import make_folders
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.seglake import segment_writer
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.model import Chunk
from lakebed.seglake.segment_file import read_sealed, segment_header, walk
from lakebed.seglake.segment_id import segment_id_of, segment_path
from lakebed.seglake.segment_pool import SegmentPool
from tests.fakes.troubled_disk import TroubledDisk
from tests.seglake.segment_worlds import (
    CONFIG,
    FOLDER,
    file_bytes,
    new_world,
    open_reader,
    open_segments,
    record,
    segment_ids,
)


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
def segments(world: World) -> SegmentPool:
    return open_segments(world)


def assert_sealed(world: World, row: SegmentRow, chunks: list[Chunk]) -> None:
    with world.disk.open(segment_path(FOLDER, row.segment_id)) as file:
        sealed = read_sealed(file)
        assert file.size() == row.size
    assert (row.state, row.footer_checksum) == ("SEALED", sealed.checksum)
    assert [(entry.offset, entry.hash) for entry in sealed.entries] == [
        (chunk.offset, chunk.hash) for chunk in chunks
    ]


def test_records_stand_behind_a_header_where_their_chunks_say(
    world: World, segments: SegmentPool
) -> None:
    writer = segments.borrow()
    chunks = [writer.append(*record(0)), *writer.append_synced([record(1), record(2)])]
    data = file_bytes(world.disk, writer.segment_id)
    assert data.startswith(segment_header())
    for number, chunk in enumerate(chunks):
        assert chunk.segment_id == writer.segment_id
        assert (chunk.hash, data[chunk.offset : chunk.offset + chunk.length]) == record(number)
    assert writer.end == writer.durable_end == len(data)


def test_what_was_appended_is_durable_only_after_a_sync(
    world: World, segments: SegmentPool
) -> None:
    writer = segments.borrow()
    writer.append(*record(1))
    assert (writer.durable_end, writer.row.size) == (0, 0)
    writer.sync()
    end = writer.end
    assert writer.row == SegmentRow(
        writer.segment_id, "OPEN", end, None, world.clock.wall_ns() // NS_PER_MS, None
    )
    writer.append(*record(2))
    assert (writer.end > end, writer.durable_end) == (True, end)
    world.restart(Crash.POWER)
    assert len(file_bytes(world.disk, writer.segment_id)) == end


def test_the_first_sync_makes_the_name_of_the_file_durable_too(
    world: World, segments: SegmentPool
) -> None:
    unsynced, synced, written = segments.borrow(), segments.borrow(), segments.borrow()
    unsynced.append(*record(1))
    synced.append_synced([record(2)])
    written.append(*record(3))
    world.restart(Crash.POWER)
    assert synced.segment_id in segment_ids(world.disk)


def test_a_batch_is_one_write_and_one_sync(world: World, segments: SegmentPool) -> None:
    writer = segments.borrow()
    writer.append_synced([record(0)])
    world.trace.clear()
    writer.append_synced([record(number, 900) for number in range(20)])
    assert [line.split()[1] for line in world.trace] == ["pwrite", "fdatasync"]


def test_a_borrowed_segment_is_lent_to_nobody_else(segments: SegmentPool) -> None:
    one, other = segments.borrow(), segments.borrow()
    assert one.segment_id != other.segment_id
    segments.give_back(one)
    assert segments.borrow() is one


def test_the_one_used_last_is_lent_first(segments: SegmentPool) -> None:
    one, other = segments.borrow(), segments.borrow()
    segments.give_back(other)
    segments.give_back(one)
    assert segments.borrow() is one


def test_names_of_segments_sort_by_their_age(world: World, segments: SegmentPool) -> None:
    made = []
    for _ in range(20):
        made.append(segments.borrow().segment_id)
        world.clock.advance(NS_PER_MS)
    assert made == sorted(made) == segment_ids(world.disk)


@pytest.mark.parametrize("name", ["x.seg", "0" * 24, "0" * 23 + ".seg", "A" * 24 + ".seg", ".seg"])
def test_other_files_are_no_segments(name: str) -> None:
    assert segment_id_of(name) is None


def test_a_full_segment_is_sealed_and_not_lent_again(world: World, segments: SegmentPool) -> None:
    writer = segments.borrow()
    chunks: list[Chunk] = []
    fills = []
    for number in range(8):
        chunks += writer.append_synced([record(number, 8 * KIB)])
        fills.append(writer.is_full)
    assert fills == [False] * 7 + [True]
    segments.give_back(writer)
    assert segments.due_in_ns() == 0
    assert segments.borrow() is not writer
    (row,) = segments.seal_due()
    assert_sealed(world, row, chunks)
    assert segments.seal_due() == []


def test_a_segment_of_very_many_records_is_full(
    segments: SegmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "_INDEX_BYTES_MAX", 40 * 10)
    writer = segments.borrow()
    fills = []
    for number in range(10):
        writer.append(*record(number, 1))
        fills.append(writer.is_full)
    assert fills == [False] * 9 + [True]


def test_a_segment_that_nobody_writes_to_is_sealed(world: World, segments: SegmentPool) -> None:
    early, late = segments.borrow(), segments.borrow()
    chunks = early.append_synced([record(1)])
    late.append_synced([record(2)])
    segments.give_back(early)
    world.clock.advance(600 * NS_PER_MS)
    segments.give_back(late)
    assert segments.due_in_ns() == 400 * NS_PER_MS
    assert segments.seal_due() == []
    world.clock.advance(400 * NS_PER_MS)
    (row,) = segments.seal_due()
    assert_sealed(world, row, chunks)
    assert segments.due_in_ns() == 600 * NS_PER_MS
    assert segments.borrow() is late


def test_no_more_idle_segments_are_kept_than_allowed(world: World) -> None:
    segments = open_segments(world, SeglakeConfig(open_segments_max=2))
    writers = [segments.borrow() for _ in range(4)]
    for number, writer in enumerate(writers):
        writer.append_synced([record(number)])
        segments.give_back(writer)
    rows = segments.seal_due()
    assert [row.segment_id for row in rows] == [writer.segment_id for writer in writers[:2]]


def test_a_seal_makes_what_was_not_synced_durable(world: World, segments: SegmentPool) -> None:
    writer = segments.borrow()
    chunks = [writer.append(*record(number)) for number in range(3)]
    segments.give_back(writer)
    (row,) = segments.close()
    world.restart(Crash.POWER)
    assert_sealed(world, row, chunks)


def test_closing_seals_all_and_removes_the_empty(world: World, segments: SegmentPool) -> None:
    full, idle, empty, lent = (segments.borrow() for _ in range(4))
    full.append_synced([record(number, 16 * KIB) for number in range(5)])
    idle.append_synced([record(9)])
    for writer in (full, idle, empty):
        segments.give_back(writer)
    rows = segments.close()
    assert [row.segment_id for row in rows] == [full.segment_id, idle.segment_id]
    assert empty.segment_id not in segment_ids(world.disk)
    assert segments.close() == []
    with pytest.raises(Closed):
        segments.borrow()
    segments.give_back(lent)
    with pytest.raises(Closed):
        lent.append(*record(1))


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite"])
def test_a_failed_write_or_sync_poisons_the_segment_for_good(
    world: World, segments: SegmentPool, operation: str
) -> None:
    writer = segments.borrow()
    (chunk,) = writer.append_synced([record(1)])
    end = writer.durable_end
    world.disk.faults.fail(operation)
    with pytest.raises(SyncFailed if operation == "fdatasync" else WriteFailed):
        writer.append_synced([record(2)])
    for write in (
        partial(writer.append, *record(3)),
        partial(writer.append_synced, [record(3)]),
        writer.sync,
        writer.seal,
    ):
        with pytest.raises(Poisoned):
            write()
    assert (writer.is_poisoned, writer.durable_end, writer.row.size) == (True, end, end)
    segments.give_back(writer)
    assert segments.borrow() is not writer
    assert segments.close() == []
    assert bytes(open_reader(world).read(chunk)) == record(1)[1]


def test_a_failed_sync_of_the_folder_poisons_all_whose_names_it_covered(
    world: World, segments: SegmentPool
) -> None:
    durable = segments.borrow()
    durable.append_synced([record(1)])
    failing, waiting = segments.borrow(), segments.borrow()
    world.disk.faults.fail("fsync")
    with pytest.raises(SyncFailed):
        failing.append_synced([record(2)])
    with pytest.raises(Poisoned):
        waiting.append_synced([record(3)])
    assert failing.durable_end == waiting.durable_end == 0
    durable.append_synced([record(4)])
    segments.borrow().append_synced([record(5)])


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_full_disk_leaves_the_segment_usable(
    world: World, segments: SegmentPool, is_first: bool, is_synced: bool
) -> None:
    writer = segments.borrow()
    chunks = [] if is_first else writer.append_synced([record(1)])
    end = writer.end
    world.disk.capacity_bytes = world.disk.used_bytes() + 4 * KIB
    batch = partial(writer.append_synced, [record(2), record(3, 12 * KIB)])
    single = partial(writer.append, *record(3, 12 * KIB))
    write: Callable[[], object] = batch if is_synced else single
    with pytest.raises(NoSpace):
        write()
    assert (writer.end, writer.is_poisoned) == (end, False)
    world.disk.capacity_bytes = 1 << 40
    chunks += writer.append_synced([record(4, 100)])
    with world.disk.open(segment_path(FOLDER, writer.segment_id)) as file:
        found = walk(file, size=file.size())
    assert [entry.hash for entry, _ in found.entries] == [chunk.hash for chunk in chunks]
    assert (found.end, found.torn, found.damage) == (writer.end, False, [])


def test_a_full_disk_whose_write_cannot_be_undone_poisons(
    world: World, segments: SegmentPool
) -> None:
    writer = segments.borrow()
    writer.append_synced([record(1)])
    world.disk.capacity_bytes = world.disk.used_bytes() + 4 * KIB
    world.disk.faults.fail("truncate", code=errno.ENOSPC)
    with pytest.raises(NoSpace):
        writer.append(*record(3, 12 * KIB))
    assert writer.is_poisoned


def test_a_seal_that_finds_the_disk_full_is_tried_again(
    world: World, segments: SegmentPool
) -> None:
    writer = segments.borrow()
    chunks = writer.append_synced([record(number, 4 * KIB) for number in range(16)])
    segments.give_back(writer)
    world.disk.faults.fail("pwrite", code=errno.ENOSPC)
    assert segments.seal_due() == []
    assert segments.due_in_ns() == NS_PER_S
    world.clock.advance(NS_PER_S)
    (row,) = segments.seal_due()
    assert_sealed(world, row, chunks)


def test_a_seal_that_finds_no_descriptor_is_tried_again_and_written_once(world: World) -> None:
    world.disk = disk = TroubledDisk(world)
    make_folders(disk, FOLDER)
    segments = open_segments(world)
    writer = segments.borrow()
    chunks = [writer.append(*record(1))]
    disk.refused, disk.code = f"{FOLDER}/", errno.EMFILE
    with pytest.raises(TooManyFiles):
        writer.append_synced([record(2)])
    segments.give_back(writer)
    world.clock.advance(CONFIG.segment_idle_ms * NS_PER_MS)
    assert segments.seal_due() == []
    disk.refused = ""
    data_end = len(file_bytes(disk, writer.segment_id))
    world.clock.advance(NS_PER_S)
    (row,) = segments.seal_due()
    assert_sealed(world, row, chunks)
    with disk.open(segment_path(FOLDER, row.segment_id)) as file:
        assert read_sealed(file).data_end == data_end == chunks[-1].offset + chunks[-1].length


def test_a_seal_that_fails_spoils_no_other(world: World, segments: SegmentPool) -> None:
    writers = [segments.borrow() for _ in range(2)]
    for number, writer in enumerate(writers):
        writer.append_synced([record(number)])
        segments.give_back(writer)
    world.disk.faults.fail("fdatasync")
    (row,) = segments.close()
    assert row.segment_id == writers[1].segment_id


@pytest.mark.parametrize("seed", range(5))
def test_many_threads_write_and_every_chunk_is_what_was_written(seed: int) -> None:
    world = new_world(seed)
    segments = open_segments(world, CONFIG)
    written: list[tuple[Chunk, bytes]] = []
    rows: list[SegmentRow] = []

    def write(thread: int) -> None:
        for number in range(8):
            one = record(thread * 100 + number, 5 * KIB)
            writer = segments.borrow()
            chunk = writer.append(*one)
            if number % 2:
                writer.sync()
            segments.give_back(writer)
            written.append((chunk, one[1]))
            rows.extend(segments.seal_due())

    for thread in range(5):
        world.runner.call(f"writer {thread}", partial(write, thread))
    world.runner.run()
    rows.extend(segments.close())
    reader = open_reader(world)
    assert len(written) == 40
    for chunk, data in written:
        assert bytes(reader.read(chunk)) == data
    for row in rows:
        own = [chunk for chunk, _ in written if chunk.segment_id == row.segment_id]
        assert_sealed(world, row, sorted(own, key=lambda chunk: chunk.offset))
    assert sorted(row.segment_id for row in rows) == segment_ids(world.disk)
