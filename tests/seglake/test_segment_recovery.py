"""Recovery: what a crash left open is sealed, what is damaged is saved and told, nothing is lost.

The crash at every step is in `test_crash_of_segments`.
"""

from __future__ import annotations

import errno

import pytest

from lakebed.base.files import make_folders
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.units import KIB
from lakebed.kernels.checksum import blake3
from lakebed.seglake.errors import Damaged
from lakebed.seglake.format import IndexEntry
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.model import Chunk
from lakebed.seglake.segment_file import Damage, SealedSegment, read_sealed, seal_block
from lakebed.seglake.segment_id import segment_path
from lakebed.seglake.segment_recovery import RecoveredSegments
from lakebed.seglake.segment_writer import SegmentWriter
from tests.seglake.segment_worlds import (
    FOLDER,
    file_bytes,
    new_world,
    open_reader,
    open_segments,
    put_file,
    quarantined,
    record,
    recover,
    segment_ids,
)

pytestmark = pytest.mark.thorough

NOTHING = RecoveredSegments([], [], [])
SIZES = (100, 700, 1, 300)


class Left:
    """A segment with four records, of which a row confirms the first two, left by a crash."""

    def __init__(self, *, confirmed_count: int = 2) -> None:
        self.world = new_world()
        segments = open_segments(self.world)
        self.writer: SegmentWriter = segments.borrow()
        self.records = [record(number, size) for number, size in enumerate(SIZES)]
        self.chunks: list[Chunk] = []
        self.rows: dict[str, SegmentRow] = {}
        for number, one in enumerate(self.records):
            self.chunks += self.writer.append_synced([one])
            if number + 1 == confirmed_count:
                self.rows[self.segment_id] = self.writer.row
        self.world.restart(Crash.KILL)

    @property
    def segment_id(self) -> str:
        return self.writer.segment_id

    @property
    def path(self) -> str:
        return segment_path(FOLDER, self.segment_id)

    def data(self) -> bytes:
        return file_bytes(self.world.disk, self.segment_id)

    def recover(self, *, offsets: bool = False) -> RecoveredSegments:
        known = tuple(chunk.offset for chunk in self.chunks) if offsets else ()
        return recover(self.world, self.rows, known)

    def sealed(self) -> SealedSegment:
        """As it is after a power loss; it must be what the row says."""
        self.world.restart(Crash.POWER)
        with self.world.disk.open(self.path) as file:
            sealed = read_sealed(file)
            row = self.rows[self.segment_id]
            assert (row.state, row.footer_checksum) == ("SEALED", sealed.checksum)
            assert row.size == file.size()
        return sealed

    def whole(self) -> list[int]:
        """The numbers of the chunks that can be read; the others are known to be damaged."""
        reader = open_reader(self.world)
        found = []
        for number, chunk in enumerate(self.chunks):
            try:
                assert bytes(reader.read(chunk)) == self.records[number][1]
                found.append(number)
            except Damaged:
                pass
        return found

    def indexed(self) -> list[int]:
        offsets = [chunk.offset for chunk in self.chunks]
        return [offsets.index(entry.offset) for entry in self.sealed().entries]


@pytest.mark.parametrize("confirmed_count", range(5))
def test_an_open_segment_is_sealed_with_all_its_whole_records(confirmed_count: int) -> None:
    left = Left(confirmed_count=confirmed_count)
    found = left.recover()
    assert (len(found.rows), found.removed, found.damage) == (1, [], [])
    assert left.indexed() == left.whole() == [0, 1, 2, 3]
    assert found.rows[0].created_ms == left.writer.row.created_ms
    assert left.recover() == NOTHING


@pytest.mark.parametrize("confirmed_count", [0, 2])
def test_every_torn_tail_is_cut_and_sealed(confirmed_count: int) -> None:
    data = Left().data()
    last = Left().chunks[3]
    for size in range(last.offset - 36, last.offset + last.length):
        left = Left(confirmed_count=confirmed_count)
        put_file(left.world.disk, left.segment_id, data[:size])
        assert left.recover().damage == []
        assert left.indexed() == left.whole() == [0, 1, 2]
        assert left.sealed().data_end == last.offset - 36


def test_a_footer_cut_anywhere_is_written_again_and_the_same() -> None:
    done = Left()
    done.recover()
    sealed, data_end = done.data(), done.sealed().data_end
    for size in range(data_end, len(sealed) + 1):
        left = Left()
        put_file(left.world.disk, left.segment_id, sealed[:size])
        assert left.recover().rows[0] == done.rows[done.segment_id]
        assert left.data() == sealed


