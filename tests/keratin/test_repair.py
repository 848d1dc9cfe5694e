"""Damaged segments made readable again, and whole partitions judged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import pytest

from lakebed.base.damage import Verdict
from lakebed.base.errors import InputError
from lakebed.base.files import read_file, replace_atomically
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.units import MIB
from lakebed.keratin.compression import Compression
from lakebed.keratin.errors import CodecMissing
from lakebed.keratin.format import RECORDS_START, RecordFlags
from lakebed.keratin.message import Message
from lakebed.keratin.partition_verification import verify_partition
from lakebed.keratin.paths import SegmentFile, TopicPaths
from lakebed.keratin.reader import PartitionReader
from lakebed.keratin.repair import RepairedSegment, repair_segment
from lakebed.keratin.view import PartitionSegment
from tests.fakes.partition import CREATED_MS, FakePartition, FakeSegment


@pytest.fixture
def partition() -> Iterator[FakePartition]:
    with ThreadRunner() as runner:
        disk = SimulatedDisk(Random(0))
        partition = FakePartition(disk, "/store", runner=runner, segment_bytes=1200)
        for number in range(30):
            partition.append(b"%d " % number * 20, key=b"k", timestamp_ms=CREATED_MS + number)
            if number % 6 == 0:
                partition.append_batch([b"a", b"b"], keys=[b"a", b"b"])
        partition.publish()
        yield partition


def _repair(partition: FakePartition, segment: FakeSegment) -> RepairedSegment | None:
    repaired = _repair_info(partition, segment.info())
    if repaired is not None:
        partition.take_over(repaired.rewritten)
    return repaired


def _repair_info(
    partition: FakePartition, info: PartitionSegment, *, start_offset: int = 0
) -> RepairedSegment | None:
    return repair_segment(
        partition.disk,
        partition.paths,
        info,
        start_offset=start_offset,
        index_stride_bytes=256,
        created_ms=CREATED_MS,
    )


def _read(partition: FakePartition) -> list[Message]:
    with PartitionReader(partition) as reader:
        return list(reader.read())


def test_batches_without_their_codec_are_neither_judged_nor_cut(
    partition: FakePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition.append_batch([b"c"], compression=Compression.ZSTD)
    segment = partition.built[-1]
    for number in range(30):  # seals it
        partition.append(b"%d " % number * 20, key=b"k")
    partition.publish()
    assert segment.is_sealed
    before = read_file(partition.disk, segment.path, size_max=MIB)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(CodecMissing):
        verify_partition(partition.disk, partition.paths)
    with pytest.raises(CodecMissing):
        _repair(partition, segment)
    assert read_file(partition.disk, segment.path, size_max=MIB) == before


def test_a_whole_partition_is_whole(partition: FakePartition) -> None:
    found = verify_partition(partition.disk, partition.paths)
    assert found.verdict is Verdict.WHOLE
    assert (found.start_offset, found.next_offset) == (0, partition.high_watermark())
    assert (found.problems, found.notes, found.lost_offsets) == ((), (), ())
    assert [segment.is_sealed for segment in found.segments][-2:] == [True, False]
    assert not any(segment.index_problems for segment in found.segments)
    for segment in partition.built[:-1]:
        assert _repair(partition, segment) is None


@pytest.mark.parametrize("index", [0, 2, -1])
def test_bad_bytes_are_left_out_saved_and_the_loss_is_stated(
    partition: FakePartition, index: int
) -> None:
    segment = partition.built[1]
    before = partition.kept()
    start = segment.positions[index]
    end = [*segment.positions, segment.end][segment.positions.index(start) + 1]
    segment.file.pwrite(start + 34, b"\xff\xff\xff")
    bad = segment.file.pread(start, end - start)
    repaired = _repair(partition, segment)
    assert repaired is not None
    (damage,) = repaired.damages
    lost = [one for one in before if damage.first_offset <= one.offset < damage.next_offset]
    assert (damage.start, damage.end) == (start, end)
    assert _read(partition) == [message for message in before if message not in lost]
    assert len(lost) in (1, 2)
    (saved,) = repaired.saved
    assert read_file(partition.disk, saved, size_max=10_000) == bad
    assert saved.startswith("/store/quarantine/keratin-orders-0-")
    found = verify_partition(partition.disk, partition.paths)
    assert found.verdict is Verdict.WHOLE
    assert not any(one.index_problems for one in found.segments)
    assert _repair(partition, segment) is None


def test_a_damaged_header_is_written_again(partition: FakePartition) -> None:
    segment = partition.built[1]
    before = partition.kept()
    segment.file.pwrite(30, b"\xff")
    assert verify_partition(partition.disk, partition.paths).verdict is Verdict.CORRUPT
    repaired = _repair(partition, segment)
    assert repaired is not None
    (damage,) = repaired.damages
    assert (damage.start, damage.end) == (0, RECORDS_START)
    assert damage.first_offset == damage.next_offset, "no message is lost"
    assert len(repaired.saved) == 1
    assert _read(partition) == before
    assert verify_partition(partition.disk, partition.paths).verdict is Verdict.WHOLE


def test_bytes_that_were_saved_before_are_not_replaced(partition: FakePartition) -> None:
    segment = partition.built[1]
    info, log = segment.info(), segment.file.pread(0, segment.end)
    for place in (34, 35):
        replace_atomically(partition.disk, segment.path, log)
        with partition.disk.open(segment.path, writable=True) as file:
            file.pwrite(segment.positions[1] + place, b"\xff\xff")
        assert _repair_info(partition, info) is not None
    assert len(partition.disk.names(partition.paths.quarantine)) == 2


def test_messages_that_had_been_removed_before_are_not_lost(partition: FakePartition) -> None:
    segment = partition.built[1]
    info, base = segment.info(), segment.base_offset
    segment.file.pwrite(RECORDS_START, bytes(segment.positions[2] - RECORDS_START))
    damaged = segment.file.pread(0, segment.end)
    for start_offset, lost in ((0, (base, base + 2)), (base + 1, (base + 1, base + 2))):
        replace_atomically(partition.disk, segment.path, damaged)
        repaired = _repair_info(partition, info, start_offset=start_offset)
        assert repaired is not None
        assert [(one.first_offset, one.next_offset) for one in repaired.damages] == [lost]
        which = f"offsets {base} to {base + 1}" if lost[0] == base else f"offset {base + 1}"
        assert str(repaired.damages[0]).endswith(f"; {which} may be lost")
    replace_atomically(partition.disk, segment.path, damaged)
    repaired = _repair_info(partition, info, start_offset=base + 2)
    assert repaired is not None
    assert "lost" not in str(repaired.damages[0])


def test_a_segment_that_was_cut_short_keeps_its_last_offset(partition: FakePartition) -> None:
    segment = partition.built[1]
    before = partition.kept()
    segment.file.truncate(segment.positions[3] + 5)
    repaired = _repair(partition, segment)
    assert repaired is not None
    (damage,) = repaired.damages
    lost = [one for one in segment.messages if one.offset >= damage.first_offset]
    assert damage.next_offset == segment.next_offset
    assert lost
    assert _read(partition) == [message for message in before if message not in lost]
    found = verify_partition(partition.disk, partition.paths).segments[1].inspection
    assert found is not None
    assert (found.next_offset, found.control_count) == (segment.next_offset, 1)


def test_a_batch_that_cannot_be_opened_is_left_out(partition: FakePartition) -> None:
    partition.append_raw(b"no batch", flags=int(RecordFlags.BATCH))
    partition.append(b"behind")
    partition.roll()
    partition.publish()
    repaired = _repair(partition, partition.built[-2])
    assert repaired is not None
    assert "cannot be decoded" in repaired.damages[0].problem
    assert _read(partition) == partition.kept()


def test_nothing_is_left_of_a_segment_of_noise_but_its_place(partition: FakePartition) -> None:
    segment = partition.built[1]
    noise = Random(1).randbytes(segment.end - RECORDS_START)
    segment.file.pwrite(RECORDS_START, noise)
    repaired = _repair(partition, segment)
    assert repaired is not None
    lost = segment.messages
    assert _read(partition) == [one for one in partition.kept() if one not in lost]
    assert read_file(partition.disk, repaired.saved[0], size_max=10_000) == noise


def test_the_active_segment_is_not_repaired(partition: FakePartition) -> None:
    with pytest.raises(InputError, match="not sealed"):
        _repair(partition, partition.active)


# Judging a partition.


def test_a_missing_segment_is_a_loss(partition: FakePartition) -> None:
    gone = partition.built[1]
    partition.disk.unlink(gone.path)
    found = verify_partition(partition.disk, partition.paths)
    assert found.verdict is Verdict.CORRUPT
    assert found.lost_offsets == ((gone.base_offset, gone.next_offset),)


def test_a_torn_tail_is_torn_unless_a_writer_is_at_work(partition: FakePartition) -> None:
    partition.append(b"half written")
    segment = partition.active
    segment.file.truncate(segment.end - 3)
    assert verify_partition(partition.disk, partition.paths).verdict is Verdict.TORN
    live = verify_partition(partition.disk, partition.paths, is_live=True)
    assert live.verdict is Verdict.WHOLE


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_bad_manifest_is_a_problem_and_no_loss(partition: FakePartition, harm: str) -> None:
    path = partition.paths.manifest
    if harm == "missing":
        partition.disk.unlink(path)
    else:
        with partition.disk.open(path, writable=True) as file:
            file.pwrite(40, b"\xff\xff")
    found = verify_partition(partition.disk, partition.paths)
    assert len(found.problems) == 1
    assert found.verdict is Verdict.WHOLE
    assert found.next_offset == partition.high_watermark()


@pytest.mark.parametrize("file", [SegmentFile.INDEX, SegmentFile.TIME_INDEX])
@pytest.mark.parametrize("harm", ["missing", "header", "entry"])
def test_a_bad_index_is_told_and_no_loss(
    partition: FakePartition, file: SegmentFile, harm: str
) -> None:
    path = partition.paths.segment(partition.built[1].base_offset, file)
    if harm == "missing":
        partition.disk.unlink(path)
    else:
        with partition.disk.open(path, writable=True) as index:
            # A later time, or another place: either is the end of the entry's number.
            place = 79 if file is SegmentFile.TIME_INDEX else 87
            index.pwrite(9 if harm == "header" else place, b"\xff")
    found = verify_partition(partition.disk, partition.paths)
    assert found.verdict is Verdict.WHOLE
    assert len(found.segments[1].index_problems) >= 1
    assert not found.segments[0].index_problems


def test_an_index_entry_that_leads_to_another_record_is_told(partition: FakePartition) -> None:
    segment = partition.built[1]
    path = partition.paths.segment(segment.base_offset, SegmentFile.INDEX)
    with partition.disk.open(path, writable=True) as index:
        index.pwrite(72, (segment.places[0].relative_offset - 1).to_bytes(4, "big"))
    found = verify_partition(partition.disk, partition.paths)
    assert len(found.segments[1].index_problems) == 1


def test_left_over_files_and_unknown_flags_are_noted(partition: FakePartition) -> None:
    partition.disk.create(f"{partition.paths.segments}/x.log.7.tmp").close()
    partition.append_raw(b"new", flags=1 << 12)
    partition.publish()
    found = verify_partition(partition.disk, partition.paths)
    assert len(found.notes) == 2
    assert found.verdict is Verdict.WHOLE


def test_a_partition_whose_folder_is_missing_is_corrupt(partition: FakePartition) -> None:
    found = verify_partition(partition.disk, TopicPaths("/store", "orders").partition(1))
    assert (found.verdict, len(found.problems)) == (Verdict.CORRUPT, 1)
