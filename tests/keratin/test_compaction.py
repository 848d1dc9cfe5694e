"""Key compaction against a model: which messages survive, and what the new segments are."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt
from lakebed.base.files import read_file, replace_atomically
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.units import MIB
from lakebed.keratin.compaction import Survivors
from lakebed.keratin.compaction_pass import compact
from lakebed.keratin.compression import Compression
from lakebed.keratin.format import LOG_HEADER
from lakebed.keratin.headers import HEADERS_COUNT_MAX
from lakebed.keratin.log_bytes import open_log
from lakebed.keratin.message import Message
from lakebed.keratin.partition_verification import verify_partition
from lakebed.keratin.reader import PartitionReader
from lakebed.keratin.segment_rewrite import RewrittenSegment, whole_runs
from lakebed.kernels import crc32c
from tests.fakes.partition import FakePartition, FakeSegment

NEVER_MS = 1 << 50


@pytest.fixture
def partition() -> Iterator[FakePartition]:
    with ThreadRunner() as runner:
        yield make(runner)


def make(runner: ThreadRunner) -> FakePartition:
    disk = SimulatedDisk(Random(0))
    return FakePartition(disk, "/store", runner=runner, segment_bytes=600, stride_bytes=100)


def run_pass(
    partition: FakePartition,
    *,
    now_ms: int = 0,
    tombstone_ms: int = NEVER_MS,
    keys_max: int = 1000,
) -> list[RewrittenSegment]:
    """As the writer does it: what was rewritten is taken over at once."""
    sealed = [segment.info() for segment in partition.built if segment.is_sealed]
    done = []
    for rewritten in compact(
        partition.disk,
        partition.paths,
        sealed,
        now_ms=now_ms,
        tombstone_ms=tombstone_ms,
        index_stride_bytes=100,
        keys_max=keys_max,
    ):
        partition.take_over(rewritten)
        done.append(rewritten)
    partition.publish()
    return done


def read(partition: FakePartition) -> list[Message]:
    with PartitionReader(partition) as reader:
        return list(reader.read())


def survivors(
    messages: list[Message], *, sealed_end: int, drops_tombstones: bool = False
) -> list[Message]:
    """By the rule: the last of each key in the sealed part, and all without a key."""
    last = {
        one.key: one.offset for one in messages if one.offset < sealed_end and one.key is not None
    }
    return [
        one
        for one in messages
        if one.offset >= sealed_end
        or one.key is None
        or (last[one.key] == one.offset and not (drops_tombstones and one.is_tombstone))
    ]


def _fill(partition: FakePartition) -> None:
    for number in range(40):
        partition.append(b"%d " % number * 10, key=b"k%d" % (number % 3), timestamp_ms=number)
        if number % 10 == 0:
            partition.append(b"no key", timestamp_ms=number)
            partition.append_control()
    partition.append(b"the newest", key=b"k0")
    partition.publish()


def test_the_last_value_of_each_key_survives(partition: FakePartition) -> None:
    _fill(partition)
    before = partition.kept()
    done = run_pass(partition)
    assert read(partition) == survivors(before, sealed_end=partition.active.base_offset)
    assert len(read(partition)) < len(before) / 2
    assert all(one.info.generation == 1 and one.removed_bytes > 0 for one in done)
    assert len(done) >= len(partition.built) - 2


def test_the_active_segment_is_not_touched(partition: FakePartition) -> None:
    _fill(partition)
    active = partition.active
    data = active.file.pread(0, active.end)
    run_pass(partition)
    assert active.file.pread(0, active.end) == data
    assert active.generation == 0


def test_a_second_pass_changes_nothing(partition: FakePartition) -> None:
    _fill(partition)
    run_pass(partition)
    after = read(partition)
    assert run_pass(partition) == []
    assert read(partition) == after


def test_what_is_left_is_whole_and_ends_where_it_did(partition: FakePartition) -> None:
    _fill(partition)
    ends = [segment.next_offset for segment in partition.built]
    run_pass(partition)
    found = verify_partition(partition.disk, partition.paths)
    assert found.verdict.value == "whole"
    assert not found.problems
    assert not any(segment.index_problems for segment in found.segments)
    # The log alone tells: an empty control record holds the place of the last message.
    assert [one.inspection.next_offset for one in found.segments if one.inspection] == ends


def test_offsets_that_were_left_out_are_passed_over(partition: FakePartition) -> None:
    _fill(partition)
    run_pass(partition)
    messages = read(partition)
    with PartitionReader(partition) as reader:
        for offset in range(partition.high_watermark()):
            rest = [message for message in messages if message.offset >= offset]
            assert list(reader.scan_from(offset)) == rest


@pytest.mark.parametrize(("now_ms", "is_gone"), [(100, False), (1000, False), (1011, True)])
def test_a_tombstone_stays_for_a_time_behind_its_segments_newest_message(
    partition: FakePartition, now_ms: int, is_gone: bool
) -> None:
    partition.append(b"value", key=b"k", timestamp_ms=5)
    partition.append(None, key=b"k", timestamp_ms=8)
    partition.append(b"other", key=b"o", timestamp_ms=10)
    partition.roll()
    partition.append(b"active")
    partition.publish()
    run_pass(partition, now_ms=now_ms, tombstone_ms=1000)
    keys = [message.key for message in read(partition)]
    assert keys == ([b"o", None] if is_gone else [b"k", b"o", None])


def test_a_batch_stays_whole_or_its_survivors_become_plain_records(
    partition: FakePartition,
) -> None:
    headers = [[("h", b"v")], [], []]
    partition.append_batch([b"a" * 50, b"b" * 50, None], keys=[b"a", b"b", b"c"], headers=headers)
    partition.append_batch([b"d", b"e"], keys=[b"d", b"e"])
    partition.append(b"newer", key=b"b")
    partition.roll()
    partition.publish()
    before = partition.kept()
    (done,) = run_pass(partition)
    assert read(partition) == [one for one in before if one.offset != 1]
    found = verify_partition(partition.disk, partition.paths).segments[0].inspection
    assert found is not None
    assert (found.record_count, found.batch_count) == (4, 1)
    assert done.last_offset == 5


def test_a_segment_that_would_grow_stays_and_so_do_the_tombstones_behind_it(
    partition: FakePartition,
) -> None:
    """Else what the tombstone deletes would come back."""
    values: list[bytes | None] = [b"x" * 400] * 5
    partition.append_batch(
        values, keys=[b"a", b"b", b"c", b"d", b"e"], compression=Compression.ZSTD
    )
    partition.roll()
    partition.append(None, key=b"a", timestamp_ms=1)
    partition.append(b"v", key=b"z", timestamp_ms=1)
    partition.roll()
    partition.publish()
    before = partition.kept()
    assert run_pass(partition, now_ms=NEVER_MS, tombstone_ms=0) == []
    assert read(partition) == before


def test_a_message_with_more_headers_than_may_be_appended_here_is_compacted(
    partition: FakePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that a client encoded may have such a message."""
    monkeypatch.setattr("lakebed.keratin.decoded_batch.HEADERS_COUNT_MAX", 0xFFFF)
    many = [("h", b"") for _ in range(HEADERS_COUNT_MAX + 1)]
    partition.append_batch([b"a", b"old" * 100_000], keys=[b"a", b"b"], headers=[many, []])
    partition.roll()
    partition.append(b"new", key=b"b")
    partition.roll()
    partition.publish()
    assert run_pass(partition)
    assert [(one.key, one.value, len(one.headers)) for one in read(partition)] == [
        (b"a", b"a", len(many)),
        (b"b", b"new", 0),
    ]


