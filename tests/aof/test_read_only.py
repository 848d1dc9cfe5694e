"""A log read from beside its writer, whose every step is made by hand."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.aof.damage import SkippedRange
from lakebed.aof.follower import Follower
from lakebed.aof.format import DURABLE_END, RECORDS_START, SEGMENT_HEADER, records_end_max
from lakebed.aof.interchange import INTERCHANGE_HEADER, INTERCHANGE_RECORD
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Closed, Corrupt, NotFound, UnknownVersion
from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.world import World
from lakebed.kernels.disk import real_disk
from tests.aof.segments import interchange_segment
from tests.fakes.aof import FakeLog

OTHER_BOOT = b"another boot id!"


@pytest.fixture
def runner() -> Iterator[ThreadRunner]:
    with ThreadRunner() as runner:
        yield runner


@pytest.fixture(params=["real", "simulated"])
def log(request: pytest.FixtureRequest, tmp_path: Path, runner: ThreadRunner) -> Iterator[FakeLog]:
    disk: Disk = real_disk() if request.param == "real" else SimulatedDisk(Random(0))
    log = FakeLog(disk, str(tmp_path), runner=runner)
    yield log
    log.close()


@pytest.fixture
def beside(log: FakeLog, runner: ThreadRunner) -> Iterator[Callable[[], ReadOnlyLog]]:
    """Opens the log as another process would."""
    opened: list[ReadOnlyLog] = []

    def beside() -> ReadOnlyLog:
        root = os.path.dirname(os.path.dirname(log.paths.folder))
        opened.append(ReadOnlyLog(root, "log", disk=log.disk, runner=runner))
        return opened[-1]

    yield beside
    for one in opened:
        one.close()


Beside = Callable[[], ReadOnlyLog]


def _fill(log: FakeLog, count: int) -> None:
    for number in range(count):
        log.append(number.to_bytes(2, "big") * 300, timestamp=number)
    log.publish()


def _read(log: ReadOnlyLog) -> list[Record]:
    with LogReader(log) as reader:
        records = list(reader.read())
        assert list(reader.read_backward()) == records[::-1]
    return records


def test_it_reads_exactly_to_the_published_end(log: FakeLog, beside: Beside) -> None:
    _fill(log, 20)
    records = list(log.records)
    log.append(b"written, but not published")
    view = beside()
    assert _read(view) == records
    assert view.durable_end() == log.durable_end()
    assert not view.wait_beyond(view.durable_end(), 0)


def test_new_segments_are_found_when_the_end_moves_there(log: FakeLog, beside: Beside) -> None:
    _fill(log, 2)
    view = beside()
    _fill(log, 20)
    assert _read(view) == log.records
    assert [info.is_sealed for info in view.segments()][-2:] == [True, False]


def test_an_activated_segment_has_a_header_of_zeros(log: FakeLog, beside: Beside) -> None:
    _fill(log, 2)
    log.roll()
    view = beside()
    assert _read(view) == log.records
    log.publish()
    assert _read(view) == log.records


def test_a_segment_is_sealed_while_it_is_read(log: FakeLog, beside: Beside) -> None:
    _fill(log, 3)
    view = beside()
    with LogReader(view) as reader:
        reading = reader.read()
        assert next(reading) == log.records[0]
        log.roll()
        log.append(b"in the next one")
        log.publish()
        assert list(reading) == log.records[1:3]
        assert list(reader.read()) == log.records
        view.refresh()
        assert list(reader.read()) == log.records


def test_a_footer_that_is_half_written_does_not_seal(log: FakeLog, beside: Beside) -> None:
    _fill(log, 3)
    segment = log.active
    log.roll(seals=False)
    log.append(b"in the next one")
    log.publish()
    segment.file.pwrite(records_end_max(segment.size), log.footer(segment)[:50])
    view = beside()
    assert [info.is_sealed for info in view.segments()] == [False, False]
    assert _read(view) == log.records


@pytest.mark.parametrize("removes", [True, False])
def test_a_segment_that_went_between_listing_and_opening_is_not_found(
    log: FakeLog, beside: Beside, removes: bool
) -> None:
    _fill(log, 20)
    view = beside()
    oldest = log.built[0]
    if removes:
        log.remove_oldest()
    else:
        log.built.pop(0).file.close()
        log.disk.rename(oldest.path, os.path.join(log.paths.archive, "archived.seg"))
    with LogReader(view) as reader:
        with pytest.raises(NotFound, match="the oldest record is at 1:64"):
            list(reader.read())
        assert list(reader.read()) == log.kept()


def test_a_file_unlinked_under_the_reader_is_read_to_its_end(log: FakeLog, beside: Beside) -> None:
    _fill(log, 20)
    first = log.built[0].records
    with LogReader(beside()) as reader:
        reading = reader.read()
        next(reading)
        log.remove_oldest()
        assert [next(reading) for _ in first[1:]] == first[1:]


def test_other_names_in_the_folder_are_ignored_and_counted(log: FakeLog, beside: Beside) -> None:
    _fill(log, 2)
    names = ("00000000000000000009.seg.spare", "current.sealed", "x.1.tmp", "notes.txt", "1_2.seg")
    for name in (*names, f"{1 << 40:020}_{0:020}_{0:020}.seg"):
        log.disk.create(os.path.join(log.paths.segments, name)).close()
    view = beside()
    assert view.ignored_count == 3
    assert _read(view) == log.records


def test_two_files_of_one_segment_are_refused(log: FakeLog, beside: Beside) -> None:
    _fill(log, 2)
    twin = log.paths.segment(log.active.name._replace(created_at=1))
    log.disk.create(twin, size=log.active.size).close()
    with pytest.raises(Corrupt, match="the same segment number"):
        beside()


def test_there_must_be_a_log(log: FakeLog, beside: Beside) -> None:
    log.disk.remove_folder(log.paths.segments)
    with pytest.raises(NotFound):
        beside()


def test_a_log_without_records_ends_where_it_begins(log: FakeLog, beside: Beside) -> None:
    view = beside()
    assert view.durable_end() == RecordId(0)
    assert _read(view) == []
    log.roll()
    view.refresh()
    assert _read(view) == []
    log.publish()
    assert _read(view) == []


# The file `durable_end`.


@pytest.mark.parametrize("boot_id", [None, OTHER_BOOT])
def test_without_a_published_end_the_log_ends_before_the_first_bad_record(
    log: FakeLog, beside: Beside, boot_id: bytes | None
) -> None:
    _fill(log, 20)
    if boot_id is None:
        log.disk.unlink(log.paths.durable_end)
    else:
        log.write_durable_end(boot_id=boot_id)
    log.append(b"whole, although nobody confirmed it")
    whole = list(log.records)
    end = log.active.end
    log.append(b"torn" * 10)
    log.active.file.pwrite(end + 30, bytes(8))
    view = beside()
    assert view.durable_end() == RecordId.from_parts(log.active.name.segment_id, end)
    assert _read(view) == whole


def test_the_scan_stops_at_the_footers_slot(log: FakeLog, beside: Beside) -> None:
    log.roll()
    room = log.active.room
    log.append(b"x" * (room - 24 - 8 * 7))
    log.active.file.pwrite(log.active.end, b"\7" * (log.active.size - log.active.end))
    view = beside()
    assert view.durable_end().segment_offset == log.active.end
    assert _read(view) == log.records


def test_an_unsealed_segment_that_is_torn_ends_the_log_of_another_boot(
    log: FakeLog, beside: Beside
) -> None:
    _fill(log, 3)
    log.write_durable_end(boot_id=OTHER_BOOT)
    kept = list(log.records)
    log.append(b"lost sectors")
    torn = log.active
    torn.file.pwrite(kept[-1].record_id.segment_offset + 624, bytes(64))
    log.roll(seals=False)
    log.append(b"in the next one, but nothing led there")
    view = beside()
    assert _read(view) == kept


def test_damage_before_a_confirmed_end_is_corrupt_also_after_a_reboot(
    log: FakeLog, beside: Beside
) -> None:
    _fill(log, 3)
    log.write_durable_end(boot_id=OTHER_BOOT)
    log.active.file.pwrite(log.records[1].record_id.segment_offset + 30, b"\xff\xff")
    with LogReader(beside()) as reader, pytest.raises(Corrupt):
        list(reader.read())


def test_damage_before_a_sealed_segment_does_not_end_the_log(log: FakeLog, beside: Beside) -> None:
    _fill(log, 20)
    log.disk.unlink(log.paths.durable_end)
    first = log.built[0]
    first.file.pwrite(records_end_max(first.size) + 20, b"\xff\xff")  # its footer
    first.file.pwrite(first.records[1].record_id.segment_offset + 30, b"\xff\xff")
    view = beside()
    assert view.durable_end() == log.durable_end()
    with LogReader(view) as reader:
        assert len(list(reader.read(skip_damage=True))) == len(log.records) - 1


@pytest.mark.parametrize("boot_id", [None, OTHER_BOOT])
@pytest.mark.parametrize("has_next", [False, True])
def test_a_last_segment_that_is_too_short_hides_no_record_of_the_others(
    log: FakeLog, beside: Beside, boot_id: bytes | None, has_next: bool
) -> None:
    _fill(log, 20)
    if boot_id is None:
        log.disk.unlink(log.paths.durable_end)
    else:
        log.write_durable_end(boot_id=boot_id)
    short = log.active
    if has_next:
        log.roll()
    short.file.truncate(100)
    rest = [record for record in log.records if record not in short.records]
    with LogReader(beside()) as reader:
        reading = reader.read()
        assert [next(reading) for _ in rest] == rest
        with pytest.raises(Corrupt, match="too short") as caught:
            next(reading)
        assert caught.value.path == short.path
        skipped: list[SkippedRange] = []
        assert list(reader.read(skip_damage=True, on_skipped=skipped.append)) == rest
        assert list(reader.read_backward(skip_damage=True)) == rest[::-1]
    segment_id = short.name.segment_id
    assert [(one.segment_id, one.path) for one in skipped] == [(segment_id, short.path)]


def test_a_last_interchange_segment_without_a_good_record_is_damage(
    log: FakeLog, beside: Beside
) -> None:
    _fill(log, 20)
    log.disk.unlink(log.paths.durable_end)
    last = log.active
    data = bytearray(interchange_segment([b"one"], name=last.name))
    data[INTERCHANGE_HEADER.size + INTERCHANGE_RECORD.size] ^= 1  # the payload
    last.file.truncate(len(data))
    last.file.pwrite(0, bytes(data))
    with LogReader(beside()) as reader, pytest.raises(Corrupt, match="wrong checksum") as caught:
        list(reader.read())
    assert caught.value.path == last.path


def test_a_torn_read_of_the_end_is_repeated(log: FakeLog, beside: Beside) -> None:
    _fill(log, 3)
    view = beside()
    whole, torn = log.durable_end_bytes(), bytearray(log.durable_end_bytes())
    torn[30] ^= 1
    looks = 0
    file_open = log.disk.open

    def open_and_look(path: str, *, writable: bool = False) -> object:
        nonlocal looks
        if path == log.paths.durable_end and not writable:
            looks += 1
            log.write_durable_end_bytes(bytes(torn) if looks < 4 else whole)
        return file_open(path, writable=writable)

    log.disk.open = open_and_look  # type: ignore[method-assign, assignment]
    assert view.durable_end() == log.durable_end()
    assert looks == 4
    looks = -1000  # from here on it is damaged: what it said last still holds
    log.append(b"more")
    assert view.durable_end() == log.durable_end()
    assert looks == -1000 + 8


def test_an_end_that_was_never_whole_is_as_good_as_none(log: FakeLog, beside: Beside) -> None:
    _fill(log, 3)
    for data in (bytes(DURABLE_END.size), b"\xff" * DURABLE_END.size):
        log.write_durable_end_bytes(data)
        assert _read(beside()) == log.records


def test_a_newer_version_of_the_end_is_refused(log: FakeLog, beside: Beside) -> None:
    _fill(log, 3)
    newer = bytearray(log.durable_end_bytes() + bytes(8))
    newer[DURABLE_END.offset_of("version")] = 9
    log.write_durable_end_bytes(bytes(newer[: DURABLE_END.size]))
    view = beside()
    assert view.durable_end() == log.durable_end()  # the checksum is wrong: damage, not a version
    from lakebed.kernels import crc64nvme

    at = DURABLE_END.offset_of("crc64")
    newer[at : at + 8] = crc64nvme(bytes(newer[:at])).to_bytes(8, "little")
    log.write_durable_end_bytes(bytes(newer[: DURABLE_END.size]))
    with pytest.raises(UnknownVersion):
        view.durable_end()


def test_a_lost_last_segment_is_damage(log: FakeLog, beside: Beside) -> None:
    _fill(log, 20)
    lost = log.built.pop()
    lost.file.close()
    log.disk.unlink(lost.path)
    with pytest.raises(Corrupt, match="missing"):
        beside().durable_end()


def test_a_header_that_is_lost_ends_an_unconfirmed_segment(log: FakeLog, beside: Beside) -> None:
    log.append(b"its header was lost")
    log.active.file.pwrite(0, bytes(SEGMENT_HEADER.size))
    assert beside().durable_end() == RecordId.from_parts(0, RECORDS_START)


# Waiting.


def test_waiting_sees_what_is_published_and_times_out(log: FakeLog, beside: Beside) -> None:
    _fill(log, 1)
    view = beside()
    end = view.durable_end()
    assert not view.wait_beyond(end, 0.005)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(view.wait_beyond(end, 30)))
    waiter.start()
    _fill(log, 1)
    waiter.join(30)
    assert answers == [True]


def test_polling_slows_down_to_50_ms() -> None:
    world = World(5)
    log = FakeLog(world.disk, "/", runner=world.runner)
    log.roll()
    log.publish()
    view = ReadOnlyLog("/", "log", disk=world.disk, runner=world.runner)
    before = len(world.trace)
    call = world.runner.call("waiter", lambda: view.wait_beyond(view.durable_end(), 10))
    world.runner.run()
    looks = sum(f"pread {log.paths.durable_end}" in line for line in world.trace[before:])
    assert call.result() is False
    assert world.clock.monotonic_ns() == 10_000 * NS_PER_MS
    assert 200 <= looks <= 215


def test_a_closed_view_and_a_closed_runner_end_the_waiting(log: FakeLog) -> None:
    _fill(log, 1)
    root = os.path.dirname(os.path.dirname(log.paths.folder))
    runner = ThreadRunner()
    view = ReadOnlyLog(root, "log", disk=log.disk, runner=runner)
    end = view.durable_end()
    runner.close()
    with pytest.raises(Closed, match="runner"):
        view.wait_beyond(end, None)
    view.close()
    view.close()
    with pytest.raises(Closed):
        view.wait_beyond(end, None)
    with pytest.raises(Closed):
        view.durable_end()


@pytest.mark.parametrize("seed", range(40))
def test_a_follower_in_another_process_gets_every_record_once(seed: int) -> None:
    world = World(seed)
    log = FakeLog(world.disk, "/", runner=world.runner)
    log.roll()
    log.publish()
    view = ReadOnlyLog("/", "log", disk=world.disk, runner=world.runner)

    def write() -> None:
        for number in range(20):
            if world.random.random() < 0.2:
                before = log.active
                log.roll(seals=False)
                log.seal(before)
            log.append(world.random.randbytes(world.random.randrange(1, 900)), timestamp=number)
            if world.random.random() < 0.5:
                log.publish()
            world.runner.sleep_ns(world.random.randrange(10) * NS_PER_MS)
        log.publish()

    def follow() -> list[Record]:
        with Follower(view) as follower:
            return [next(follower) for _ in range(20)]

    follows = world.runner.call("follower", follow)
    world.runner.call("writer", write)
    world.runner.run()
    assert follows.result() == log.records
    view.close()
    world.runner.close()
