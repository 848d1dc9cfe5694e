"""A crash at every step of a rewrite: the old segment or the new one, never a mix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from lakebed.base.damage import Verdict
from lakebed.base.damage_ledger import DamageRecord
from lakebed.base.files import remove_temporaries
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.keratin.compaction_pass import compact
from lakebed.keratin.log_bytes import open_log
from lakebed.keratin.log_inspection import inspect_log
from lakebed.keratin.message import Message
from lakebed.keratin.paths import SegmentFile
from lakebed.keratin.reader import PartitionReader
from lakebed.keratin.repair import repair_segment
from lakebed.keratin.view import PartitionSegment
from tests.fakes.partition import CREATED_MS, FakePartition

NOW_MS = CREATED_MS + 10_000


class Compacts:
    """Values of few keys, deleted in a later segment; then one pass, with tombstones dropped."""

    def __init__(self) -> None:
        self.before: list[Message] = []
        self.infos: list[PartitionSegment] = []
        self.sizes: dict[int, set[int]] = {}
        self.is_done = False

    def build(self, world: World) -> FakePartition:
        partition = FakePartition(
            world.disk, "/store", runner=world.runner, segment_bytes=500, stride_bytes=100
        )
        for number in range(12):
            partition.append(b"%d" % number * 20, key=b"k%d" % (number % 3))
        partition.append(None, key=b"k1")
        partition.append_batch([b"x", b"y" * 50], keys=[b"k2", b"k0"])
        partition.roll()
        partition.publish()
        for segment in partition.built:
            segment.file.sync()
            world.disk.sync_folder(partition.paths.segments)
        return partition

    def run(self, world: World) -> None:
        armed, world.disk.faults.crash_at_step = world.disk.faults.crash_at_step, None
        partition = self.build(world)
        self.before = partition.kept()
        self.infos = [segment.info() for segment in partition.built[:-1]]
        self.sizes = {info.base_offset: {info.end} for info in self.infos}
        self.partition = partition
        world.disk.steps = 0
        world.disk.faults.crash_at_step = armed
        self.act(world)
        self.is_done = True

    def act(self, world: World) -> None:
        for rewritten in compact(
            world.disk,
            self.partition.paths,
            self.infos,
            now_ms=NOW_MS,
            tombstone_ms=1000,
            index_stride_bytes=100,
        ):
            self.partition.take_over(rewritten)
            self.sizes[rewritten.info.base_offset] = {rewritten.info.end}

    def check(self, world: World) -> None:
        remove_temporaries(world.disk, self.partition.paths.segments)
        after = self.read(world)
        assert [message for message in self.before if message in after] == after
        assert _state(after) == _state(self.before), "a deleted value came back"
        if self.is_done:
            assert {one.key for one in after} == {b"k0", b"k2"}

    def read(self, world: World) -> list[Message]:
        """Every sealed log is whole, whichever of the two it is."""
        after: list[Message] = []
        for info in self.infos:
            path = self.partition.paths.segment(info.base_offset, SegmentFile.LOG)
            log = open_log(world.disk, path, base_offset=info.base_offset, is_sealed=True)
            size = log.size
            found = inspect_log(log, sealed_end=size, next_offset=info.next_offset)
            log.close()
            assert found.verdict is Verdict.WHOLE
            assert found.next_offset == info.next_offset
            after += self.messages(world, replace(info, end=size))
        return after

    def messages(self, world: World, info: PartitionSegment) -> list[Message]:
        view = _OneSegment(world, info)
        with PartitionReader(view) as reader:
            return list(reader.read())


class Repairs(Compacts):
    """A bad record, left out: saved before it is gone."""

    def build(self, world: World) -> FakePartition:
        partition = super().build(world)
        segment = partition.built[0]
        self.bad_at = segment.positions[1]
        self.bad_end = segment.positions[2]
        segment.file.pwrite(self.bad_at + 40, b"\xff\xff")
        segment.file.sync()
        self.bad = segment.file.pread(self.bad_at, self.bad_end - self.bad_at)
        return partition

    def act(self, world: World) -> None:
        repaired = repair_segment(
            world.disk,
            self.partition.paths,
            self.infos[0],
            start_offset=0,
            index_stride_bytes=100,
            created_ms=CREATED_MS,
        )
        assert repaired is not None

    def check(self, world: World) -> None:
        remove_temporaries(world.disk, self.partition.paths.segments)
        path = self.partition.paths.segment(0, SegmentFile.LOG)
        with world.disk.open(path) as file:
            size = file.size()
            is_old = file.pread(self.bad_at, len(self.bad)) == self.bad
        assert is_old or size < self.infos[0].end
        if self.is_done:
            assert not is_old
        if not is_old:
            quarantine = self.partition.paths.quarantine
            (name,) = world.disk.names(quarantine)
            with world.disk.open(f"{quarantine}/{name}") as saved:
                assert saved.pread(0, 10_000) == self.bad, "gone before it was saved"
            assert self.messages(world, replace(self.infos[0], end=size))


class _OneSegment:
    """A sealed segment alone, as a partition."""

    def __init__(self, world: World, info: PartitionSegment) -> None:
        self.name = "one"
        self.disk = world.disk
        self.runner = world.runner
        self._info = info

    def segments(self) -> list[PartitionSegment]:
        return [self._info]

    def lost_offsets(self) -> Sequence[DamageRecord]:
        return ()

    def start_offset(self) -> int:
        return self._info.base_offset

    def high_watermark(self) -> int:
        return self._info.next_offset

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        return False

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        raise NotImplementedError


def _state(messages: list[Message]) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for message in messages:
        assert message.key is not None
        state.pop(message.key, None)
        if message.value is not None:
            state[message.key] = message.value
    return state


@pytest.mark.sweep
@pytest.mark.parametrize("scenario", [Compacts, Repairs])
def test_old_or_new_but_never_a_mix(scenario: type[Compacts]) -> None:
    assert sweep(scenario, seeds=range(1), survivors=range(3)) > 60