def test_bytes_behind_a_footer_are_cut() -> None:
    done = Left()
    done.recover()
    for rest in (b"\0", b"x" * 5000, bytes(5000)):
        left = Left()
        put_file(left.world.disk, left.segment_id, done.data() + rest)
        left.recover()
        assert left.data() == done.data()


def test_an_object_that_looks_like_a_footer_does_not_seal_its_segment() -> None:
    left = Left(confirmed_count=0)
    start = len(left.data()) + 36
    forged = seal_block([IndexEntry(44, bytes(range(32)))], data_end=start).data
    segments = open_segments(left.world, seed=7)
    writer = segments.borrow()
    for one in left.records:
        writer.append(*one)
    writer.append_synced([(blake3(forged), forged)])
    with left.world.disk.open(segment_path(FOLDER, writer.segment_id)) as file:
        assert len(read_sealed(file).entries) == 1  # it would be believed
    left.recover()
    with left.world.disk.open(segment_path(FOLDER, writer.segment_id)) as file:
        assert len(read_sealed(file).entries) == 5


def test_a_file_without_a_row_and_without_a_record_is_removed() -> None:
    whole = Left(confirmed_count=0)
    for size in range(whole.chunks[0].offset + whole.chunks[0].length):
        left = Left(confirmed_count=0)
        put_file(left.world.disk, left.segment_id, whole.data()[:size])
        assert left.recover() == RecoveredSegments([], [left.segment_id], [])
        left.world.restart(Crash.POWER)
        assert segment_ids(left.world.disk) == []


def test_bytes_that_only_the_page_cache_has_are_written_again() -> None:
    world = new_world()
    writer = open_segments(world).borrow()
    (confirmed,) = writer.append_synced([record(1, 3000)])
    rows = {writer.segment_id: writer.row}
    chunk = writer.append(*record(2, 3000))
    world.disk.faults.fail("fdatasync", after=AfterFailedSync.KEPT)
    with pytest.raises(Exception, match="fdatasync"):
        writer.sync()
    recover(world, rows)
    world.restart(Crash.POWER)
    reader = open_reader(world)
    assert bytes(reader.read(confirmed)) == record(1, 3000)[1]
    assert bytes(reader.read(chunk)) == record(2, 3000)[1]


# Damage.


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("into", [-36, -1, 0, 50])
def test_damage_below_the_confirmed_end_is_saved_and_told_and_the_rest_stays(
    number: int, into: int
) -> None:
    left = Left()
    chunk = left.chunks[number]
    left.world.disk.flip_bit(left.path, offset=chunk.offset + into, bit=3)
    before = left.data()
    found = left.recover(offsets=True)
    ((segment_id, damage),) = found.damage
    assert segment_id == left.segment_id
    start = chunk.offset - 36
    assert (damage.offset, damage.length) == (start, 36 + chunk.length)
    assert left.indexed() == left.whole() == [n for n in range(4) if n != number]
    assert left.data().startswith(before)
    bad = before[start : chunk.offset + chunk.length]
    assert list(quarantined(left.world.disk)) == [(f"segment-{segment_id}-{start}.bin", bad)]
    assert left.recover() == NOTHING


def test_damage_at_the_confirmed_end_is_not_cut() -> None:
    left = Left(confirmed_count=4)
    left.world.disk.flip_bit(left.path, offset=left.chunks[3].offset + 10)
    before = left.data()
    assert len(left.recover().damage) == 1
    assert left.data().startswith(before)
    assert left.indexed() == [0, 1, 2]


def test_bad_bytes_above_the_confirmed_end_were_promised_to_nobody() -> None:
    left = Left()
    left.world.disk.flip_bit(left.path, offset=left.chunks[2].offset)
    assert left.recover().damage == []
    assert left.indexed() == left.whole() == [0, 1, 3]
    assert list(quarantined(left.world.disk)) == []


@pytest.mark.parametrize("confirmed_count", [0, 2])
def test_a_wrong_header_is_mended(confirmed_count: int) -> None:
    left = Left(confirmed_count=confirmed_count)
    left.world.disk.flip_bit(left.path, offset=0)
    assert len(left.recover().damage) == (1 if confirmed_count else 0)
    assert left.indexed() == left.whole() == [0, 1, 2, 3]