@pytest.mark.parametrize("keys_max", [1, 3, 7, 19, 20, 1000])
def test_more_keys_than_fit_into_memory_are_compacted_in_several_passes(
    partition: FakePartition, keys_max: int
) -> None:
    for number in range(60):
        partition.append(b"v" * 20, key=b"%d" % (number % 20), timestamp_ms=number)
        if number % 9 == 0:
            partition.roll()
    partition.roll()
    partition.publish()
    before = partition.kept()
    run_pass(partition, keys_max=keys_max)
    sealed_end = partition.active.base_offset
    assert read(partition) == survivors(before, sealed_end=sealed_end)
    assert len(read(partition)) == 20


def test_no_more_keys_are_held_in_memory_than_allowed(partition: FakePartition) -> None:
    for number in range(200):
        partition.append(b"v", key=b"%d" % number)
    partition.roll()
    sealed = [segment.info() for segment in partition.built if segment.is_sealed]
    held = Survivors(keys_max=16)
    passes = 0
    is_noted = False
    while not is_noted:
        for info in sealed:
            log = open_log(partition.disk, info.path, base_offset=info.base_offset, is_sealed=True)
            for run in whole_runs(log, info):
                held.note(run, path=info.path)
                assert held.key_count <= 16
            log.close()
        passes += 1
        is_noted = held.end_pass()
    assert 200 // 16 <= passes <= 64


