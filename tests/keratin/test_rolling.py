"""Segments: when one ends and the next begins, what stands beside them, and a roll cut short."""

from __future__ import annotations

import errno

import pytest

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import LakebedError, NoSpace
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import Faults
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import Ack
from lakebed.keratin.format import LOG_HEADER, RECORDS_START, IndexEntry, record_bytes
from lakebed.keratin.headers import Producer
from lakebed.keratin.index_file import load_index, load_time_index
from lakebed.keratin.log_file import decode_log_header
from lakebed.keratin.manifest import load_manifest
from lakebed.keratin.paths import SegmentFile
from lakebed.keratin.segment_files import ENTRIES_AT_ONCE
from lakebed.keratin.topics import Topics
from lakebed.kernels import keratin_scan
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    log_path,
    numbered,
    opened,
    replace,
    small,
    values,
)

DAY_NS = 24 * 3600 * NS_PER_S

SIZE = record_bytes(0, 1000)


def test_a_segment_ends_before_the_append_that_does_not_fit() -> None:
    world = World(1)
    partition = opened(world)
    fitting = (16 * KIB - RECORDS_START) // SIZE
    for _ in range(fitting):
        append(partition, bytes(1000))
    assert len(partition.segments()) == 1
    append(partition, bytes(1000))
    sealed, active = partition.segments()
    assert (sealed.base_offset, sealed.next_offset, sealed.is_sealed) == (0, fitting, True)
    assert active.base_offset == fitting
    assert sealed.end == len(content(world.disk, log_path(0))) <= 16 * KIB
    partition.close()


def test_an_append_stays_together_in_one_segment() -> None:
    world = World(1)
    partition = opened(world)
    append(partition, bytes(10 * KIB))
    append(partition, *[bytes(KIB)] * 10)
    assert [info.base_offset for info in partition.segments()] == [0, 1]
    partition.close()


def test_a_message_larger_than_a_segment_has_one_of_its_own() -> None:
    world = World(1)
    partition = opened(world)
    large = bytes(range(256)) * 400
    append(partition, large)
    assert len(partition.segments()) == 1, "an empty segment is not sealed"
    append(partition, b"small")
    append(partition, large)
    assert [info.base_offset for info in partition.segments()] == [0, 1, 2]
    partition.close()
    again = opened(world)
    assert values(again) == [large, b"small", large]
    again.close()


def test_sealing_by_hand_needs_a_record() -> None:
    world = World(1)
    partition = opened(world)
    assert not partition.seal()
    append(partition, b"a")
    assert partition.seal()
    assert not partition.seal()
    assert [info.base_offset for info in partition.segments()] == [0, 1]
    partition.close()


def test_what_was_only_written_is_durable_before_the_next_segment_begins() -> None:
    world = World(1)
    partition = opened(world, ack="after_write")
    append(partition, b"hasty")
    partition.seal()
    assert partition.high_watermark() == 1
    world.restart(Crash.POWER)
    again = opened(world)
    assert values(again) == [b"hasty"]
    again.close()


def test_a_sealed_segment_is_cut_to_its_records_and_listed() -> None:
    world = World(1)
    partition = opened(world)
    append(partition, b"a", b"b")
    path = log_path(0)
    with world.disk.open(path, writable=True) as file:
        file.zero_fill(file.size(), 8 * KIB)  # as ahead of a busy partition's end
        file.sync()
    partition.seal()
    log = content(world.disk, path)
    assert len(log) == RECORDS_START + 2 * record_bytes(0, 1)
    header = decode_log_header(log[: LOG_HEADER.size], path=path, base_offset=0)
    assert header.created_ms == world.clock.wall_ns() // 1_000_000
    manifest = load_manifest(world.disk, PATHS.manifest)
    index_bytes = len(content(world.disk, PATHS.segment(0, SegmentFile.INDEX)))
    assert [tuple(one) for one in manifest.segments] == [(0, 1, len(log), index_bytes)]
    assert manifest.active_base_offset == manifest.next_offset == 2
    world.restart(Crash.POWER)
    assert content(world.disk, path) == log, "its length is durable, too"


