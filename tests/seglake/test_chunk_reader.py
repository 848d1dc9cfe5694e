"""Reading chunks: nothing leaves that is not what was stored; and what is kept in memory."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import Closed, DiskError
from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.kernels.disk import real_disk
from lakebed.seglake.chunk_cache import ChunkCache
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged
from lakebed.seglake.model import CHUNK_BYTES, Chunk
from lakebed.seglake.segment_id import segment_path
from lakebed.seglake.segment_pool import SegmentPool
from tests.seglake.segment_worlds import (
    CONFIG,
    FOLDER,
    file_bytes,
    new_world,
    open_reader,
    open_segments,
    put_file,
    record,
)


@pytest.fixture
def world() -> World:
    return new_world()


def write(world: World, *records: tuple[bytes, bytes], is_sealed: bool = False) -> list[Chunk]:
    segments = open_segments(world)
    writer = segments.borrow()
    chunks = writer.append_synced(records)
    if is_sealed:
        segments.give_back(writer)
        segments.close()
    return chunks


@pytest.mark.parametrize("is_sealed", [True, False])
def test_chunks_of_open_and_sealed_segments_are_read_whole(world: World, is_sealed: bool) -> None:
    records = [record(number, size) for number, size in enumerate((1, 1000, 70 * KIB))]
    chunks = write(world, *records, is_sealed=is_sealed)
    reader = open_reader(world)
    for chunk, (_, data) in zip(chunks, records, strict=True):
        view = reader.read(chunk)
        assert bytes(view) == data
        assert view.readonly


def test_a_segment_is_read_while_it_is_appended_to(world: World) -> None:
    segments, reader = open_segments(world), open_reader(world)
    writer = segments.borrow()
    for number in range(5):
        (chunk,) = writer.append_synced([record(number)])
        assert bytes(reader.read(chunk)) == record(number)[1]


@pytest.mark.parametrize("bit", [0, 7])
def test_no_flipped_bit_of_a_record_is_handed_out(world: World, bit: int) -> None:
    before, chunk, behind = write(world, record(0, 50), record(1, 100), record(2, 50))
    path = segment_path(FOLDER, chunk.segment_id)
    reader = open_reader(world)
    for offset in range(chunk.offset - 36, chunk.offset + chunk.length):
        world.disk.flip_bit(path, offset=offset, bit=bit)
        with pytest.raises(Damaged) as caught:
            reader.read(chunk)
        assert (caught.value.path, caught.value.offset) == (path, chunk.offset)
        reader.read(before), reader.read(behind)
        world.disk.flip_bit(path, offset=offset, bit=bit)
    reader.read(chunk)


def test_no_cut_through_a_record_is_handed_out(world: World) -> None:
    before, chunk = write(world, record(0, 50), record(1, 100))
    data = file_bytes(world.disk, chunk.segment_id)
    for size in range(chunk.offset - 36, chunk.offset + chunk.length):
        put_file(world.disk, chunk.segment_id, data[:size])
        reader = open_reader(world)
        with pytest.raises(Damaged, match="ends before the end of the chunk"):
            reader.read(chunk)
        reader.read(before)


def test_a_missing_segment_is_damage(world: World) -> None:
    (chunk,) = write(world, record(1))
    world.disk.unlink(segment_path(FOLDER, chunk.segment_id))
    with pytest.raises(Damaged, match="missing"):
        open_reader(world).read(chunk)


@pytest.mark.parametrize("segment_id", ["../secret", "/secret", "", "\0", "0" * 23 + "G"])
def test_no_segment_id_leads_out_of_the_folder(world: World, segment_id: str) -> None:
    (chunk,) = write(world, record(1))
    with world.disk.create("/secret.seg") as file:
        file.write_and_sync(0, [file_bytes(world.disk, chunk.segment_id)])
    with pytest.raises(Damaged, match="missing"):
        open_reader(world).read(chunk._replace(segment_id=segment_id))


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": 0},
        {"offset": 43},
        {"offset": -1},
        {"length": 0},
        {"length": -1},
        {"length": CHUNK_BYTES + 1},
        {"length": 99},
        {"hash": bytes(32)},
    ],
)
def test_a_manifest_that_is_wrong_about_a_chunk_gets_nothing(
    world: World, wrong: dict[str, int]
) -> None:
    (chunk, _) = write(world, record(1, 100), record(2, 100))
    with pytest.raises(Damaged):
        open_reader(world).read(chunk._replace(**wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "offset", [-(1 << 63), -1, 0, 43, 45, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 64]
)
def test_an_offset_that_cannot_be_is_damage_on_a_real_disk(tmp_path: Path, offset: int) -> None:
    runner = ThreadRunner()
    segments = SegmentPool(
        tmp_path, disk=real_disk(), runner=runner, config=CONFIG, random=Random(1)
    )
    writer = segments.borrow()
    (chunk,) = writer.append_synced([record(1)])
    segments.give_back(writer)
    segments.close()
    reader = ChunkReader(tmp_path, disk=real_disk(), runner=runner, config=CONFIG)
    with pytest.raises(Damaged):
        reader.read(chunk._replace(offset=offset))
    assert bytes(reader.read(chunk)) == record(1)[1]
    reader.close()


class ReplacedFile(RealFile):
    """A file that is parked, and replaced by a copy, just before its descriptor is used."""

    __slots__ = ()

    def descriptor(self) -> int:
        assert self.park(is_urgent=True)
        copy = f"{self.path}.copy"
        shutil.copyfile(self.path, copy)
        os.replace(copy, self.path)
        return super().descriptor()


class ReplacingDisk(RealDisk):
    """Keeps the files that it opened, so that a test can see which are closed."""

    def __init__(self) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self.opened: list[RealFile] = []

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        file = super().open(path, writable=writable)
        file.__class__ = ReplacedFile
        self.opened.append(file)
        return file


def test_a_segment_without_a_descriptor_stays_in_use_by_nothing(tmp_path: Path) -> None:
    runner, disk = ThreadRunner(), ReplacingDisk()
    segments = SegmentPool(
        tmp_path, disk=real_disk(), runner=runner, config=CONFIG, random=Random(1)
    )
    writer = segments.borrow()
    (chunk,) = writer.append_synced([record(1)])
    segments.give_back(writer)
    segments.close()
    reader = ChunkReader(tmp_path, disk=disk, runner=runner, config=CONFIG)
    with pytest.raises(DiskError, match="was replaced while it was open"):
        reader.locate(chunk)
    reader.close()
    [file] = disk.opened
    with pytest.raises(Closed):
        file.size()


def test_an_unreadable_disk_is_no_damage(world: World) -> None:
    (chunk,) = write(world, record(1))
    reader = open_reader(world)
    world.disk.faults.fail("pread")
    with pytest.raises(DiskError):
        reader.read(chunk)
    reader.read(chunk)


def test_a_verified_chunk_is_read_from_memory_the_next_time(world: World) -> None:
    (chunk,) = write(world, record(1))
    reader = open_reader(world, CONFIG)
    reader.read(chunk)
    world.trace.clear()
    assert bytes(reader.read(chunk)) == record(1)[1]
    assert world.trace == []
    with pytest.raises(Damaged):
        reader.read(chunk._replace(length=1))


def test_not_more_segments_are_open_than_allowed(world: World) -> None:
    segments = open_segments(world)
    chunks = [segments.borrow().append_synced([record(number)])[0] for number in range(6)]
    config = SeglakeConfig(open_segments_max=2, cache_bytes=0)
    reader = open_reader(world, config)
    for number in (0, 1, 2, 3, 4, 5, 0, 1):
        assert bytes(reader.read(chunks[number])) == record(number)[1]
    assert len(reader._handles) == 2


def test_a_closed_reader_reads_nothing_but_what_it_gave_stays(world: World) -> None:
    chunk, other = write(world, record(1), record(2))
    reader = open_reader(world)
    view = reader.read(chunk)
    reader.close()
    reader.close()
    assert bytes(view) == record(1)[1]
    with pytest.raises(Closed):
        reader.read(other)


@pytest.mark.parametrize("seed", range(3))
def test_threads_read_the_same_chunks_at_once(seed: int) -> None:
    world = new_world(seed)
    segments = open_segments(world)
    chunks = [segments.borrow().append_synced([record(number)])[0] for number in range(6)]
    config = SeglakeConfig(open_segments_max=2, cache_bytes=8000)
    reader = open_reader(world, config)

    def read(thread: int) -> None:
        for turn in range(12):
            number = (turn * (thread + 1)) % 6
            assert bytes(reader.read(chunks[number])) == record(number)[1]

    calls = [world.runner.call(f"reader {n}", partial(read, n)) for n in range(4)]
    world.runner.run()
    for call in calls:
        call.result()


# What is kept in memory.


def chunks_of(size: int, count: int) -> list[tuple[bytes, memoryview]]:
    return [(number.to_bytes(32, "big"), memoryview(bytes(size))) for number in range(count)]


def new_cache(world: World, bytes_max: int) -> ChunkCache:
    return ChunkCache(bytes_max=bytes_max, mutex=world.runner.mutex())


def test_the_cache_never_takes_more_than_it_may(world: World) -> None:
    cache = new_cache(world, 64 * KIB)
    for key, data in chunks_of(1000, 300):
        cache.add(key, data)
        cache.get(key)
        assert cache.used_bytes <= 64 * KIB
    assert cache.used_bytes > 60 * KIB


def test_one_pass_over_much_leaves_what_is_used_often(world: World) -> None:
    cache = new_cache(world, 64 * KIB)
    often = chunks_of(1000, 20)
    for key, data in often:
        cache.add(key, data)
        assert cache.get(key) is not None
    for key, data in chunks_of(1001, 1000)[100:]:
        cache.add(key, data)
    assert all(cache.get(key) is not None for key, _ in often)


def test_what_is_used_often_now_pushes_out_what_was(world: World) -> None:
    cache = new_cache(world, 64 * KIB)
    all_chunks = chunks_of(1000, 100)
    for key, data in all_chunks:
        cache.add(key, data)
        cache.get(key)
        cache.get(key)
    assert cache.get(all_chunks[0][0]) is None
    assert all(cache.get(key) is not None for key, _ in all_chunks[-30:])


def test_a_cache_of_no_bytes_keeps_nothing(world: World) -> None:
    cache = new_cache(world, 0)
    cache.add(b"k" * 32, memoryview(b""))
    assert cache.get(b"k" * 32) is None
    assert cache.used_bytes == 0


def test_what_is_larger_than_the_part_for_new_ones_is_not_kept(world: World) -> None:
    cache = new_cache(world, 8 * KIB)
    cache.add(b"small" + bytes(27), memoryview(bytes(100)))
    cache.add(b"large" + bytes(27), memoryview(bytes(3 * KIB)))
    assert cache.get(b"small" + bytes(27)) is not None
    assert cache.get(b"large" + bytes(27)) is None