def test_a_segment_of_a_newer_version_is_left_alone() -> None:
    left = Left()
    left.world.disk.flip_bit(left.path, offset=4, bit=1)
    before = left.data()
    found = left.recover()
    assert (found.rows, found.removed, len(found.damage)) == ([], [], 1)
    assert left.data() == before
    assert left.whole() == [0, 1, 2, 3]


def test_a_file_shorter_than_what_was_confirmed_is_damage() -> None:
    left = Left(confirmed_count=4)
    cut = left.chunks[2].offset
    put_file(left.world.disk, left.segment_id, left.data()[:cut])
    assert left.recover().damage
    assert left.indexed() == left.whole() == [0, 1]


def test_an_open_segment_whose_file_is_missing_is_told_each_time_until_it_is_back() -> None:
    left = Left()
    data = left.data()
    left.world.disk.unlink(left.path)
    missing = Damage(0, left.rows[left.segment_id].size, "the file is missing")
    for _ in range(2):
        assert left.recover() == RecoveredSegments([], [], [(left.segment_id, missing)])
    put_file(left.world.disk, left.segment_id, data)
    assert left.recover().damage == []
    assert left.indexed() == [0, 1, 2, 3]


def test_a_sealed_segment_that_is_missing_or_resized_is_told_and_left_alone() -> None:
    left = Left()
    left.recover()
    size = left.rows[left.segment_id].size
    for change in (-10, 10):
        resized = left.data()[: size - 10] if change < 0 else left.data() + bytes(10)
        left.world.disk.unlink(left.path)
        put_file(left.world.disk, left.segment_id, resized)
        ((_, damage),) = left.recover().damage
        assert (damage.offset, damage.length) == (min(size, size + change), 10)
        assert left.data() == resized
        put_file(left.world.disk, left.segment_id, resized[:size].ljust(size))
    left.world.disk.unlink(left.path)
    assert left.recover().damage == [(left.segment_id, Damage(0, size, "the file is missing"))]


def test_sealed_segments_are_not_read() -> None:
    left = Left()
    left.recover()
    left.world.disk.flip_bit(left.path, offset=60)
    assert left.recover() == NOTHING


def test_other_files_are_left_alone() -> None:
    left = Left()
    left.world.disk.create(f"{FOLDER}/notes.txt").close()
    left.recover()
    assert "notes.txt" in left.world.disk.names(FOLDER)


# A disk that fails.


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync", "pread", "open"])
def test_a_segment_that_cannot_be_sealed_now_is_sealed_the_next_time(operation: str) -> None:
    left = Left()
    left.world.disk.faults.fail(operation)
    found = left.recover()
    assert (found.rows, len(found.damage)) == ([], 1)
    assert left.whole()[:2] == [0, 1]
    left.world.restart(Crash.KILL)
    assert left.recover().damage == []
    assert left.indexed() == [0, 1, 2, 3]


def test_a_full_disk_keeps_nobody_from_opening() -> None:
    left = Left()
    left.world.disk.faults.fail("pwrite", code=errno.ENOSPC)
    assert left.recover() == NOTHING
    assert left.whole() == [0, 1, 2, 3]
    assert len(left.recover().rows) == 1


@pytest.mark.parametrize("operation", ["mkdir", "create", "pwrite"])
def test_damage_that_cannot_be_saved_on_a_full_disk_is_reported(operation: str) -> None:
    left = Left(confirmed_count=4)
    for number in (0, 2):
        left.world.disk.flip_bit(left.path, offset=left.chunks[number].offset)
    left.world.disk.faults.fail(operation, code=errno.ENOSPC)
    found = left.recover(offsets=True)
    starts = [left.chunks[number].offset - 36 for number in (0, 2)]
    assert [damage.offset for _, damage in found.damage] == starts
    assert (found.rows, list(quarantined(left.world.disk))) == ([], [])
    later = left.recover(offsets=True)
    assert later.damage == found.damage
    assert left.indexed() == left.whole() == [1, 3]
    assert len(list(quarantined(left.world.disk))) == 2


def test_a_long_segment_is_recovered_in_windows() -> None:
    world = new_world()
    make_folders(world.disk, FOLDER)
    writer = open_segments(world).borrow()
    writer.append_synced([record(number, 3000 * KIB) for number in range(4)])
    rows: dict[str, SegmentRow] = {}
    data = file_bytes(world.disk, writer.segment_id)
    (row,) = recover(world, rows).rows
    world.restart(Crash.POWER)
    assert file_bytes(world.disk, writer.segment_id).startswith(data)
    assert row.size > len(data)
