"""Segments in the interchange layout, read by the same reader."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakebed.aof.archived_log import ArchivedLog
from lakebed.aof.config import RetentionConfig
from lakebed.aof.conversion import to_interchange
from lakebed.aof.damage import SkippedRange
from lakebed.aof.format import SEGMENT_HEADER, records_end_max
from lakebed.aof.interchange import INTERCHANGE_HEADER, InterchangeEncoder, InterchangeRecord
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Corrupt, InputError, NotFound, UnknownVersion
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.kernels.disk import real_disk
from tests.aof.tiers.tiered_logs import CONFIG, PATHS, contents, open_log, write_segments
from tests.fakes.aof import FakeLog

EXT_ID = 77


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FakeLog]:
    """Three segments, ten records each, stamped in whole milliseconds, as are their copies."""
    with ThreadRunner() as runner:
        log = FakeLog(real_disk(), str(tmp_path), runner=runner, tells_end=False)
        for number in range(30):
            if log.built and number % 10 == 0:
                log.roll()
            payload = bytes([number + 1]) * (number * 7 % 50 + 1)
            log.append(payload, timestamp=number * NS_PER_MS, ext_id=EXT_ID)
        log.publish()
        yield log
        log.close()


def _replace(
    log: FakeLog, index: int, *, keep: Callable[[int], bool] = lambda number: True
) -> list[Record]:
    """Put an interchange file in a segment's place; the records that are left."""
    segment = log.built[index]
    log.seal(segment)
    segment.records = [record for number, record in enumerate(segment.records) if keep(number)]
    encoder = InterchangeEncoder(stream_id=1, segment_id=segment.name.segment_id, creation_ts_ms=1)
    records = [
        InterchangeRecord(
            record.payload,
            segment.name.base_offset + record.record_id.segment_offset,
            record.timestamp // NS_PER_MS,
        )
        for record in segment.records
    ]
    data = encoder.header() + encoder.records(records) + encoder.footer(ext_id=EXT_ID)
    segment.file.close()
    log.disk.unlink(segment.path)
    segment.file = log.disk.create(segment.path)
    segment.file.pwrite(0, data)
    return segment.records


