"""What is derived is made again, what belongs to nobody is removed, what is not ours stays."""

from __future__ import annotations

import pytest

from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.keratin.headers import Producer
from lakebed.keratin.index_file import load_index, load_time_index
from lakebed.keratin.manifest import load_manifest
from lakebed.keratin.paths import SegmentFile
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    flipped,
    log_path,
    numbered,
    opened,
    replace,
    values,
)

VALUES = list(numbered(240, size=200))


@pytest.fixture(scope="module")
def written() -> World:
    """Several segments with several index entries each, closed."""
    world = World(1)
    partition = opened(world)
    for start in range(0, len(VALUES), 6):
        producer = Producer(7, 0, start)
        append(partition, *VALUES[start : start + 6], producer=producer)
    assert len(partition.segments()) > 3
    partition.close()
    return world


def bases(world: World) -> list[int]:
    return PATHS.bases(world.disk)


def derived(world: World) -> dict[str, bytes]:
    """The indexes and the list of segments, as they stand on the disk."""
    files = {
        PATHS.segment(base, file): content(world.disk, PATHS.segment(base, file))
        for base in bases(world)
        for file in (SegmentFile.INDEX, SegmentFile.TIME_INDEX)
    }
    return {**files, PATHS.manifest: content(world.disk, PATHS.manifest)}


def test_an_empty_partition_has_its_files_and_stays_empty() -> None:
    world = World(1)
    for _ in range(3):
        partition = opened(world)
        assert (partition.start_offset(), partition.high_watermark()) == (0, 0)
        assert not partition.problems
        partition.close()
        world.restart(Crash.POWER)
    names = ["00000000000000000000.idx", "00000000000000000000.log", "00000000000000000000.tidx"]
    assert world.disk.names(PATHS.segments) == names
    assert world.disk.names(PATHS.folder) == ["durable_end", "manifest.bin", "segments"]


def test_sealed_segments_are_not_scanned_if_they_are_as_listed(written: World) -> None:
    world = written.copy()
    path = log_path(bases(world)[0])
    world.disk.flip_bit(path, offset=500)
    partition = opened(world)
    assert not partition.problems, "whoever reads it finds it"
    partition.close()


@pytest.mark.parametrize("file", [SegmentFile.INDEX, SegmentFile.TIME_INDEX])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_an_index_that_is_missing_cut_or_damaged_is_made_again(
    written: World, file: SegmentFile, number: int
) -> None:
    before = derived(written)
    base = bases(written)[number]
    data = before[PATHS.segment(base, file)]
    broken_ones = [None, b"", data[:40], flipped(data, 3), flipped(data, 9)]
    if file is SegmentFile.INDEX or number == -1:
        # How long a sealed `.tidx` was is not listed: readers take what is there.
        broken_ones += [data[:72], data[:-5]]
    for broken in broken_ones:
        world = written.copy()
        if broken is None:
            world.disk.unlink(PATHS.segment(base, file))
        else:
            replace(world.disk, PATHS.segment(base, file), broken)
        partition = opened(world)
        assert values(partition) == VALUES
        assert not partition.problems
        partition.close()
        assert derived(world) == before


def test_indexes_of_the_active_segment_come_back_as_they_were(written: World) -> None:
    world = written.copy()
    base = bases(world)[-1]
    before = derived(world)
    for file in (SegmentFile.INDEX, SegmentFile.TIME_INDEX):
        replace(world.disk, PATHS.segment(base, file), bytes(72 + 160))
    opened(world).close()
    assert derived(world) == before
    places = load_index(world.disk, PATHS.segment(base, SegmentFile.INDEX), base_offset=base)
    times = load_time_index(
        world.disk, PATHS.segment(base, SegmentFile.TIME_INDEX), base_offset=base
    )
    assert [one.relative_offset for one in places] == [one.relative_offset for one in times]
    assert len(places) > 2


