"""What is removed by age, by size and by request; and that it stays removed, and nothing else."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from typing import Any

import pytest

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import NoSpace
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import Faults
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.manifest import load_manifest
from lakebed.keratin.partition import Partition
from lakebed.keratin.paths import SegmentFile
from lakebed.keratin.retention import Candidate, is_wanted, start_after_retention
from lakebed.keratin.topics import Topics
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    flipped,
    opened,
    replace,
    small,
    values,
)

MINUTE_NS = 60 * NS_PER_S
SEGMENTS = [
    Candidate(0, 10, 1000, 100, 100),
    Candidate(10, 20, 1000, 200, 200),
    Candidate(20, 30, 1000, 300, 300),
]


def start(
    now_ms: int = 0,
    segments: Sequence[Candidate] = SEGMENTS,
    *,
    needed: int | None = None,
    **limits: int,
) -> int | None:
    return start_after_retention(
        segments,
        config=TopicConfig(**limits),  # type: ignore[arg-type]
        active_bytes=500,
        now_ms=now_ms,
        is_needed=lambda segment: segment.base_offset == needed,
    )


@pytest.mark.parametrize(
    ("now_ms", "expected"), [(0, None), (150, None), (151, 10), (250, 10), (251, 20), (9999, 30)]
)
def test_segments_older_than_the_limit_go(now_ms: int, expected: int | None) -> None:
    assert start(now_ms, retention_ms=50) == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [(3501, None), (3500, None), (2501, None), (2500, 10), (1500, 20),
                            (500, 30), (1, 30)]
)  # fmt: skip
def test_the_oldest_go_while_as_much_stays_as_the_limit_asks_for(
    limit: int, expected: int | None
) -> None:
    assert start(retention_bytes=limit) == expected


def test_without_limits_nothing_goes() -> None:
    assert start(1 << 50) is None
    assert not is_wanted(TopicConfig())
    assert is_wanted(TopicConfig(retention_ms=1))
    assert is_wanted(TopicConfig(retention_bytes=1))


def test_one_that_is_needed_keeps_all_behind_it() -> None:
    assert start(9999, needed=10, retention_ms=50) == 10
    assert start(9999, needed=0, retention_ms=50) is None


def test_a_timestamp_from_the_future_does_not_outlast_its_sealing() -> None:
    segments = [Candidate(0, 10, 1000, 10**9, 100), *SEGMENTS[1:]]
    assert start(351, segments, retention_ms=50) == 30


def test_a_segment_sealed_while_the_clock_ran_ahead_is_as_old_as_the_next() -> None:
    segments = [Candidate(0, 10, 1000, 10**9, 10**9), *SEGMENTS[1:]]
    assert start(250, segments, retention_ms=50) is None
    assert start(251, segments, retention_ms=50) == 20


def test_old_timestamps_do_not_make_an_earlier_segment_older_than_its_sealing() -> None:
    """A back-fill in the second segment says nothing of the first."""
    segments = [Candidate(0, 10, 1000, 10**9, 10**9), Candidate(10, 20, 1000, 1, 240)]
    assert start(250, segments, retention_ms=50) is None


def test_a_wall_clock_that_ran_ahead_for_a_while_does_not_stop_retention() -> None:
    world = World(1)
    partition = opened(world, retention_ms=150_000)
    world.clock.skew(365 * 24 * 60 * MINUTE_NS)
    append(partition, b"from the future")
    partition.seal()
    world.clock.skew(-365 * 24 * 60 * MINUTE_NS)
    for number in range(4):
        append(partition, b"%d" % number)
        world.clock.advance(MINUTE_NS)
        partition.seal()
    partition.upkeep_step()
    assert values(partition)[0] == b"2"
    partition.close()


def filled(world: World, count: int = 4, **settings: Any) -> Partition:
    """Segments of two messages, a minute apart."""
    partition = opened(world, **settings)
    for number in range(count):
        append(partition, b"%d a" % number, b"%d b" % number)
        world.clock.advance(MINUTE_NS)
        partition.seal()
    return partition


def check_stays(world: World, expected: Sequence[bytes | None], *, start_offset: int) -> None:
    for crash in (Crash.POWER, Crash.KILL):
        world.restart(crash)
        partition = opened(world)
        assert partition.start_offset() == start_offset
        assert values(partition) == list(expected)
        assert not partition.problems
        partition.close()


def test_old_segments_go_when_their_time_has_come() -> None:
    world = World(1)
    partition = filled(world, retention_ms=150_000)
    assert partition.upkeep_step() is not None
    assert values(partition)[0] == b"2 a", "of four, three, two and one minutes ago"
    world.clock.advance(MINUTE_NS)
    partition.upkeep_step()
    assert values(partition) == [b"3 a", b"3 b"]
    world.clock.advance(3600 * NS_PER_S)
    partition.upkeep_step()
    assert values(partition) == []
    assert append(partition, b"next") == 8
    partition.close()
    check_stays(world, [b"next"], start_offset=8)


@pytest.mark.parametrize("stamp", [1 << 60, (1 << 63) - 1])
def test_a_stamp_in_the_future_pins_nothing(stamp: int) -> None:
    world = World(1)
    partition = opened(world, retention_ms=150_000)
    append(partition, b"from the future", timestamps_ms=stamp)
    partition.seal()
    append(partition, b"of today")
    partition.upkeep_step()
    assert len(values(partition)) == 2
    world.clock.advance(3 * MINUTE_NS)
    partition.upkeep_step()
    assert values(partition) == [b"of today"]
    partition.close()


def test_a_stamp_of_the_past_counts() -> None:
    world = World(1)
    partition = opened(world, retention_ms=150_000)
    append(partition, b"old", timestamps_ms=1)
    partition.seal()
    append(partition, b"of today")
    partition.upkeep_step()
    assert values(partition) == [b"of today"]
    partition.close()


@pytest.mark.parametrize("length", [None, 0, 72, 80, 88])
def test_a_time_index_that_is_not_whole_makes_nothing_old(length: int | None) -> None:
    world = World(1)
    partition = opened(world, retention_ms=60_000, index_stride_bytes=256)
    append(partition, bytes(300), timestamps_ms=1)
    append(partition, b"new")
    partition.seal()
    path = PATHS.segment(0, SegmentFile.TIME_INDEX)
    data = content(world.disk, path)
    replace(world.disk, path, flipped(data, 5) if length is None else data[:length])
    partition.upkeep_step()
    assert len(values(partition)) == 2
    world.clock.advance(61 * NS_PER_S)
    partition.upkeep_step()
    assert values(partition) == []
    partition.close()


def test_a_damaged_header_does_not_stop_retention_for_ever() -> None:
    world = World(1)
    partition = filled(world, count=3, retention_ms=60_000)
    world.disk.flip_bit(PATHS.segment(2, SegmentFile.LOG), offset=30)
    partition.upkeep_step()
    world.clock.advance(61 * NS_PER_S)
    partition.upkeep_step()
    assert partition.start_offset() == 6
    partition.close()


def test_by_size_the_oldest_go() -> None:
    world = World(1)
    partition = opened(world, retention_bytes=40 * KIB)
    for _ in range(20):
        append(partition, bytes(8 * KIB))
    partition.upkeep_step()
    total = sum(info.end for info in partition.segments())
    assert 40 * KIB <= total < 60 * KIB
    assert partition.start_offset() == partition.segments()[0].base_offset > 0
    partition.close()


def test_what_is_pinned_stays_and_all_behind_it() -> None:
    world = World(1)
    pinned = {2, 3}
    asked: list[tuple[str, int, int, int]] = []

    def is_pinned(topic: str, partition: int, first: int, behind: int) -> bool:
        asked.append((topic, partition, first, behind))
        return bool(pinned & set(range(first, behind)))

    partition = opened(world, is_pinned=is_pinned, retention_ms=1000)
    for number in range(4):
        append(partition, b"%d a" % number, b"%d b" % number)
        partition.seal()
    world.clock.advance(5 * NS_PER_S)
    partition.upkeep_step()
    assert partition.start_offset() == 2
    assert asked == [("orders", 0, 0, 2), ("orders", 0, 2, 4)]
    pinned.clear()
    world.clock.advance(MINUTE_NS)
    partition.upkeep_step()
    assert partition.start_offset() == 8
    partition.close()


def test_retention_is_driven_by_the_topics_task() -> None:
    world = World(1)
    topics = Topics("/store", disk=world.disk, runner=world.runner, config=small(retention_ms=1000))
    partition = topics.create("orders").partition(0)
    append(partition, b"a")
    partition.seal()
    world.runner.advance(29 * NS_PER_S)
    world.runner.advance(3 * NS_PER_S)
    assert partition.start_offset() == 1
    append(partition, b"b")
    partition.seal()
    world.runner.advance(61 * NS_PER_S)
    assert partition.start_offset() == 2
    topics.close()


@pytest.mark.parametrize("offset", range(9))
def test_messages_before_an_offset_are_removed_for_good(offset: int) -> None:
    world = World(1)
    partition = filled(world)
    everything = values(partition)
    assert partition.truncate_before(offset) == offset // 2
    assert partition.start_offset() == offset
    assert values(partition) == everything[offset:]
    if offset:
        with pytest.raises(OffsetOutOfRange):
            partition.get(offset - 1)
    assert partition.truncate_before(0) == 0, "and never come back"
    assert partition.start_offset() == offset
    bases = [base for base in (0, 2, 4, 6, 8) if base + 2 > offset or base == 8]
    assert PATHS.bases(world.disk) == bases
    partition.close()
    check_stays(world, everything[offset:], start_offset=offset)


def test_more_than_there_is_cannot_be_removed() -> None:
    world = World(1)
    partition = filled(world)
    assert partition.truncate_before(1000) == 4
    assert partition.start_offset() == partition.high_watermark() == 8
    assert append(partition, b"next") == 8
    partition.close()
    check_stays(world, [b"next"], start_offset=8)


def test_a_removal_that_finds_the_disk_full_is_not_done_and_can_be_done_again() -> None:
    world = World(1)
    partition = filled(world)
    world.disk.faults.fail("create", code=errno.ENOSPC)
    with pytest.raises(NoSpace):
        partition.truncate_before(5)
    assert partition.start_offset() == 0
    assert len(values(partition)) == 8
    assert partition.truncate_before(5) == 2
    assert load_manifest(world.disk, PATHS.manifest).start_offset == 5
    partition.close()
    check_stays(world, [b"2 b", b"3 a", b"3 b"], start_offset=5)


def test_a_file_that_cannot_be_removed_is_removed_by_the_next_opening() -> None:
    world = World(1)
    partition = filled(world)
    world.disk.faults.fail("unlink", nth=2)
    assert partition.truncate_before(4) == 2
    world.disk.faults = Faults()
    assert append(partition, b"next") == 8, "writing goes on"
    partition.close()
    assert len(PATHS.files(world.disk)) > 3 * 3
    opened(world).close()
    assert PATHS.bases(world.disk) == [4, 6, 8]


def test_a_crash_at_every_step_of_a_removal_leaves_the_old_start_or_the_new() -> None:
    probe = World(1)
    partition = filled(probe)
    before = probe.disk.steps
    partition.truncate_before(5)
    steps = probe.disk.steps - before
    assert steps > 6
    for step in range(steps + 1):
        for crash, survivors in ((Crash.KILL, 0), (Crash.POWER, 0), (Crash.POWER, 3)):
            world = World(1)
            partition = filled(world)
            everything = values(partition)
            world.disk.faults.crash_at_step = world.disk.steps + step
            with contextlib.suppress(SimulatedCrash):
                partition.truncate_before(5)
            world.restart(crash, survivors=survivors)
            again = opened(world)
            assert again.start_offset() in (0, 5)
            assert values(again) == everything[again.start_offset() :]
            assert not again.problems
            again.close()


def test_the_clock_may_go_back() -> None:
    world = World(1)
    partition = filled(world, retention_ms=150_000)
    world.clock.skew(-3600 * 1000 * NS_PER_MS)
    partition.upkeep_step()
    assert len(values(partition)) == 8
    partition.close()