@pytest.mark.parametrize("is_sealed", [True, False])
def test_index_entries_stand_a_stride_apart_and_lead_to_records(is_sealed: bool) -> None:
    world = World(1)
    partition = opened(world, segment_bytes=64 * KIB)
    stamps = [(number * 7919) % 1000 for number in range(120)]
    for start in range(0, 120, 8):
        append(partition, *numbered(8, size=300), timestamps_ms=stamps[start : start + 8])
    for moment in (0, 500, 995, 1001):
        first = next((n for n, stamp in enumerate(stamps) if stamp >= moment), 120)
        assert partition.offset_for_time(moment) == first
    if is_sealed:
        partition.seal()
    partition.close()
    log = content(world.disk, log_path(0))
    scan = keratin_scan(memoryview(log), RECORDS_START, len(log), count_max=1000)
    positions = dict(zip(scan.offsets, scan.positions, strict=True))
    places = load_index(world.disk, PATHS.segment(0, SegmentFile.INDEX), base_offset=0)
    times = load_time_index(world.disk, PATHS.segment(0, SegmentFile.TIME_INDEX), base_offset=0)
    assert len(places) >= len(log) // (2 * KIB)
    for place in places:
        assert positions[place.relative_offset] == place.position
    for time in times:
        assert time.timestamp_ms == max(stamps[: time.relative_offset + 1])
    if is_sealed:
        assert (times[-1].relative_offset, times[-1].timestamp_ms) == (119, max(stamps))