def test_a_manifest_that_is_missing_cut_or_damaged_is_made_again(written: World) -> None:
    before = derived(written)
    data = before[PATHS.manifest]
    broken = [data[:length] for length in range(0, len(data), 17)]
    broken += [flipped(data, position, 4) for position in range(0, len(data), 7)]
    broken += [flipped(data, 9, bit) for bit in range(8)]  # of the version
    for number, one in enumerate([None, *broken]):
        world = written.copy()
        if one is None:
            world.disk.unlink(PATHS.manifest)
        else:
            replace(world.disk, PATHS.manifest, one)
        partition = opened(world)
        if number % 5 == 0:
            assert values(partition) == VALUES
        assert partition.high_watermark() == len(VALUES)
        partition.close()
        manifest = load_manifest(world.disk, PATHS.manifest)
        assert manifest.segments == load_manifest(written.disk, PATHS.manifest).segments


@pytest.mark.parametrize("how", ["missing", "cut", "flipped"])
def test_producers_are_found_in_the_logs_if_their_snapshot_is_lost(
    written: World, how: str
) -> None:
    world = written.copy()
    path = PATHS.segment(bases(world)[-1], SegmentFile.PRODUCERS)
    data = content(world.disk, path)
    if how == "missing":
        world.disk.unlink(path)
    else:
        replace(world.disk, path, data[:-1] if how == "cut" else flipped(data, 40))
    partition = opened(world)
    for start in range(0, len(VALUES), 6):
        again = append(partition, *VALUES[start : start + 6], producer=Producer(7, 0, start))
        assert again == start
    assert values(partition) == VALUES
    partition.close()


def test_only_the_newest_snapshot_of_producers_is_kept(written: World) -> None:
    names = [name for name in written.disk.names(PATHS.segments) if name.endswith(".producers")]
    assert names == [f"{bases(written)[-1]:020}.producers"]


def test_files_of_a_segment_without_a_log_are_removed_and_others_are_left_alone(
    written: World,
) -> None:
    world = written.copy()
    strays = ["notes.txt", "1.log", "00000000000000000000.log.bak", "99999999999999999999.log"]
    orphans = [f"{777:020}.{kind}" for kind in ("idx", "tidx", "producers")]
    temporaries = [f"{0:020}.idx.4.tmp", "x.tmp"]
    for name in (*strays, *orphans, *temporaries):
        world.disk.create(f"{PATHS.segments}/{name}").close()
    world.disk.create(f"{PATHS.folder}/manifest.bin.9.tmp").close()
    partition = opened(world)
    assert values(partition) == VALUES
    assert not partition.problems
    partition.close()
    names = world.disk.names(PATHS.segments)
    assert set(strays) <= set(names)
    assert not set(orphans) & set(names)
    assert not [name for name in names if name.endswith(".tmp")]
    assert world.disk.names(PATHS.folder) == ["durable_end", "manifest.bin", "segments"]


def test_what_a_removal_left_behind_is_removed(written: World) -> None:
    world = written.copy()
    first, second = bases(world)[:2]
    kept = {
        PATHS.segment(first, file): content(world.disk, PATHS.segment(first, file))
        for file in (SegmentFile.LOG, SegmentFile.INDEX)
    }
    partition = opened(world)
    assert partition.truncate_before(second + 3) == 1
    partition.close()
    for path, data in kept.items():
        replace(world.disk, path, data)
    partition = opened(world)
    assert partition.start_offset() == second + 3
    assert values(partition) == VALUES[second + 3 :]
    assert not partition.problems
    assert not any(world.disk.exists(path) for path in kept)
    partition.close()


def test_a_header_that_was_never_written_is_written(written: World) -> None:
    world = written.copy()
    base = len(VALUES)
    partition = opened(world)
    partition.seal()
    partition.close()
    for rest in (b"", bytes(10), bytes(68)):
        replace(world.disk, log_path(base), rest)
        world.restart(Crash.KILL)
        partition = opened(world)
        assert values(partition) == VALUES
        assert not partition.problems
        partition.close()
    assert content(world.disk, log_path(base))[:4] == b"KLOG"


def test_opening_counts_the_writers(written: World) -> None:
    world = written.copy()
    epochs = []
    for _ in range(3):
        partition = opened(world)
        partition.close()
        epochs.append(content(world.disk, PATHS.durable_end)[28:36])
    assert epochs == sorted(set(epochs))