def test_a_segment_whose_header_is_longer_than_known_is_compacted(
    partition: FakePartition,
) -> None:
    for number in range(9):
        partition.append(b"v" * 50, key=b"k%d" % (number % 2))
        partition.append(b"last", key=b"l%d" % number)
    partition.roll()
    partition.publish()
    before = partition.kept()
    for segment in partition.built:
        if segment.is_sealed:
            lengthen_header(partition, segment)
    assert run_pass(partition)
    sealed_end = partition.active.base_offset
    assert read(partition) == survivors(before, sealed_end=sealed_end)


def lengthen_header(partition: FakePartition, segment: FakeSegment) -> None:
    """Writes the log again as a release with one more field in the header would have."""
    data, more = read_file(partition.disk, segment.path, size_max=MIB), b"new field"
    header = LOG_HEADER.unpack(data)._replace(header_length=LOG_HEADER.size + len(more))
    checked = LOG_HEADER.pack(header)[: LOG_HEADER.offset_of("crc32c")]
    header = header._replace(crc32c=crc32c(checked + more))
    longer = LOG_HEADER.pack(header) + more + data[LOG_HEADER.size :]
    replace_atomically(partition.disk, segment.path, longer)
    segment.end += len(more)


def test_a_damaged_segment_is_left_to_repair(partition: FakePartition) -> None:
    _fill(partition)
    segment = partition.built[1]
    segment.file.pwrite(segment.positions[1] + 34, b"\xff\xff")
    before = [one.file.pread(0, one.end) for one in partition.built]
    with pytest.raises(Corrupt) as caught:
        run_pass(partition)
    assert (caught.value.path, caught.value.offset) == (segment.path, segment.positions[1])
    assert [one.file.pread(0, one.end) for one in partition.built] == before


ROWS = st.tuples(
    st.none() | st.sampled_from([b"a", b"b", b"c", b""]), st.none() | st.binary(max_size=30)
)


@settings(max_examples=80)
@given(
    steps=st.lists(ROWS | st.lists(ROWS, min_size=1, max_size=4) | st.just("roll"), max_size=30),
    drops_tombstones=st.booleans(),
    keys_max=st.sampled_from([1, 2, 1000]),
)
def test_any_log_is_compacted_like_its_model(
    steps: list[object], drops_tombstones: bool, keys_max: int
) -> None:
    with ThreadRunner() as runner:
        partition = make(runner)
        for step in steps:
            if isinstance(step, tuple):
                key, value = step
                partition.append(value, key=key, timestamp_ms=0)
            elif isinstance(step, list):
                keys, values = zip(*step, strict=True)
                partition.append_batch(values, keys=keys, timestamps_ms=[0] * len(values))
            else:
                partition.roll()
        partition.publish()
        before = partition.kept()
        now_ms = 2 if drops_tombstones else 0
        run_pass(partition, now_ms=now_ms, tombstone_ms=1, keys_max=keys_max)
        after = read(partition)
        sealed_end = partition.active.base_offset
        expected = survivors(before, sealed_end=sealed_end, drops_tombstones=drops_tombstones)
        # A segment whose batches would grow stays as it is: more may be there, never less.
        assert [one for one in after if one in expected] == expected
        assert [one for one in before if one in after] == after
        assert _latest(after, sealed_end) == _latest(before, sealed_end)


def _latest(messages: list[Message], sealed_end: int) -> dict[bytes, bytes]:
    """What the sealed part says of each key."""
    state: dict[bytes, bytes] = {}
    for message in messages:
        if message.key is None or message.offset >= sealed_end:
            continue
        state.pop(message.key, None)
        if message.value is not None:
            state[message.key] = message.value
    return state