def test_index_entries_are_written_many_at_once_and_the_last_ones_at_the_end() -> None:
    world = World(1)
    partition = opened(world, segment_bytes=256 * KIB)
    in_file: list[int] = []
    for _ in range(3 * ENTRIES_AT_ONCE // 2):
        append(partition, bytes(KIB))
        in_file.append(len(places_of_first(world)))
    assert in_file[ENTRIES_AT_ONCE - 2] == 0
    assert set(in_file[ENTRIES_AT_ONCE - 1 :]) == {ENTRIES_AT_ONCE}
    partition.close()
    assert [entry.relative_offset for entry in places_of_first(world)] == [*range(96)]


@pytest.mark.parametrize("crash", list(Crash))
def test_entries_that_a_crash_took_along_are_made_again(crash: Crash) -> None:
    world = World(1)
    partition = opened(world)
    append(partition, *numbered(40, size=200))
    world.restart(crash)
    partition = opened(world)
    assert len(places_of_first(world)) == 40 * record_bytes(0, 200) // 1180
    assert [partition.get(offset).offset for offset in range(40)] == [*range(40)]
    partition.close()


def test_an_index_that_cannot_be_written_is_completed_when_the_segment_is_sealed() -> None:
    world = World(1)
    partition = opened(world, segment_bytes=256 * KIB)
    for _ in range(ENTRIES_AT_ONCE - 1):
        append(partition, bytes(KIB))
    world.disk.faults.fail("pwrite", nth=2)  # behind the log's, the `.idx`
    append(partition, bytes(KIB))
    assert len(places_of_first(world)) < ENTRIES_AT_ONCE, "the write was not the index's"
    append(partition, bytes(KIB))
    partition.seal()
    assert len(places_of_first(world)) == ENTRIES_AT_ONCE + 1
    partition.close()


def places_of_first(world: World) -> list[IndexEntry]:
    """What the first segment's index has."""
    return list(load_index(world.disk, PATHS.segment(0, SegmentFile.INDEX), base_offset=0))


@pytest.mark.parametrize("operation", ["create", "pwrite", "rename"])
@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize("is_small", [True, False])
def test_a_roll_refused_half_way_is_done_again(operation: str, nth: int, is_small: bool) -> None:
    """The disk is full at any of its steps; what is sent next may fit the old segment."""
    world = World(nth)
    partition = opened(world)
    before = list(numbered(14, size=1000))
    for number, value in enumerate(before):
        append(partition, value, producer=Producer(7, 0, number))
    assert len(partition.segments()) == 1
    world.disk.faults.fail(operation, nth=nth, code=errno.ENOSPC)
    producer = Producer(7, 0, 14)
    try:
        append(partition, bytes(2 * KIB), producer=producer)
        expected = [*before, bytes(2 * KIB)]
    except NoSpace:
        expected = before
        assert partition.high_watermark() == 14
        assert values(partition) == before
    world.disk.faults = Faults()
    following = b"small" if is_small else bytes(3 * KIB)
    assert append(partition, following) == len(expected)
    for number in range(20):
        append(partition, bytes(1000), timestamps_ms=number)
    assert append(partition, before[13], producer=Producer(7, 0, 13)) == 13, "still known"
    expected = [*expected, following, *[bytes(1000)] * 20]
    assert values(partition) == expected
    assert len(partition.segments()) > 2
    world.restart(Crash.POWER)
    again = opened(world)
    assert values(again) == expected
    assert not again.problems
    assert append(again, before[13], producer=Producer(7, 0, 13)) == 13
    there = {base for base, _ in PATHS.files(world.disk)}
    assert there == set(PATHS.bases(world.disk)), "nothing is left over"
    again.close()


@pytest.mark.parametrize("operation", ["create", "rename", "fdatasync", "fsync", "unlink"])
@pytest.mark.parametrize("nth", range(1, 5))
def test_a_roll_that_fails_loses_nothing_that_was_acknowledged(operation: str, nth: int) -> None:
    world = World(nth)
    partition = opened(world)
    before = list(numbered(14, size=1000))
    append(partition, *before)
    world.disk.faults.fail(operation, nth=nth, code=errno.EIO)
    acknowledged = list(before)
    try:
        append(partition, bytes(4 * KIB))
        acknowledged.append(bytes(4 * KIB))
    except LakebedError:
        assert values(partition) == before
    world.restart(Crash.POWER)
    again = opened(world)
    assert values(again)[: len(acknowledged)] == acknowledged
    assert append(again, b"next") == len(values(again)) - 1
    again.close()


def test_old_data_does_not_make_the_partition_forget_its_producers() -> None:
    """Timestamps of long ago, and a roll after each append."""
    world = World(1)
    partition = opened(world)
    for number in range(4):
        append(partition, b"%d" % number, producer=Producer(7, 0, number), timestamps_ms=1)
        partition.seal()
    for number in range(4):
        again = append(partition, b"%d" % number, producer=Producer(7, 0, number), timestamps_ms=1)
        assert again == number
    partition.close()


def test_a_producer_is_forgotten_some_time_after_its_last_message() -> None:
    world = World(1)
    partition = opened(world, producer_ms=1000)
    append(partition, b"a", producer=Producer(7, 0, 0), timestamps_ms=1 << 50)
    world.clock.advance(2_000_000_000)
    append(partition, b"b")
    partition.seal()
    assert append(partition, b"a", producer=Producer(7, 0, 0)) == 2, "new: nobody remembers"
    partition.close()


def test_a_quiet_topic_forgets_its_producers_without_a_roll() -> None:
    world = World(1)
    topics = Topics("/store", disk=world.disk, runner=world.runner, config=small())
    partition = topics.create("orders").partition(0)

    def produce(first_id: int) -> None:
        for producer_id in range(first_id, first_id + 50):
            append(partition, b"a", producer=Producer(producer_id, 0, 0))

    def live() -> None:
        produce(0)
        world.runner.sleep_ns(4 * DAY_NS)
        produce(1000)
        assert partition.producer_count == 100
        world.runner.sleep_ns(4 * DAY_NS)
        assert partition.producer_count == 50
        world.runner.sleep_ns(4 * DAY_NS)
        assert partition.producer_count == 0
        assert len(partition.segments()) == 1

    world.runner.call("life", live)
    world.runner.run()
    topics.close()
    # Nor does opening it again bring them back.
    assert opened(world).producer_count == 0


def test_producers_that_are_kept_for_a_commit_are_not_forgotten_for_their_age() -> None:
    world = World(1)
    partition = opened(world)
    for producer_id in (7, 8):
        append(partition, b"a", producer=Producer(producer_id, 0, 0))
    partition.change(lambda writer: writer.keep_producer(7))
    world.clock.advance(8 * DAY_NS)
    partition.upkeep_step()
    assert partition.producer_count == 1
    assert append(partition, b"a", producer=Producer(7, 0, 0)) == 0
    partition.close()


def test_leftovers_of_a_roll_are_no_obstacle() -> None:
    world = World(1)
    partition = opened(world)
    append(partition, b"a", ack=Ack.AFTER_WRITE)
    for file in SegmentFile:
        replace(world.disk, PATHS.segment(1, file), b"left by one who was refused")
    assert partition.seal()
    assert append(partition, b"b") == 1
    assert values(partition) == [b"a", b"b"]
    partition.close()
