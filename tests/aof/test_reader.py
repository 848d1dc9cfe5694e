"""Reading a log whose files were built by hand, on both disks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.aof.damage import SkippedRange
from lakebed.aof.format import AOF_RECORD, RECORDS_START, record_bytes, records_end_max
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import Closed, Corrupt, InputError, NotFound
from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.world import World
from lakebed.kernels import aof_encode
from lakebed.kernels.disk import real_disk
from tests.fakes.aof import FakeLog

SEGMENT_BYTES = 4096


@pytest.fixture(params=["real", "simulated"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeLog]:
    disk: Disk = real_disk() if request.param == "real" else SimulatedDisk(Random(0))
    with ThreadRunner() as runner:
        log = FakeLog(disk, str(tmp_path), runner=runner, segment_bytes=SEGMENT_BYTES)
        yield log
        log.close()


@pytest.fixture
def reader(log: FakeLog) -> Iterator[LogReader]:
    with LogReader(log) as reader:
        yield reader


def _fill(log: FakeLog, count: int, *, size: int = 500) -> list[Record]:
    for number in range(count):
        payload = number.to_bytes(4, "big") * (size // 4)
        log.append(payload, timestamp=1000 + number, ext_id=number)
    log.publish()
    return log.kept()


def _flip(log: FakeLog, offset: int, *, segment: int = 0) -> None:
    file = log.built[segment].file
    file.pwrite(offset, bytes([file.pread(offset, 1)[0] ^ 0x40]))


# What was written is read.


def test_records_come_back_in_order_across_segments(log: FakeLog, reader: LogReader) -> None:
    records = _fill(log, 30)
    assert len(log.built) > 2
    assert list(reader.read()) == records
    assert list(reader.read_backward()) == records[::-1]
    assert [reader.get(record.record_id) for record in records] == records


def test_an_empty_log_has_nothing_to_read(log: FakeLog, reader: LogReader) -> None:
    for _ in range(2):
        assert list(reader.read()) == []
        assert list(reader.read(log.durable_end())) == []
        assert list(reader.read_backward()) == []
        assert reader.seek_timestamp(0) == log.durable_end()
        with pytest.raises(NotFound):
            reader.get(RecordId.from_parts(0, RECORDS_START))
        log.roll()  # activated: a header of zeros
        log.publish()


def test_what_is_not_durable_is_not_read(log: FakeLog, reader: LogReader) -> None:
    records = _fill(log, 3)
    later = log.append(b"appended, not flushed")
    assert list(reader.read()) == records
    assert list(reader.read(None, later)) == records
    with pytest.raises(NotFound, match="durable records end at"):
        reader.get(later)
    with pytest.raises(NotFound, match="durable records end at"):
        reader.read(RecordId(later + record_bytes(21)))
    log.publish()
    assert reader.get(later).payload == b"appended, not flushed"


def test_a_segment_that_waits_for_its_footer_is_read_to_its_end(
    log: FakeLog, reader: LogReader
) -> None:
    _fill(log, 3)
    log.roll(seals=False)
    log.append(b"in the next one")
    log.publish()
    assert list(reader.read()) == log.records
    assert list(reader.read_backward()) == log.records[::-1]
    log.seal(log.built[0])
    assert list(reader.read()) == log.records


def test_a_record_longer_than_the_window_is_read(log: FakeLog) -> None:
    payloads = [b"a" * 10, b"b" * 3000, b"c" * 10, b"d" * 3900, b"e" * 10]
    for payload in payloads:
        log.append(payload)
    log.publish()
    with LogReader(log, window_bytes=64) as reader:
        assert [record.payload for record in reader.read()] == payloads
        assert [record.payload for record in reader.read_backward()] == payloads[::-1]


def test_a_batch_has_columns_and_views_of_the_file(log: FakeLog, reader: LogReader) -> None:
    records = _fill(log, 10)
    batch = next(reader.read_batches())
    assert list(batch) == records[: len(batch)]
    assert batch.record_ids() == [record.record_id for record in batch]
    assert [bytes(view) for view in batch.payloads()] == [r.payload for r in batch]
    assert batch.timestamps.tolist() == [record.timestamp for record in batch]
    assert batch.ext_ids.tolist() == [record.ext_id for record in batch]
    assert batch.lengths.tolist() == [len(record.payload) for record in batch]
    assert batch.payload(1).obj is batch.buffer.obj
    part = batch.part(1, 3)
    assert list(part) == records[1:3]
    assert part.end == records[3].record_id


def test_a_batch_outlives_its_reader_and_its_file(log: FakeLog) -> None:
    records = _fill(log, 10)
    with LogReader(log) as reader:
        batches = list(reader.read_batches())
    log.remove_oldest()
    assert [record for batch in batches for record in batch] == records


def test_batches_are_about_as_large_as_asked_for(log: FakeLog, reader: LogReader) -> None:
    _fill(log, 20, size=100)
    sizes = [len(batch) for batch in reader.read_batches(batch_bytes_max=2 * record_bytes(100))]
    assert set(sizes[:5]) == {2}


# Where a read begins and ends.


def test_start_is_included_and_end_is_not(log: FakeLog, reader: LogReader) -> None:
    records = _fill(log, 20)
    ids = [record.record_id for record in records]
    assert list(reader.read(ids[3], ids[12])) == records[3:12]
    assert list(reader.read(ids[3], ids[3])) == []
    assert list(reader.read_backward(ids[3])) == records[2::-1]
    assert list(reader.read_backward(ids[0])) == []
    with pytest.raises(InputError, match="before the start"):
        reader.read(ids[3], ids[2])


def test_starts_and_ends_of_segments_are_positions(log: FakeLog, reader: LogReader) -> None:
    records = _fill(log, 20)
    first, second = log.built[0], log.built[1]
    end_of_first = RecordId.from_parts(0, first.end)
    count = len(first.records)
    for offset in (0, RECORDS_START):
        start_of_second = RecordId.from_parts(1, offset)
        assert list(reader.read(start_of_second)) == records[count:]
        assert list(reader.read(None, start_of_second)) == records[:count]
        assert list(reader.read_backward(start_of_second)) == records[count - 1 :: -1]
    assert list(reader.read(end_of_first)) == records[count:]
    assert list(reader.read(None, end_of_first)) == records[:count]
    assert second.records[0] == records[count]
    assert list(reader.read(log.durable_end())) == []
    assert list(reader.read(RecordId.from_parts(log.durable_end().segment_index + 1, 64))) == []


@pytest.mark.parametrize("offset", [8, 24, 32, 504])
def test_a_start_inside_a_record_is_not_found(log: FakeLog, reader: LogReader, offset: int) -> None:
    records = _fill(log, 10)
    middle = RecordId(records[2].record_id + offset)
    for attempt in (reader.read(middle), reader.read(middle, skip_damage=True)):
        with pytest.raises(NotFound, match="inside another"):
            next(attempt)
    with pytest.raises(NotFound, match="inside another"):
        reader.get(middle)
    with pytest.raises(NotFound, match="inside a record"):
        list(reader.read(None, middle))
    with pytest.raises(NotFound, match="inside a record"):
        list(reader.read_backward(middle))


def test_a_removed_segment_is_not_found_and_the_oldest_id_is_told(
    log: FakeLog, reader: LogReader
) -> None:
    records = _fill(log, 30)
    assert list(reader.read()) == records
    log.remove_oldest()
    for attempt in (reader.get, reader.read, reader.read_backward):
        with pytest.raises(NotFound, match="removed; the oldest record is at 1:64"):
            attempt(records[0].record_id)
    assert list(reader.read()) == log.kept()


def test_a_segment_removed_under_a_read_is_not_found(log: FakeLog) -> None:
    _fill(log, 30)
    with LogReader(log, handles_max=1) as reader:
        reading = reader.read()
        next(reading)
        log.remove_oldest()
        log.remove_oldest()
        with pytest.raises(NotFound, match="the oldest record is at 2:64"):
            list(reading)


@pytest.mark.parametrize(
    ("segment", "offset", "message"),
    [
        (0, 0, "header"),
        (0, 40, "header"),
        (0, 65, "multiples of 8"),
        (0, 96, "inside another"),
        (0, SEGMENT_BYTES - 96, "records end at"),
        (0, SEGMENT_BYTES - 8, "records end at"),
        (0, 0xFFFF_FFF8, "records end at"),
        (2, 0xFFFF_FFF8, "durable records end at"),
        (9, 64, "segment 9 does not exist"),
        (0xFFFF_FFFF, 64, "segment 4294967295 does not exist"),
    ],
)
def test_an_id_that_is_no_record_is_not_found(
    log: FakeLog, reader: LogReader, segment: int, offset: int, message: str
) -> None:
    _fill(log, 20)
    with pytest.raises(NotFound, match=message):
        reader.get(RecordId.from_parts(segment, offset))


def test_a_length_that_leads_beyond_the_durable_end_is_no_record(
    log: FakeLog, reader: LogReader
) -> None:
    """A payload holds the header of a record that would reach into bytes nobody confirmed."""
    forged = aof_encode([b"x" * 200], timestamps=0, ext_ids=0, capacity=1000).data
    record_id = log.append(forged[: AOF_RECORD.size] + b"x" * 8)
    log.publish()
    log.active.file.pwrite(log.active.end, b"x" * 200)
    inside = RecordId(record_id + AOF_RECORD.size)
    with pytest.raises(NotFound, match="inside another"):
        reader.get(inside)


# Time.


def test_seeking_finds_the_first_in_log_order_although_stamps_are_not_sorted(
    log: FakeLog, reader: LogReader
) -> None:
    stamps = [50, 10, 70, 20, 20, 90, 5, 60]
    ids = []
    for stamp in stamps:
        ids.append(log.append(b"x" * 1000, timestamp=stamp))
    log.publish()
    for wanted in range(95):
        expected = [i for i, stamp in zip(ids, stamps, strict=True) if stamp >= wanted]
        assert reader.seek_timestamp(wanted) == (expected or [log.durable_end()])[0]


def test_seeking_does_not_read_the_records_of_segments_that_are_older(
    log: FakeLog, reader: LogReader
) -> None:
    records = _fill(log, 20)
    _flip(log, RECORDS_START + 30)
    wanted = log.built[1].records[2]
    assert reader.seek_timestamp(wanted.timestamp) == wanted.record_id
    with pytest.raises(Corrupt):
        reader.seek_timestamp(records[0].timestamp)


# Damage.


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("what", ["payload", "length", "zeros"])
def test_damage_stops_a_read_with_its_place_and_can_be_skipped(
    log: FakeLog, reader: LogReader, what: str, is_sealed: bool
) -> None:
    records = _fill(log, 6 if not is_sealed else 20)
    bad = records[2]
    offset = bad.record_id.segment_offset
    if what == "zeros":
        log.built[0].file.pwrite(offset, bytes(record_bytes(len(bad.payload))))
    else:
        _flip(log, offset + (AOF_RECORD.size + 7 if what == "payload" else 1))
    reading = reader.read()
    assert [next(reading) for _ in range(2)] == records[:2]
    with pytest.raises(Corrupt) as caught:
        next(reading)
    assert (caught.value.path, caught.value.offset) == (log.built[0].path, offset)
    with pytest.raises(Corrupt) as caught:
        reader.get(bad.record_id)
    assert caught.value.offset == offset
    with pytest.raises(Corrupt):
        next(reader.read(bad.record_id))

    skipped: list[SkippedRange] = []
    others = records[:2] + records[3:]
    assert list(reader.read(skip_damage=True, on_skipped=skipped.append)) == others
    assert [(one.start, one.end) for one in skipped] == [
        (offset, records[3].record_id.segment_offset)
    ]
    assert [reader.get(record.record_id) for record in others] == others

    backward = reader.read_backward()
    for record in records[:2:-1]:
        assert next(backward) == record
    with pytest.raises(Corrupt):
        next(backward)
    skipped.clear()
    back = reader.read_backward(skip_damage=True, on_skipped=skipped.append)
    assert list(back) == others[::-1]
    assert len(skipped) == 1


def test_damage_up_to_the_end_of_a_segment_is_one_skipped_range(
    log: FakeLog, reader: LogReader
) -> None:
    records = _fill(log, 20)
    first = log.built[0]
    last = first.records[-1]
    _flip(log, last.record_id.segment_offset + AOF_RECORD.size)
    skipped: list[SkippedRange] = []
    rest = [record for record in records if record != last]
    assert list(reader.read(skip_damage=True, on_skipped=skipped.append)) == rest
    assert [one.end for one in skipped] == [first.end]


@pytest.mark.parametrize("offset", [1, 10, SEGMENT_BYTES - 90])
def test_a_damaged_header_or_footer_hides_no_record(tmp_path: Path, offset: int) -> None:
    with ThreadRunner() as runner:
        log = FakeLog(real_disk(), str(tmp_path), runner=runner, tells_end=False)
        records = _fill(log, 20)
        _flip(log, offset)
        with LogReader(log) as reader:
            with pytest.raises(Corrupt) as caught:
                next(reader.read())
            assert caught.value.path == log.built[0].path
            assert reader.get(records[0].record_id) == records[0]
            skipped: list[SkippedRange] = []
            assert list(reader.read(skip_damage=True, on_skipped=skipped.append)) == records
            assert len(skipped) == 1
            skipped.clear()
            back = reader.read_backward(skip_damage=True, on_skipped=skipped.append)
            assert list(back) == records[::-1]
            assert len(skipped) == 1
        log.close()


def test_a_missing_segment_in_the_middle_is_damage(log: FakeLog, reader: LogReader) -> None:
    records = _fill(log, 30)
    gone = log.built.pop(1)
    gone.file.close()
    log.disk.unlink(gone.path)
    with pytest.raises(Corrupt, match="missing"):
        list(reader.read())
    skipped: list[SkippedRange] = []
    rest = [record for record in records if record not in gone.records]
    assert list(reader.read(skip_damage=True, on_skipped=skipped.append)) == rest
    assert [one.segment_id for one in skipped] == [2]


def test_damage_of_any_one_byte_never_changes_what_is_read(tmp_path: Path) -> None:
    """But for timestamp and ext_id of a record, which its checksum does not cover."""
    disk, random = real_disk(), Random(3)
    with ThreadRunner() as runner:
        log = FakeLog(disk, str(tmp_path), runner=runner)
        payloads = {record.payload for record in _fill(log, 20, size=300)}
        for _ in range(200):
            offset = random.randrange(records_end_max(SEGMENT_BYTES))
            _flip(log, offset)
            with LogReader(log) as reader:
                found = [record.payload for record in reader.read(skip_damage=True)]
            assert set(found) <= payloads
            assert len(found) >= len(payloads) - 1
            _flip(log, offset)
        log.close()


# Handles.


def test_not_more_files_are_kept_open_than_allowed(log: FakeLog) -> None:
    records = _fill(log, 60)
    with LogReader(log, handles_max=3) as reader:
        assert list(reader.read()) == records
        assert reader.open_count == 3
        for record in records:
            assert reader.get(record.record_id) == record
            assert reader.open_count <= 3
    assert reader.open_count == 0


@pytest.mark.parametrize("seed", range(30))
def test_a_file_that_is_in_use_is_not_closed(seed: int) -> None:
    """Many threads, one handle, and a close at some moment."""
    world = World(seed)
    log = FakeLog(world.disk, "/", runner=world.runner)
    for number in range(12):
        if log.built and number % 3 == 0:
            log.roll(seals=False)
        log.append(bytes([number + 1]))
    log.publish()
    reader = LogReader(log, handles_max=1)
    random = world.random

    def read() -> None:
        for record in random.sample(log.records, 6):
            assert reader.get(record.record_id) == record
        assert list(reader.read()) == log.records

    readers = [world.runner.call(f"reader {number}", read) for number in range(3)]
    if seed % 3 == 0:
        world.runner.call("closer", reader.close)
    world.runner.run()
    for call in readers:
        assert call.error is None or (seed % 3 == 0 and isinstance(call.error, Closed))
    reader.close()


def test_a_closed_reader_reads_nothing(log: FakeLog) -> None:
    records = _fill(log, 5)
    reader = LogReader(log)
    reader.close()
    reader.close()
    with pytest.raises(Closed):
        reader.get(records[0].record_id)
    with pytest.raises(Closed):
        list(reader.read())


# Any log.


@contextmanager
def _any_log(
    entries: list[tuple[int, int, bool]], *, tells_end: bool, seals_late: bool
) -> Iterator[FakeLog]:
    with TemporaryDirectory() as folder, ThreadRunner() as runner:
        log = FakeLog(real_disk(), folder, runner=runner, tells_end=tells_end, first_segment_id=3)
        for number, (size, timestamp, rolls) in enumerate(entries):
            if rolls and log.built:
                log.roll()
            log.append(Random(number).randbytes(size), timestamp=timestamp, ext_id=number)
        if seals_late and log.built:
            log.roll(seals=False)
        log.publish()
        yield log
        log.close()


ENTRIES = st.lists(
    st.tuples(st.integers(1, 900) | st.integers(1, 9), st.integers(0, 30), st.booleans()),
    max_size=25,
)


@settings(max_examples=25)
@given(
    entries=ENTRIES,
    tells_end=st.booleans(),
    seals_late=st.booleans(),
    window_bytes=st.sampled_from([1, 64, 500, 1 << 20]),
    handles_max=st.integers(1, 4),
)
def test_any_log_is_read_like_its_model(
    entries: list[tuple[int, int, bool]],
    tells_end: bool,
    seals_late: bool,
    window_bytes: int,
    handles_max: int,
) -> None:
    with (
        _any_log(entries, tells_end=tells_end, seals_late=seals_late) as log,
        LogReader(log, window_bytes=window_bytes, handles_max=handles_max) as reader,
    ):
        model = log.records
        places = [record.record_id for record in model] + [log.durable_end()]
        assert list(reader.read()) == model
        assert list(reader.read_backward()) == model[::-1]
        assert [reader.get(record.record_id) for record in model] == model
        for first, start in enumerate(places):
            assert list(reader.read(start)) == model[first:]
            assert list(reader.read_backward(start)) == model[:first][::-1]
            last = min(len(model), first + 5)
            assert list(reader.read(start, places[last])) == model[first:last]
        for timestamp in {record.timestamp for record in model} | {31}:
            later = [record.record_id for record in model if record.timestamp >= timestamp]
            assert reader.seek_timestamp(timestamp) == [*later, log.durable_end()][0]
