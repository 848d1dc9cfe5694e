"""Sealed segments, damaged and missing, with a manifest and without: what is whole stays."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.headers import Producer
from lakebed.keratin.manifest import load_manifest, replace_manifest
from lakebed.keratin.partition_verification import verify_partition
from lakebed.keratin.paths import SegmentFile
from lakebed.kernels import keratin_scan
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    flipped,
    log_path,
    messages,
    opened,
    quarantined,
    replace,
    values,
)
from tests.keratin.test_small_files import newer

pytestmark = pytest.mark.thorough

VALUES = [b"message %d" % number for number in range(12)]
BASES = [0, 4, 8]  # the last one is active


class Written(NamedTuple):
    """Two sealed segments of four messages and an active one, closed."""

    world: World
    log: bytes  # of the second segment
    ends: list[int]

    def twin(self, log: bytes | None = None, *, has_manifest: bool = True) -> World:
        world = self.world.copy()
        if log is not None:
            replace(world.disk, log_path(4), log)
        if not has_manifest:
            world.disk.unlink(PATHS.manifest)
        return world

    def lost(self, position: int) -> int:
        """Which message of the second segment a byte belongs to."""
        return sum(end <= position for end in self.ends)


@pytest.fixture(scope="module")
def written() -> Written:
    world = World(1)
    partition = opened(world)
    for number, value in enumerate(VALUES):
        if number in BASES[1:]:
            partition.seal()
        append(partition, value, producer=Producer(7, 0, number))
    partition.close()
    log = content(world.disk, log_path(4))
    found = keratin_scan(memoryview(log), RECORDS_START, len(log), count_max=9)
    return Written(world, log, [*list(found.positions)[1:], len(log)])


def check_goes_on(world: World, expected: list[bytes]) -> None:
    """Opened once more nothing is wrong with it, and it goes on where it ended."""
    partition = opened(world)
    assert append(partition, b"the next one") == len(VALUES)
    assert append(partition, VALUES[11], producer=Producer(7, 0, 11)) == 11, "still recognised"
    partition.close()
    world.restart(Crash.POWER)
    partition = opened(world)
    assert values(partition) == [*expected, b"the next one"]
    assert not partition.problems
    partition.close()


def test_nothing_is_wrong_with_what_was_closed(written: Written) -> None:
    world = written.twin()
    partition = opened(world)
    assert values(partition) == VALUES
    assert not partition.problems
    assert [info.base_offset for info in partition.segments()] == BASES
    partition.close()
    check_goes_on(world, VALUES)


@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_sealed_log_that_was_cut_anywhere_loses_what_was_cut(
    written: Written, has_manifest: bool
) -> None:
    for length in sorted({*range(0, len(written.log), 7), RECORDS_START, *written.ends[:-1]}):
        cut = written.log[:length]
        world = written.twin(cut, has_manifest=has_manifest)
        partition = opened(world)
        lost = written.lost(length)
        expected = [*VALUES[: 4 + lost], *VALUES[8:]]
        assert values(partition) == expected
        assert any(log_path(4) in text for text in partition.problems), "never silently"
        end = written.ends[lost - 1] if lost else RECORDS_START
        saved = [cut[end:]] if length > end else []
        if length < RECORDS_START:
            saved = [cut] if cut else []
        saved = [one.rstrip(b"\0") if length > end else one for one in saved]
        assert quarantined(world.disk) == saved
        partition.close()
        check_goes_on(world, expected)


@pytest.mark.sweep
def test_a_flipped_bit_in_a_sealed_log_is_told_and_saved(written: Written) -> None:
    for position in range(len(written.log)):
        damaged = flipped(written.log, position, position % 8)
        world = written.twin(damaged, has_manifest=False)
        partition = opened(world)
        assert any(log_path(4) in text for text in partition.problems), "never silently"
        expected = VALUES
        saved = damaged[:RECORDS_START]
        if position >= RECORDS_START:
            lost = written.lost(position)
            expected = [*VALUES[: 4 + lost], *VALUES[5 + lost :]]
            start = written.ends[lost - 1] if lost else RECORDS_START
            saved = damaged[start : written.ends[lost]]
            assert any(f"at byte {start}" in text for text in partition.problems)
        assert values(partition) == expected
        assert quarantined(world.disk) == [saved]
        partition.close()
        if position % 5 == 0:
            check_goes_on(world, expected)


def test_a_flipped_bit_that_the_manifest_cannot_tell_is_found_by_who_reads_it(
    written: Written,
) -> None:
    world = written.twin(flipped(written.log, written.ends[0] + 40))
    partition = opened(world)
    assert not partition.problems
    with pytest.raises(Corrupt, match=f"{log_path(4)}: at byte {written.ends[0]}"):
        values(partition)
    assert partition.get(4).value == VALUES[4]
    assert partition.get(6).value == VALUES[6]
    partition.close()


def test_bytes_behind_a_sealed_log_are_saved(written: Written) -> None:
    for rest in (b"\1", written.log[RECORDS_START : written.ends[0]], b"KR\0\1" * 9):
        for has_manifest in (True, False):
            world = written.twin(written.log + rest, has_manifest=has_manifest)
            partition = opened(world)
            assert values(partition) == VALUES
            assert partition.problems
            assert quarantined(world.disk) == [rest]
            partition.close()
            check_goes_on(world, VALUES)


def test_zeros_behind_a_log_that_a_crash_sealed_are_no_loss(written: Written) -> None:
    world = written.twin(written.log + bytes(5000), has_manifest=False)
    partition = opened(world)
    assert not partition.problems
    assert values(partition) == VALUES
    partition.close()
    check_goes_on(world, VALUES)


@pytest.mark.parametrize("base", BASES[:2])
def test_a_missing_segment_is_told_with_its_offsets(written: Written, base: int) -> None:
    world = written.twin()
    world.disk.unlink(log_path(base))
    partition = opened(world)
    expected = [value for number, value in enumerate(VALUES) if not base <= number < base + 4]
    assert any(f"offsets {base} to {base + 3} are lost" in text for text in partition.problems)
    assert [message.offset for message in messages(partition)] == [
        number for number in range(12) if not base <= number < base + 4
    ]
    partition.close()
    check_goes_on(world, expected)


def test_a_missing_active_segment_is_told_and_its_offsets_are_not_used_again(
    written: Written,
) -> None:
    world = written.twin()
    world.disk.unlink(log_path(8))
    partition = opened(world)
    assert any("segment 8 is missing" in text for text in partition.problems)
    assert values(partition) == VALUES[:8]
    assert append(partition, b"the next one") == 12
    partition.close()


def test_a_missing_active_segment_is_told_without_a_manifest_too(written: Written) -> None:
    """By the durable end."""
    world = written.twin(has_manifest=False)
    world.disk.unlink(log_path(8))
    partition = opened(world)
    assert any("offsets 8 to 11" in text for text in partition.problems)
    assert append(partition, b"the next one") == 12
    assert values(partition) == [*VALUES[:8], b"the next one"]
    partition.close()


def test_a_missing_segment_that_an_old_manifest_has_as_the_active_one_is_told(
    written: Written,
) -> None:
    world = written.twin()
    manifest = load_manifest(world.disk, PATHS.manifest)
    older = manifest._replace(
        segments=manifest.segments[:1], active_base_offset=BASES[1], next_offset=BASES[1]
    )
    replace_manifest(world.disk, PATHS.manifest, older)
    world.disk.unlink(log_path(BASES[1]))
    assert verify_partition(world.disk, PATHS).lost_offsets == ((BASES[1], BASES[2]),)
    partition = opened(world)
    assert any("offsets 4 to 7 are lost" in text for text in partition.problems)
    assert values(partition) == [*VALUES[:4], *VALUES[8:]]
    partition.close()


def test_a_manifest_from_before_the_last_rolls_is_brought_up_to_date(written: Written) -> None:
    for kept in range(3):
        world = written.twin()
        manifest = load_manifest(world.disk, PATHS.manifest)
        older = manifest._replace(
            segments=manifest.segments[:kept], active_base_offset=BASES[kept], next_offset=kept
        )
        replace_manifest(world.disk, PATHS.manifest, older)
        partition = opened(world)
        assert values(partition) == VALUES
        assert not partition.problems
        partition.close()
        assert load_manifest(world.disk, PATHS.manifest).segments == manifest.segments
        check_goes_on(world, VALUES)


def test_the_next_offset_is_the_larger_of_manifest_and_log(written: Written) -> None:
    world = written.twin()
    manifest = load_manifest(world.disk, PATHS.manifest)
    replace_manifest(world.disk, PATHS.manifest, manifest._replace(next_offset=20))
    partition = opened(world)
    assert any("offsets 12 to 19 were assigned" in text for text in partition.problems)
    assert append(partition, b"the next one") == 20
    partition.close()
    world.restart(Crash.POWER)
    partition = opened(world)
    assert values(partition) == [*VALUES, b"the next one"]
    assert not partition.problems
    partition.close()


@pytest.mark.parametrize("file", [SegmentFile.LOG, SegmentFile.PRODUCERS])
def test_a_newer_version_is_not_opened(written: Written, file: SegmentFile) -> None:
    world = written.twin(has_manifest=False)
    base = BASES[2]
    data = newer(f"segment.{file.value}", with_longer_header=True)
    replace(world.disk, PATHS.segment(base, file), data)
    before = content(world.disk, log_path(base))
    with pytest.raises(UnknownVersion):
        opened(world)
    assert content(world.disk, log_path(base)) == before


def test_a_newer_manifest_or_durable_end_is_not_opened(written: Written) -> None:
    for path, name in ((PATHS.manifest, "manifest.bin"), (PATHS.durable_end, "durable_end")):
        world = written.twin()
        replace(world.disk, path, newer(name, with_longer_header=False))
        with pytest.raises(UnknownVersion):
            opened(world)