@pytest.mark.parametrize("window_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("indexes", [(0,), (1,), (0, 1)])
def test_both_layouts_are_read_as_one_log(
    log: FakeLog, indexes: tuple[int, ...], window_bytes: int
) -> None:
    for index in indexes:
        _replace(log, index)
    with LogReader(log, window_bytes=window_bytes) as reader:
        assert list(reader.read()) == log.records
        assert list(reader.read_backward()) == log.records[::-1]
        assert [reader.get(record.record_id) for record in log.records] == log.records
        for first in range(30):
            last = min(29, first + 7)
            start, end = log.records[first].record_id, log.records[last].record_id
            assert list(reader.read(start, end)) == log.records[first:last]
            assert reader.seek_timestamp(first * NS_PER_MS) == start


def test_ids_stay_valid_where_records_were_left_out(log: FakeLog) -> None:
    left_out = [record for number, record in enumerate(log.built[1].records) if number % 3]
    _replace(log, 1, keep=lambda number: number % 3 == 0)
    kept = log.kept()
    assert len(kept) == 24
    with LogReader(log, window_bytes=100) as reader:
        assert list(reader.read()) == kept
        assert list(reader.read_backward()) == kept[::-1]
        assert [reader.get(record.record_id) for record in kept] == kept
        for record in left_out:
            with pytest.raises(NotFound):
                reader.get(record.record_id)
            later = [one for one in kept if one.record_id > record.record_id]
            assert list(reader.read(record.record_id)) == later


def test_damage_is_found_and_can_be_skipped(log: FakeLog) -> None:
    records = _replace(log, 1)
    at = INTERCHANGE_HEADER.size + 32 * 3 + 4
    for number in range(3):
        at += -(-len(records[number].payload) // 8) * 8
    log.built[1].file.pwrite(at, b"\xee")  # the checksum of the fourth
    bad = records[3]
    rest = [record for record in log.records if record != bad]
    with LogReader(log) as reader:
        with pytest.raises(Corrupt) as caught:
            list(reader.read())
        assert caught.value.path == log.built[1].path
        with pytest.raises(Corrupt):
            reader.get(bad.record_id)
        skipped: list[SkippedRange] = []
        assert list(reader.read(skip_damage=True, on_skipped=skipped.append)) == rest
        assert list(reader.read_backward(skip_damage=True)) == rest[::-1]
    assert [one.start for one in skipped] == [bad.record_id.segment_offset]


def test_a_damaged_footer_hides_no_record_and_a_newer_version_is_refused(log: FakeLog) -> None:
    _replace(log, 1)
    file = log.built[1].file
    file.pwrite(file.size() - 30, b"\xee")
    with LogReader(log) as reader:
        with pytest.raises(Corrupt, match="footer"):
            list(reader.read())
        payloads = [record.payload for record in reader.read(skip_damage=True)]
        assert payloads == [record.payload for record in log.records]
    file.pwrite(INTERCHANGE_HEADER.offset_of("version"), b"\3")
    with LogReader(log) as reader, pytest.raises(UnknownVersion):
        list(reader.read())


def test_another_process_reads_them_too(log: FakeLog) -> None:
    _replace(log, 0)
    _replace(log, 2)
    last = log.records[-1]
    for has_end in (True, False):
        if not has_end:
            log.disk.unlink(log.paths.durable_end)
        root = os.path.dirname(os.path.dirname(log.paths.folder))
        with ReadOnlyLog(root, "log", disk=log.disk, runner=log.runner) as view:
            assert [info.is_sealed for info in view.segments()] == [True] * 3
            with LogReader(view) as reader:
                assert list(reader.read()) == log.records
            assert view.durable_end() == RecordId(log.durable_end())
            assert view.durable_end() > last.record_id


def _swap(world: World, path: str) -> None:
    """Puts the same segment in the interchange layout in a segment's place."""
    world.disk.rename(to_interchange(world.disk, path, "/out", stream_id=1, lossy=True), path)


def _bytes(world: World, path: str) -> bytes:
    with world.disk.open(path) as file:
        return file.pread(0, file.size())


@pytest.mark.parametrize("has_pointer", [True, False])
@pytest.mark.parametrize("indexes", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_writer_leaves_them_as_they_are_and_goes_on(
    indexes: tuple[int, ...], has_pointer: bool
) -> None:
    world = World(1)
    world.disk.make_folder("/out")
    manager, writer = open_log(world)
    written = write_segments(writer, 3)
    paths = [info.path for info in writer.segments()]
    manager.close()
    for index in indexes:
        _swap(world, paths[index])
    if not has_pointer:
        world.disk.unlink(PATHS.pointer)
        world.disk.unlink(PATHS.durable_end)
    before = [_bytes(world, path) for path in paths]
    for count in range(2):
        manager, writer = open_log(world)
        assert writer.recovered.problems == []
        assert writer.append_record(b"more").segment_index == 3 + count
        info = writer.seal_current_segment()
        assert info is not None
        header = SEGMENT_HEADER.unpack(_bytes(world, info.path)[: SEGMENT_HEADER.size])
        assert header.base_record_count == len(written) + count
        assert contents(writer) == [*written, *[b"more"] * (count + 1)]
        manager.close()
        world.restart(Crash.POWER)
    assert [_bytes(world, path) for path in paths] == before
    assert not world.disk.exists("/store/quarantine")


def test_they_are_not_moved_between_tiers_and_not_recorded_as_damaged() -> None:
    world = World(2)
    world.disk.make_folder("/out")
    manager, writer = open_log(world)
    written = write_segments(writer, 2)
    manager.close()
    _swap(world, writer.segments()[0].path)
    manager, writer = open_log(world)
    with pytest.raises(InputError, match=r"segment 0 .* has the interchange layout"):
        writer.tiers.upload([0])
    assert writer.tiers.upload() == [1]
    assert [place.failures for place in writer.tiers.residency()] == [(), ()]
    assert contents(writer) == written
    manager.close()


@pytest.mark.parametrize("is_recorded", [True, False])
def test_they_stay_in_tier_0_while_the_other_segments_are_moved(is_recorded: bool) -> None:
    world = World(2)
    world.disk.make_folder("/out")
    manager, writer = open_log(world)
    written = write_segments(writer, 3)
    manager.close()
    _swap(world, writer.segments()[1].path)
    if not is_recorded:
        world.disk.rename(PATHS.manifest, "/out/manifest")  # so it was never recorded as sealed
    manager, writer = open_log(world)
    assert writer.tiers.upload() == [0, 2]
    assert writer.tiers.evict(warm=True) == [0, 2]
    assert writer.tiers.hydrate() == [0, 2]
    for move in (writer.tiers.upload, writer.tiers.evict, writer.tiers.hydrate):
        with pytest.raises(InputError, match=r"segment 1 .* has the interchange layout"):
            move([1])
    assert contents(writer) == written
    manager.close()


def test_a_segment_that_is_not_recorded_as_sealed_stops_no_other_move() -> None:
    world = World(2)
    world.disk.make_folder("/out")
    manager, writer = open_log(world)
    write_segments(writer, 3)
    manager.close()
    path = writer.segments()[1].path
    with world.disk.open(path, writable=True) as file:
        file.pwrite(records_end_max(file.size()) + 20, b"\xff\xff")  # its footer
    world.disk.rename(PATHS.manifest, "/out/manifest")
    manager, writer = open_log(world)
    assert writer.tiers.upload() == [0, 2]
    with pytest.raises(Corrupt, match="footer is missing or damaged") as refused:
        writer.tiers.upload([1])
    assert refused.value.path == path
    manager.close()


def test_they_are_read_in_the_archive() -> None:
    world = World(3)
    world.disk.make_folder("/out")
    manager, writer = open_log(world)
    written = write_segments(writer, 4)
    manager.close()
    for index in (1, 2):
        _swap(world, writer.segments()[index].path)
    ids = [record.record_id for record in LogReader(writer).read()]
    retention = RetentionConfig(count_max=1, archive=True)
    manager, writer = open_log(world, config=dataclasses.replace(CONFIG, retention=retention))
    world.runner.advance(10**9)
    assert [info.segment_id for info in writer.segments()] == [3]
    manager.close()
    archive = ArchivedLog(world.disk, PATHS, runner=world.runner)
    with LogReader(archive) as reader:
        found = list(reader.read())
        assert [bytes(record.payload) for record in found] == written[:15]
        assert [record.record_id for record in found] == ids[:15]
        assert archive.durable_end() > found[-1].record_id
