"""Bytes of version 1, written once and never again: a difference is a new version."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lakebed.base.damage import Verdict
from lakebed.base.files import make_folders
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.keratin.message import Message
from lakebed.keratin.partition_verification import verify_partition
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.reader import PartitionReader
from tests.fakes.partition import CREATED_MS, FakePartition

GOLDEN = Path(__file__).parents[1] / "golden" / "keratin" / "partition_v1"
SEGMENTS = ("00000000000000000100", "00000000000000000108")
NAMES = (
    "manifest.bin",
    "durable_end",
    *(f"segments/{base}.{kind}" for base in SEGMENTS for kind in ("log", "idx", "tidx")),
)
BOOT_ID = bytes(range(16))


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def build(runner: ThreadRunner) -> FakePartition:
    """A sealed segment with every kind of record, and an active one."""
    disk = SimulatedDisk(Random(0))
    partition = FakePartition(
        disk, "/store", runner=runner, first_offset=100, stride_bytes=128, zeros_bytes=16
    )
    partition.append(b"plain")
    partition.append("réservoir".encode(), key=b"key", timestamp_ms=CREATED_MS + 5)
    partition.append(None, key=b"key", headers=[("trace", b"\x00\x01"), ("none", None)])
    partition.append_batch(
        [b"one", None, b""],
        keys=[b"a", b"b", None],
        headers=[[("h", b"v")], [], []],
        timestamps_ms=[CREATED_MS + 1, CREATED_MS + 9, CREATED_MS + 3],
    )
    partition.append_control(b"mark")
    partition.append(bytes(range(256)), timestamp_ms=CREATED_MS + 20)
    partition.roll()
    partition.append(b"", key=b"")
    partition.append(b"last", timestamp_ms=CREATED_MS + 30)
    partition.truncate_before(101)
    partition.publish()
    partition.write_durable_end(boot_id=BOOT_ID)
    return partition


def written(partition: FakePartition, name: str) -> bytes:
    with partition.disk.open(f"{partition.paths.folder}/{name}") as file:
        return file.pread(0, file.size())


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_are_written_today(name: str) -> None:
    with ThreadRunner() as runner:
        assert written(build(runner), name) == golden(name)


def test_the_golden_partition_is_whole_and_read() -> None:
    with ThreadRunner() as runner:
        messages: list[Message] = build(runner).kept()
        disk = SimulatedDisk(Random(1))
        paths = TopicPaths("/copy", "orders").partition(0)
        make_folders(disk, paths.segments)
        for name in NAMES:
            with disk.create(f"{paths.folder}/{name}") as file:
                file.pwrite(0, golden(name))
        found = verify_partition(disk, paths)
        assert found.verdict is Verdict.WHOLE
        assert (found.start_offset, found.next_offset) == (101, 110)
        assert (found.problems, found.notes) == ((), ())
        assert not any(segment.index_problems for segment in found.segments)
        with (
            ReadOnlyPartition(paths, disk=disk, runner=runner) as view,
            PartitionReader(view) as reader,
        ):
            assert list(reader.read()) == messages
            assert len(messages) == 8
            assert reader.get(103).value == b"one"
            assert reader.offset_for_time(CREATED_MS + 9) == 104
