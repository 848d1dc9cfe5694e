"""Whatever is written is read back, by every way of reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.keratin.compression import Compression
from lakebed.keratin.follower import Follower
from lakebed.keratin.message import Message
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.reader import PartitionReader
from lakebed.kernels.disk import real_disk
from tests.fakes.partition import FakePartition

pytestmark = pytest.mark.thorough

KEYS = st.none() | st.binary(max_size=4)
VALUES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
STAMPS = st.integers(0, 20)
PLAIN = st.tuples(st.just("plain"), KEYS, VALUES, HEADERS, STAMPS)
BATCH = st.tuples(
    st.just("batch"),
    st.lists(st.tuples(KEYS, VALUES, HEADERS, STAMPS), min_size=1, max_size=5),
    st.sampled_from(Compression),
)
OTHER = st.sampled_from([("control",), ("gap",), ("roll",)])
STEPS = st.lists(PLAIN | BATCH | OTHER, max_size=20)


def _apply(partition: FakePartition, step: tuple[object, ...]) -> None:
    match step:
        case ("plain", key, value, headers, stamp):
            partition.append(value, key=key, headers=headers, timestamp_ms=stamp)  # type: ignore[arg-type]
        case ("batch", rows, compression):
            keys, values, headers, stamps = zip(*rows, strict=True)  # type: ignore[misc]
            partition.append_batch(
                values,
                keys=keys,
                headers=headers,
                timestamps_ms=stamps,
                compression=compression,  # type: ignore[arg-type]
            )
        case ("control",):
            partition.append_control()
        case ("gap",):
            partition.skip_offsets(2)
        case ("roll",):
            partition.roll()


@contextmanager
def _built(
    steps: list[tuple[object, ...]], *, is_real: bool, first_offset: int
) -> Iterator[FakePartition]:
    with TemporaryDirectory() as folder, ThreadRunner() as runner:
        disk: Disk = real_disk() if is_real else SimulatedDisk(Random(0))
        partition = FakePartition(
            disk,
            folder if is_real else "/store",
            runner=runner,
            segment_bytes=700,
            stride_bytes=100,
            first_offset=first_offset,
        )
        for step in steps:
            _apply(partition, step)
        partition.publish()
        yield partition
        partition.close()


@settings(max_examples=40)
@given(
    steps=STEPS,
    is_real=st.booleans(),
    first_offset=st.sampled_from([0, 7, 1 << 40]),
    window_bytes=st.sampled_from([1, 64, 500, 1 << 20]),
    handles_max=st.integers(1, 3),
)
def test_any_partition_is_read_like_its_model(
    steps: list[tuple[object, ...]],
    is_real: bool,
    first_offset: int,
    window_bytes: int,
    handles_max: int,
) -> None:
    with _built(steps, is_real=is_real, first_offset=first_offset) as partition:
        model = partition.kept()
        with PartitionReader(
            partition, window_bytes=window_bytes, handles_max=handles_max
        ) as reader:
            _check_all_ways(reader, model, partition)
        with (
            ReadOnlyPartition(
                partition.paths, disk=partition.disk, runner=partition.runner
            ) as beside,
            PartitionReader(beside, window_bytes=window_bytes) as reader,
        ):
            _check_all_ways(reader, model, partition)
        with Follower(partition, batch_bytes_max=window_bytes) as follower:
            assert [next(follower) for _ in model] == model
            assert follower.next_batch(0) is None


def _check_all_ways(
    reader: PartitionReader, model: list[Message], partition: FakePartition
) -> None:
    end = partition.high_watermark()
    assert list(reader.read()) == model
    assert [reader.get(message.offset) for message in reversed(model)] == model[::-1]
    for batch in reader.read_batches():
        messages = list(batch)
        assert [batch.message(index) for index in range(len(batch))] == messages
        assert batch.offsets.tolist() == [message.offset for message in messages]
        assert batch.timestamps_ms.tolist() == [message.timestamp_ms for message in messages]
        assert batch.flags.tolist() == [message.flags for message in messages]
        assert [_bytes(view) for view in batch.values()] == [one.value for one in messages]
        keys = batch.keys()
        assert [_bytes(view) for view in keys] == [one.key for one in messages]
        assert list(batch.part(len(batch) // 2, len(batch))) == messages[len(batch) // 2 :]
    for offset in range(partition.start_offset(), end + 1):
        rest = [message for message in model if message.offset >= offset]
        assert list(reader.scan_from(offset)) == rest
        assert list(reader.scan_from(offset, max_messages=2)) == rest[:2]
    for stamp in range(22):
        later = [message.offset for message in model if message.timestamp_ms >= stamp]
        assert reader.offset_for_time(stamp) == [*later, end][0]


def _bytes(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)
