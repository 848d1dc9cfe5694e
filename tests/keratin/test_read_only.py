"""A partition read from beside its writer, whose every step is made by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import Closed, Corrupt, NotFound, UnknownVersion
from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.keratin.durable_end import decode_durable_end, encode_durable_end
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.follower import Follower
from lakebed.keratin.format import DURABLE_END, RECORDS_START
from lakebed.keratin.manifest import PartitionManifest, replace_manifest
from lakebed.keratin.message import Message
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.reader import PartitionReader
from lakebed.kernels.disk import real_disk
from tests.fakes.partition import FakePartition

OTHER_BOOT = b"another boot id!"


@pytest.fixture
def runner() -> Iterator[ThreadRunner]:
    with ThreadRunner() as runner:
        yield runner


@pytest.fixture(params=["real", "simulated"])
def partition(
    request: pytest.FixtureRequest, tmp_path: Path, runner: ThreadRunner
) -> Iterator[FakePartition]:
    disk: Disk = real_disk() if request.param == "real" else SimulatedDisk(Random(0))
    partition = FakePartition(disk, str(tmp_path), runner=runner)
    yield partition
    partition.close()


Beside = Callable[[], ReadOnlyPartition]


@pytest.fixture
def beside(partition: FakePartition, runner: ThreadRunner) -> Iterator[Beside]:
    """Opens the partition as another process would."""
    opened: list[ReadOnlyPartition] = []

    def beside() -> ReadOnlyPartition:
        opened.append(ReadOnlyPartition(partition.paths, disk=partition.disk, runner=runner))
        return opened[-1]

    yield beside
    for one in opened:
        one.close()


def _fill(partition: FakePartition, count: int) -> list[Message]:
    for number in range(count):
        partition.append(number.to_bytes(2, "big") * 300, timestamp_ms=number)
    partition.publish()
    return partition.kept()


def _read(view: ReadOnlyPartition) -> list[Message]:
    with PartitionReader(view) as reader:
        return list(reader.read())


def test_it_reads_exactly_to_the_published_end(partition: FakePartition, beside: Beside) -> None:
    messages = _fill(partition, 20)
    partition.append(b"written, but not published")
    view = beside()
    assert _read(view) == messages
    assert view.high_watermark() == partition.high_watermark()
    assert not view.wait_beyond(view.high_watermark(), 0)
    assert view.name == partition.name


def test_it_writes_nothing(partition: FakePartition, beside: Beside) -> None:
    _fill(partition, 20)
    partition.append(b"not published")
    folders = [partition.paths.folder, partition.paths.segments]
    before = [partition.disk.names(folder) for folder in folders]
    _read(beside())
    assert [partition.disk.names(folder) for folder in folders] == before


def test_new_segments_are_found_when_the_end_moves_there(
    partition: FakePartition, beside: Beside
) -> None:
    _fill(partition, 2)
    view = beside()
    assert len(_read(view)) == 2
    assert _read(view) == partition.kept()
    messages = _fill(partition, 20)
    assert _read(view) == messages
    assert [info.is_sealed for info in view.segments()][-2:] == [True, False]


@pytest.mark.parametrize("boot_id", [None, OTHER_BOOT])
def test_a_segment_that_the_manifest_does_not_know_yet_is_found_in_the_folder(
    partition: FakePartition, beside: Beside, boot_id: bytes | None
) -> None:
    _fill(partition, 2)
    old = partition.manifest()
    messages = _fill(partition, 20)
    view = beside()
    partition.write_durable_end(boot_id=boot_id)
    _put_manifest(partition, old)
    assert _read(view) == messages
    partition.disk.unlink(partition.paths.manifest)
    assert _read(view) == messages
    _put_manifest(partition, None)
    assert _read(view) == messages


def _put_manifest(partition: FakePartition, manifest: PartitionManifest | None) -> None:
    if manifest is None:
        with partition.disk.create(partition.paths.manifest) as file:
            file.pwrite(0, b"KERATIN\0 damaged")
        return
    replace_manifest(partition.disk, partition.paths.manifest, manifest)


def test_a_manifest_that_is_ahead_of_the_end_shows_no_more_than_that(
    partition: FakePartition, beside: Beside
) -> None:
    messages = _fill(partition, 3)
    end = partition.disk.open(partition.paths.durable_end)
    published = end.pread(0, DURABLE_END.size)
    end.close()
    _fill(partition, 20)
    with partition.disk.open(partition.paths.durable_end, writable=True) as file:
        file.pwrite(0, published)
    view = beside()
    assert _read(view) == messages
    assert view.high_watermark() == 3
    active = view.segments()[-1]
    assert (active.base_offset, active.end) == (partition.active.base_offset, RECORDS_START)


@pytest.mark.parametrize("boot_id", [None, OTHER_BOOT])
def test_without_a_published_end_it_ends_before_the_first_bad_record(
    partition: FakePartition, beside: Beside, boot_id: bytes | None
) -> None:
    _fill(partition, 20)
    if boot_id is None:
        partition.disk.unlink(partition.paths.durable_end)
    else:
        partition.write_durable_end(boot_id=boot_id)
    whole = [*partition.kept(), partition.append(b"whole, although nobody confirmed it")]
    partition.append(b"torn" * 10)
    partition.active.file.pwrite(partition.active.positions[-1] + 40, bytes(8))
    view = beside()
    assert _read(view) == whole
    assert view.high_watermark() == whole[-1].offset + 1


def test_what_another_boot_confirmed_is_not_given_up(
    partition: FakePartition, beside: Beside
) -> None:
    """A bad record below it is damage, and not the end."""
    _fill(partition, 3)
    partition.write_durable_end(boot_id=OTHER_BOOT)
    partition.active.file.pwrite(partition.active.positions[1] + 40, b"\xff")
    view = beside()
    assert view.high_watermark() == 3
    with pytest.raises(Corrupt):
        _read(view)


def test_a_damaged_end_file_leaves_what_it_said_before(
    partition: FakePartition, beside: Beside
) -> None:
    messages = _fill(partition, 3)
    view = beside()
    assert _read(view) == messages
    partition.append(b"not confirmed")
    with partition.disk.open(partition.paths.durable_end, writable=True) as file:
        file.pwrite(30, b"\xff\xff")
    assert _read(view) == messages


def test_an_end_file_of_a_newer_version_is_refused(
    partition: FakePartition, beside: Beside
) -> None:
    _fill(partition, 3)
    with partition.disk.open(partition.paths.durable_end, writable=True) as file:
        end = decode_durable_end(file.pread(0, DURABLE_END.size), path="")
        file.pwrite(0, encode_durable_end(end._replace(version=2)))
    with pytest.raises(UnknownVersion):
        beside().high_watermark()


def test_a_partition_without_messages_ends_where_it_begins(
    partition: FakePartition, beside: Beside
) -> None:
    view = beside()
    assert (view.start_offset(), view.high_watermark(), _read(view)) == (0, 0, [])
    partition.publish()
    assert (view.start_offset(), view.high_watermark(), _read(view)) == (0, 0, [])
    assert view.segments()[-1].end == RECORDS_START


def test_the_start_follows_retention(partition: FakePartition, beside: Beside) -> None:
    _fill(partition, 20)
    view = beside()
    partition.remove_oldest()
    assert view.start_offset() == partition.start_offset() > 0
    with PartitionReader(view) as reader:
        with pytest.raises(OffsetOutOfRange):
            reader.read(0)
        assert list(reader.read()) == partition.kept()


def test_a_file_unlinked_under_the_reader_is_read_to_its_end(
    partition: FakePartition, beside: Beside
) -> None:
    _fill(partition, 20)
    first = partition.built[0].messages
    with PartitionReader(beside()) as reader:
        reading = reader.read()
        next(reading)
        partition.remove_oldest()
        assert [next(reading) for _ in first[1:]] == first[1:]


def test_there_must_be_a_partition(partition: FakePartition, runner: ThreadRunner) -> None:
    paths = TopicPaths(str(partition.paths.folder), "orders").partition(3)
    with pytest.raises(NotFound):
        ReadOnlyPartition(paths, disk=partition.disk, runner=runner)


def test_waiting_polls_until_the_writer_publishes(partition: FakePartition, beside: Beside) -> None:
    view = beside()
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(view.wait_beyond(0, 60)))
    thread.start()
    _fill(partition, 1)
    thread.join(60)
    assert done == [True]
    assert not view.wait_beyond(1, 0.001)


def test_a_follower_beside_the_writer_gets_what_is_published(
    partition: FakePartition, beside: Beside
) -> None:
    messages = _fill(partition, 3)
    with Follower(beside()) as follower:
        assert [next(follower) for _ in messages] == messages
        later = partition.append(b"later")
        partition.publish()
        assert next(follower) == later


def test_a_closed_view_says_so_and_wakes_whoever_waits(
    partition: FakePartition, beside: Beside
) -> None:
    _fill(partition, 1)
    view = beside()
    view.close()
    view.close()
    for attempt in (view.segments, view.start_offset, view.high_watermark):
        with pytest.raises(Closed):
            attempt()
    with pytest.raises(Closed):
        view.wait_beyond(1, None)
    with pytest.raises(Closed):
        view.on_durable(lambda: None)
