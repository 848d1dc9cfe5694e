"""Following a partition: what waits, what wakes, what is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.errors import Closed
from lakebed.base.runner import ThreadRunner
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.follower import Follower
from lakebed.keratin.message import Message
from lakebed.kernels.disk import real_disk
from tests.fakes.partition import FakePartition


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[FakePartition]:
    with ThreadRunner() as runner:
        partition = FakePartition(real_disk(), str(tmp_path), runner=runner)
        yield partition
        partition.close()


def _fill(partition: FakePartition, count: int, *, size: int = 1) -> list[Message]:
    for number in range(count):
        partition.append(bytes([number]) * size)
    partition.publish()
    return partition.kept()


def test_a_waiting_follower_is_woken_by_a_publication_and_by_close(
    partition: FakePartition,
) -> None:
    follower = Follower(partition)
    taken: list[Message] = []
    got_one = threading.Event()

    def follow() -> None:
        for message in follower:
            taken.append(message)
            got_one.set()

    thread = threading.Thread(target=follow)
    thread.start()
    messages = _fill(partition, 1)
    assert got_one.wait(10)
    follower.close()
    thread.join(10)
    assert not thread.is_alive()
    assert taken == messages
    with pytest.raises(Closed, match="follower was closed"):
        follower.next_batch(0)


def test_a_batch_continues_where_the_messages_ended(partition: FakePartition) -> None:
    messages = _fill(partition, 5)
    with Follower(partition) as follower:
        assert [next(follower) for _ in range(2)] == messages[:2]
        assert follower.position == 2
        batch = follower.next_batch(0)
        assert batch is not None
        assert list(batch) == messages[2:]
        assert follower.next_batch(0) is None
        assert follower.position == 5


def test_it_goes_on_behind_control_records_and_gaps(partition: FakePartition) -> None:
    _fill(partition, 1)
    with Follower(partition) as follower:
        next(follower)
        partition.append_control()
        partition.skip_offsets(5)
        partition.publish()
        assert follower.next_batch(0) is None
        assert follower.position == partition.high_watermark()
        later = partition.append(b"later")
        partition.publish()
        assert next(follower) == later


def test_following_from_an_offset_inside_a_batch(partition: FakePartition) -> None:
    messages = partition.append_batch([b"a", b"b", b"c"])
    partition.publish()
    with Follower(partition, 1) as follower:
        assert next(follower) == messages[1]
        assert follower.position == 2
        assert next(follower) == messages[2]


def test_following_from_the_high_watermark_gives_what_comes_after(
    partition: FakePartition,
) -> None:
    for _ in range(2):
        with Follower(partition, partition.high_watermark()) as follower:
            assert follower.next_batch(0) is None
            message = partition.append(b"new")
            partition.publish()
            assert next(follower) == message


def test_an_offset_that_is_not_there_yet_is_refused(partition: FakePartition) -> None:
    _fill(partition, 3)
    with Follower(partition, 9) as follower, pytest.raises(OffsetOutOfRange):
        follower.next_batch(0)


def test_a_follower_that_fell_behind_retention_is_told(partition: FakePartition) -> None:
    _fill(partition, 12, size=1000)
    with Follower(partition, 1) as follower:
        partition.remove_oldest()
        with pytest.raises(OffsetOutOfRange):
            next(follower)


def test_a_segment_that_was_read_to_its_end_may_go(partition: FakePartition) -> None:
    messages = _fill(partition, 3)
    with Follower(partition) as follower:
        assert [next(follower) for _ in range(3)] == messages
        partition.roll()
        later = partition.append(b"in the next one")
        partition.publish()
        partition.remove_oldest()
        assert next(follower) == later
        assert follower.next_batch(0) is None


def test_a_closed_partition_ends_it_with_an_error(partition: FakePartition) -> None:
    follower = Follower(partition)
    partition.close()
    with pytest.raises(Closed, match="partition is closed"):
        next(follower)
    follower.close()
