"""Reading a partition whose files were built by hand, on both disks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import Closed, Corrupt, InputError, NotFound
from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.world import World
from lakebed.keratin.compression import Compression
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.message import Message
from lakebed.keratin.paths import SegmentFile
from lakebed.keratin.reader import PartitionReader
from lakebed.keratin.record_batch import BatchAttributes
from lakebed.kernels import keratin_scan
from lakebed.kernels.disk import real_disk
from tests.fakes.partition import FakePartition


@pytest.fixture(params=["real", "simulated"])
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakePartition]:
    disk: Disk = real_disk() if request.param == "real" else SimulatedDisk(Random(0))
    with ThreadRunner() as runner:
        partition = FakePartition(disk, str(tmp_path), runner=runner)
        yield partition
        partition.close()


@pytest.fixture
def reader(partition: FakePartition) -> Iterator[PartitionReader]:
    with PartitionReader(partition) as reader:
        yield reader


def fill(partition: FakePartition, count: int = 30, *, size: int = 300) -> list[Message]:
    """Plain messages with and without keys and headers, over some segments."""
    for number in range(count):
        partition.append(
            number.to_bytes(4, "big") * (size // 4),
            key=None if number % 3 else b"key %d" % (number % 5),
            headers=[("trace", b"%d" % number), ("none", None)] if number % 4 == 0 else (),
            timestamp_ms=1000 + number,
        )
    partition.publish()
    return partition.kept()


def fill_mixed(partition: FakePartition) -> list[Message]:
    """Every kind of record."""
    codecs = list(Compression)
    for number in range(12):
        partition.append(b"plain %d" % number * 20, key=b"p", timestamp_ms=1000 + 10 * number)
        if number % 2:
            partition.append_batch(
                [b"first", None, b"x" * 90, b""],
                keys=[b"a", b"b", None, b""],
                headers=[[("h", b"1")], [], [("n", None)], []],
                timestamps_ms=[1000 + 10 * number + index for index in (3, 1, 2, 0)],
                compression=codecs[number % len(codecs)],
            )
        if number % 3 == 0:
            partition.append_control()
        if number % 5 == 0:
            partition.append_batch([b"a mark"], attributes=BatchAttributes.CONTROL)
            partition.skip_offsets(3)
        partition.append(None, key=b"gone", timestamp_ms=1005)
    partition.append_control()
    partition.publish()
    return partition.kept()


# What was written is read.


def test_messages_come_back_in_order_across_segments(
    partition: FakePartition, reader: PartitionReader
) -> None:
    messages = fill(partition)
    assert len(partition.built) > 2
    assert list(reader.read()) == messages
    assert list(reader.scan_from(0)) == messages
    assert [reader.get(message.offset) for message in messages] == messages


def test_every_kind_of_record_gives_its_messages(
    partition: FakePartition, reader: PartitionReader
) -> None:
    messages = fill_mixed(partition)
    assert list(reader.read()) == messages
    assert len(partition.built) > 1
    for index, message in enumerate(messages):
        assert list(reader.scan_from(message.offset)) == messages[index:]
        assert reader.get(message.offset) == message


def test_an_offset_without_a_message_begins_at_the_next_one(
    partition: FakePartition, reader: PartitionReader
) -> None:
    messages = fill_mixed(partition)
    offsets = {message.offset for message in messages}
    for offset in range(partition.high_watermark()):
        expected = [message for message in messages if message.offset >= offset]
        assert list(reader.scan_from(offset)) == expected
        if offset not in offsets:
            with pytest.raises(NotFound, match=f"no message with offset {offset}"):
                reader.get(offset)


def test_an_empty_partition_has_nothing_to_read(
    partition: FakePartition, reader: PartitionReader
) -> None:
    for _ in range(2):
        assert list(reader.read()) == []
        assert list(reader.scan_from(0)) == []
        assert reader.offset_for_time(0) == 0
        fetched = reader.fetch(0, 100)
        assert (bytes(fetched.data), fetched.base_offset, fetched.next_offset) == (b"", 0, 0)
        with pytest.raises(NotFound):
            reader.get(0)
        partition.publish()


def test_what_is_not_durable_is_not_read(partition: FakePartition, reader: PartitionReader) -> None:
    messages = fill(partition, 3)
    later = partition.append(b"appended, not flushed")
    assert list(reader.read()) == messages
    assert list(reader.read(0, later.offset + 1)) == messages
    assert not reader.fetch(later.offset, 1000).data
    assert reader.offset_for_time(0xFFFF_FFFF_FFFF) == later.offset
    with pytest.raises(NotFound):
        reader.get(later.offset)
    partition.publish()
    assert reader.get(later.offset) == later


@pytest.mark.parametrize("offset", [-1, -(1 << 63), 1 << 63, 1 << 64, 31])
def test_an_offset_out_of_range_is_refused_at_once(
    partition: FakePartition, reader: PartitionReader, offset: int
) -> None:
    fill(partition, 30)
    for attempt in (reader.scan_from, reader.read, reader.get, reader.read_batches):
        with pytest.raises(OffsetOutOfRange) as caught:
            attempt(offset)
        assert (caught.value.start_offset, caught.value.high_watermark) == (0, 30)
    with pytest.raises(OffsetOutOfRange):
        reader.fetch(offset, 1)
    with pytest.raises(InputError):
        reader.read(5, 4)


def test_messages_before_the_start_are_gone(
    partition: FakePartition, reader: PartitionReader
) -> None:
    messages = fill(partition)
    partition.truncate_before(13)
    assert list(reader.read()) == messages[13:]
    with pytest.raises(OffsetOutOfRange):
        reader.scan_from(12)


def test_a_range_of_offsets_is_read_exactly(
    partition: FakePartition, reader: PartitionReader
) -> None:
    messages = fill_mixed(partition)
    for start in range(0, partition.high_watermark(), 3):
        for end in range(start, partition.high_watermark() + 5, 4):
            expected = [message for message in messages if start <= message.offset < end]
            assert list(reader.read(start, end)) == expected


def test_a_read_keeps_the_end_it_began_with(partition: FakePartition) -> None:
    messages = fill(partition)
    with PartitionReader(partition, window_bytes=64) as reader:
        reading = reader.read(0, 1 << 40)
        assert next(reading) == messages[0]
        partition.append(b"later")
        partition.roll()
        partition.append(b"and in the next segment")
        partition.publish()
        assert list(reading) == messages[1:]


def test_a_message_longer_than_the_window_is_read(partition: FakePartition) -> None:
    values = [b"a" * 10, b"b" * 3000, b"c" * 10, b"d" * 9000, b"e" * 10]
    for value in values:
        partition.append(value)
    partition.publish()
    with PartitionReader(partition, window_bytes=64) as reader:
        assert [message.value for message in reader.read()] == values
        assert [len(batch) for batch in reader.read_batches(batch_bytes_max=1)] == [1] * 5


# Limits of a scan.


def test_a_scan_ends_after_so_many_messages_or_bytes(
    partition: FakePartition, reader: PartitionReader
) -> None:
    for number in range(20):
        partition.append(b"v" * 90, key=b"k" * 10, timestamp_ms=number)
    partition.publish()
    messages = partition.kept()
    assert list(reader.scan_from(3, max_messages=5)) == messages[3:8]
    assert list(reader.scan_from(3, max_messages=0)) == []
    assert list(reader.scan_from(3, max_messages=100)) == messages[3:]
    assert list(reader.scan_from(3, max_bytes=500)) == messages[3:8]
    assert list(reader.scan_from(3, max_bytes=599)) == messages[3:8]
    assert list(reader.scan_from(3, max_bytes=0)) == messages[3:4], "one at least"
    assert list(reader.scan_from(3, max_bytes=500, max_messages=2)) == messages[3:5]
    with pytest.raises(InputError):
        reader.scan_from(3, max_messages=-1)


# Raw bytes.


def test_fetched_bytes_are_whole_records_that_continue(
    partition: FakePartition, reader: PartitionReader
) -> None:
    messages = fill_mixed(partition)
    for max_bytes in (0, 100, 700, 1 << 20):
        offset, offsets = 0, []
        while (fetched := reader.fetch(offset, max_bytes)).data:
            scan = keratin_scan(fetched.data, 0, len(fetched.data), count_max=1 << 20)
            assert scan.end == len(fetched.data)
            assert scan.offsets[0] == fetched.base_offset
            assert len(fetched.data) <= max_bytes or len(scan.offsets) == 1
            offsets += scan.offsets.tolist()
            offset = fetched.next_offset
        assert fetched.next_offset == partition.high_watermark()
        assert offsets == sorted(set(offsets))
        plain = {message.offset for message in messages if message.key in (b"p", b"gone")}
        assert plain <= set(offsets)


def test_a_fetch_inside_a_batch_gives_the_whole_batch(
    partition: FakePartition, reader: PartitionReader
) -> None:
    partition.append(b"before")
    partition.append_batch([b"1", b"2", b"3"])
    partition.append(b"behind")
    partition.publish()
    fetched = reader.fetch(2, 1)
    assert (fetched.base_offset, fetched.next_offset) == (1, 4)
    assert reader.fetch(3, 1 << 20).next_offset == 5


def test_bytes_that_were_fetched_outlive_the_reader(
    partition: FakePartition, reader: PartitionReader
) -> None:
    fill(partition)
    first, again = reader.fetch(0, 1000), reader.fetch(0, 2000)
    reader.close()
    assert bytes(first.data) == bytes(again.data[: len(first.data)])


# Time.


def test_the_first_message_not_older_is_found_although_stamps_are_not_sorted(
    partition: FakePartition, reader: PartitionReader
) -> None:
    stamps = [50, 10, 70, 20, 20, 90, 5, 60, 95, 3, 2, 1, 94]
    for stamp in stamps:
        partition.append(b"x" * 700, timestamp_ms=stamp)
    partition.append_batch([b"1", b"2", b"3"], timestamps_ms=[80, 99, 97])
    partition.publish()
    stamps += [80, 99, 97]
    for wanted in range(101):
        expected = [i for i, stamp in enumerate(stamps) if stamp >= wanted]
        assert reader.offset_for_time(wanted) == [*expected, len(stamps)][0]


def test_searching_a_time_does_not_read_the_segments_that_are_older(
    partition: FakePartition, reader: PartitionReader
) -> None:
    fill(partition)
    first = partition.built[0]
    _flip(partition, first.positions[1] + 40)
    wanted = partition.built[1].messages[2]
    assert reader.offset_for_time(wanted.timestamp_ms) == wanted.offset


# Indexes lead, and are not believed.


@pytest.mark.parametrize(
    "harm", ["gone", "torn", "another", "shifted", "renamed", "noise", "empty"]
)
@pytest.mark.parametrize("file", [SegmentFile.INDEX, SegmentFile.TIME_INDEX])
def test_a_wrong_index_costs_time_and_nothing_else(
    partition: FakePartition, harm: str, file: SegmentFile
) -> None:
    messages = fill_mixed(partition)
    _harm_indexes(partition, file, harm)
    with PartitionReader(partition) as reader:
        assert list(reader.read()) == messages
        assert [reader.get(message.offset) for message in reversed(messages)] == messages[::-1]
        for wanted in range(990, 1130, 7):
            later = [one.offset for one in messages if one.timestamp_ms >= wanted]
            assert reader.offset_for_time(wanted) == [*later, partition.high_watermark()][0]


def _harm_indexes(partition: FakePartition, file: SegmentFile, harm: str) -> None:
    for segment in partition.built:
        path = partition.paths.segment(segment.base_offset, file)
        if harm == "gone":
            partition.disk.unlink(path)
            continue
        with partition.disk.open(path, writable=True) as index:
            size = index.size()
            if harm == "torn":
                index.truncate(max(size - 5, 0))
            elif harm == "empty":
                index.truncate(0)
            elif harm == "another":
                index.pwrite(20, b"\xff")
            elif harm == "noise":
                index.pwrite(72, Random(size).randbytes(size - 72))
            elif harm == "renamed":  # to the right records, by the wrong offsets
                for place in range(72 if file is SegmentFile.INDEX else 80, size, 16):
                    relative = int.from_bytes(index.pread(place, 4), "big")
                    index.pwrite(place, max(relative - 1, 0).to_bytes(4, "big"))
            elif file is SegmentFile.INDEX:
                for entry in segment.places:
                    place = 72 + 16 * segment.places.index(entry)
                    index.pwrite(place + 8, (entry.position + 3).to_bytes(8, "big"))
            else:
                for place in range(72, size, 16):  # every message seems older than it is
                    index.pwrite(place, (1 + place).to_bytes(8, "big"))


def test_an_index_that_leads_elsewhere_is_forgotten(partition: FakePartition) -> None:
    messages = fill(partition)
    _harm_indexes(partition, SegmentFile.INDEX, "shifted")
    with PartitionReader(partition) as reader:
        for _ in range(2):
            assert reader.get(messages[-1].offset) == messages[-1]


# Removal and replacement.


def test_what_retention_removed_is_out_of_range(
    partition: FakePartition, reader: PartitionReader
) -> None:
    messages = fill(partition)
    partition.remove_oldest()
    for attempt in (reader.get, reader.scan_from):
        with pytest.raises(OffsetOutOfRange):
            attempt(messages[0].offset)
    assert list(reader.read()) == partition.kept()


def test_a_segment_removed_under_a_read_is_out_of_range(partition: FakePartition) -> None:
    fill(partition)
    with PartitionReader(partition, handles_max=1, window_bytes=64) as reader:
        reading = reader.read()
        next(reading)
        start = partition.built[2].base_offset
        partition.remove_oldest()
        partition.remove_oldest()
        with pytest.raises(OffsetOutOfRange) as caught:
            list(reading)
        assert caught.value.start_offset == start


def test_a_segment_whose_file_vanished_is_damage(partition: FakePartition) -> None:
    messages = fill(partition)
    gone = partition.built[1]
    partition.disk.unlink(gone.path)
    with PartitionReader(partition) as reader:
        with pytest.raises(Corrupt, match="missing"):
            list(reader.read())
        rest = [message for message in messages if message not in gone.messages]
        skipped: list[tuple[int, int]] = []
        found = reader.read(
            skip_damage=True,
            on_skipped=lambda one: skipped.append((one.first_offset, one.next_offset)),
        )
        assert list(found) == rest
        assert skipped == [(gone.base_offset, gone.next_offset)]


# Handles.


def test_not_more_files_are_kept_open_than_allowed(partition: FakePartition) -> None:
    messages = fill(partition, 60)
    with PartitionReader(partition, handles_max=3) as reader:
        assert list(reader.read()) == messages
        assert reader.open_count == 3
        for message in messages:
            assert reader.get(message.offset) == message
            assert reader.open_count <= 3
    assert reader.open_count == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_is_in_use_is_not_closed(seed: int) -> None:
    """Many threads, one handle, and a close at some moment."""
    world = World(seed)
    partition = FakePartition(world.disk, "/store", runner=world.runner)
    messages = fill(partition, 24)
    reader = PartitionReader(partition, handles_max=1)

    def read() -> None:
        for message in world.random.sample(messages, 6):
            assert reader.get(message.offset) == message
        assert list(reader.read()) == messages

    readers = [world.runner.call(f"reader {number}", read) for number in range(3)]
    if seed % 3 == 0:
        world.runner.call("closer", reader.close)
    world.runner.run()
    for call in readers:
        assert call.error is None or (seed % 3 == 0 and isinstance(call.error, Closed))
    reader.close()


def test_a_closed_reader_reads_nothing(partition: FakePartition) -> None:
    fill(partition, 5)
    reader = PartitionReader(partition)
    reader.close()
    reader.close()
    with pytest.raises(Closed):
        reader.get(0)
    with pytest.raises(Closed):
        list(reader.read())


def _flip(partition: FakePartition, position: int, *, segment: int = 0) -> None:
    file = partition.built[segment].file
    file.pwrite(position, bytes([file.pread(position, 1)[0] ^ 0x40]))
