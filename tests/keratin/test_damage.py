"""Every truncation and every flipped byte of a log: classified right, and never a wrong message."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from lakebed.base.damage import Verdict
from lakebed.base.errors import Corrupt, DataError
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.keratin.compression import Compression
from lakebed.keratin.damage import SkippedRange
from lakebed.keratin.format import RECORDS_START, RecordFlags
from lakebed.keratin.log_bytes import LogBytes, open_log
from lakebed.keratin.log_inspection import LogInspection, inspect_log
from lakebed.keratin.message import Message
from lakebed.keratin.reader import PartitionReader
from lakebed.kernels import keratin_encode
from tests.fakes.partition import CREATED_MS, FakePartition, FakeSegment

pytestmark = pytest.mark.thorough

ZEROS = 24  # behind the records of the active segment


@pytest.fixture
def partition() -> Iterator[FakePartition]:
    """One sealed segment and an active one, with the same kinds of records."""
    with ThreadRunner() as runner:
        disk = SimulatedDisk(Random(0))
        partition = FakePartition(disk, "/store", runner=runner, zeros_bytes=ZEROS)
        for _ in range(2):
            partition.append(b"first value", key=b"k")
            partition.append_batch([b"one", None, b"three"], compression=Compression.LZ4)
            partition.append(b"")
            partition.append_control()
            partition.append(b"last", headers=[("h", b"v")], timestamp_ms=CREATED_MS + 9)
            if len(partition.built) == 1:
                partition.roll()
        partition.publish()
        yield partition
        partition.close()


def _inspect(
    partition: FakePartition, segment: FakeSegment, *, confirmed_end: int = 0
) -> LogInspection:
    log = open_log(
        partition.disk,
        segment.path,
        base_offset=segment.base_offset,
        is_sealed=segment.is_sealed,
    )
    try:
        if segment.is_sealed:
            return inspect_log(log, sealed_end=segment.end, next_offset=segment.next_offset)
        return inspect_log(log, confirmed_end=confirmed_end)
    finally:
        log.close()


def _bytes(segment: FakeSegment) -> bytes:
    return segment.file.pread(0, segment.file.size())


def _put(partition: FakePartition, segment: FakeSegment, data: bytes) -> None:
    """In a file of its own: one that is mapped never changes."""
    segment.file.close()
    partition.disk.unlink(segment.path)
    segment.file = partition.disk.create(segment.path)
    segment.file.pwrite(0, data)


def _read_around(
    partition: FakePartition,
) -> tuple[list[Message], list[SkippedRange]]:
    skipped: list[SkippedRange] = []
    with PartitionReader(partition) as reader:
        return list(reader.read(skip_damage=True, on_skipped=skipped.append)), skipped


def test_what_was_written_is_whole(partition: FakePartition) -> None:
    for segment in partition.built:
        found = _inspect(partition, segment, confirmed_end=segment.end)
        assert found.verdict is Verdict.WHOLE
        assert (found.end, found.next_offset) == (segment.end, segment.next_offset)
        assert (found.record_count, found.batch_count, found.control_count) == (5, 1, 1)
        assert found.timestamp_ms_max == CREATED_MS + 9
        assert found.unknown_flags_count == 0
        found.require_whole(segment.path)


def test_every_truncation_of_an_active_log_is_torn_or_ends_at_a_record(
    partition: FakePartition,
) -> None:
    segment = partition.active
    data = _bytes(segment)
    ends = {RECORDS_START, *segment.positions, segment.end}
    for length in range(len(data)):
        _put(partition, segment, data[:length])
        found = _inspect(partition, segment)
        is_end = length in ends or length >= segment.end
        assert found.verdict is (Verdict.WHOLE if is_end else Verdict.TORN), length
        assert found.end == max([min(RECORDS_START, length), *(e for e in ends if e <= length)])
        is_short = length < segment.end
        confirmed = _inspect(partition, segment, confirmed_end=segment.end)
        assert confirmed.verdict is (Verdict.CORRUPT if is_short else Verdict.WHOLE), length


def test_every_truncation_of_a_sealed_log_is_corrupt(partition: FakePartition) -> None:
    segment = partition.built[0]
    data = _bytes(segment)
    for length in range(len(data)):
        _put(partition, segment, data[:length])
        found = _inspect(partition, segment)
        assert found.verdict is Verdict.CORRUPT, length
        with pytest.raises(Corrupt):
            found.require_whole(segment.path)


def test_every_flipped_byte_of_a_sealed_log_is_corrupt_and_no_wrong_message_is_read(
    partition: FakePartition,
) -> None:
    segment = partition.built[0]
    data, messages = _bytes(segment), partition.kept()
    for place in range(len(data)):
        _put(partition, segment, _flipped(data, place))
        found = _inspect(partition, segment)
        assert found.verdict is Verdict.CORRUPT, place
        with pytest.raises(DataError) as caught, PartitionReader(partition) as reader:
            list(reader.read())
        assert caught.value.path == segment.path
        read, skipped = _read_around(partition)
        _check_loss(segment, messages, read, skipped, place)


def _check_loss(
    segment: FakeSegment,
    messages: list[Message],
    read: list[Message],
    skipped: list[SkippedRange],
    place: int,
) -> None:
    """One record is missing at the most, and it is told which."""
    assert len(skipped) == 1
    lost = [message for message in messages if message not in read]
    assert [message for message in messages if message in read] == read
    assert skipped[0].start <= place < skipped[0].end
    if place < RECORDS_START:
        assert not lost
        return
    start = max(position for position in segment.positions if position <= place)
    assert skipped[0].start == start
    assert all(skipped[0].first_offset <= one.offset < skipped[0].next_offset for one in lost)


def test_every_flipped_byte_of_an_active_log_is_found(partition: FakePartition) -> None:
    segment = partition.active
    data, messages = _bytes(segment), partition.kept()
    for place in range(RECORDS_START, segment.end + ZEROS):
        _put(partition, segment, _flipped(data, place))
        below = _inspect(partition, segment, confirmed_end=segment.end)
        above = _inspect(partition, segment)
        is_last = place >= segment.positions[-1]
        if place >= segment.end:
            assert below.verdict is above.verdict is Verdict.TORN
            assert above.tail is not None
            assert above.tail.start == segment.end
        else:
            assert below.verdict is Verdict.CORRUPT
            assert above.verdict is (Verdict.TORN if is_last else Verdict.CORRUPT), place
        read, skipped = _read_around(partition)
        assert [message for message in messages if message in read] == read
        assert len(skipped) == (place < segment.end)


@pytest.mark.parametrize("seed", range(40))
def test_any_noise_is_never_read_as_a_message(partition: FakePartition, seed: int) -> None:
    random = Random(seed)
    for segment in partition.built:
        start = random.randrange(segment.end)
        noise = random.randbytes(random.randrange(1, segment.end - start + 1))
        segment.file.pwrite(start, bytes(len(noise)) if seed % 4 == 0 else noise)
    messages = partition.kept()
    read, _ = _read_around(partition)
    assert [message for message in messages if message in read] == read


def test_a_damaged_record_among_many_has_its_place_and_its_offsets(
    partition: FakePartition,
) -> None:
    segment = partition.built[0]
    place = segment.positions[1]
    segment.file.pwrite(place + 50, b"\xff\xff\xff")
    with pytest.raises(Corrupt) as caught, PartitionReader(partition) as reader:
        list(reader.read())
    assert (caught.value.path, caught.value.offset) == (segment.path, place)
    _, skipped = _read_around(partition)
    (one,) = skipped
    assert (one.start, one.end) == (place, segment.positions[2])
    assert (one.first_offset, one.next_offset) == (1, 4)
    with PartitionReader(partition) as reader:
        assert reader.get(0) == segment.messages[0]
        assert reader.get(4) == segment.messages[4], "what is whole around it stays readable"
        for offset in (1, 2, 3):
            with pytest.raises(Corrupt):
                reader.get(offset)


def test_a_record_inside_a_payload_is_not_taken_for_the_next_one(partition: FakePartition) -> None:
    """Its offset does not fit between the neighbours."""
    inner = keratin_encode(
        [b"never sent"], None, offsets=3, timestamps_ms=0, flags=0, capacity=1000
    ).data
    partition.append(b"before")
    victim = partition.append(inner * 3)
    behind = partition.append(b"behind")
    partition.publish()
    partition.active.file.pwrite(partition.active.positions[-2] + 1, b"\x00")
    read, skipped = _read_around(partition)
    assert read[-1] == behind
    assert victim not in read
    assert b"never sent" not in [message.value for message in read]
    assert (skipped[0].first_offset, skipped[0].next_offset) == (victim.offset, behind.offset)


def test_records_out_of_order_are_damage(partition: FakePartition) -> None:
    stale = keratin_encode([b"old"], None, offsets=2, timestamps_ms=0, flags=0, capacity=99).data
    segment = partition.active
    segment.file.pwrite(segment.end, stale)
    segment.end += len(stale)
    behind = partition.append(b"behind")
    partition.publish()
    with pytest.raises(Corrupt, match="out of order"), PartitionReader(partition) as reader:
        list(reader.read())
    read, _ = _read_around(partition)
    assert read == partition.kept()
    assert read[-1] == behind
    assert _inspect(partition, segment).verdict is Verdict.CORRUPT


def test_a_batch_that_cannot_be_opened_is_damage_although_its_record_is_whole(
    partition: FakePartition,
) -> None:
    for payload in (b"", b"no batch", bytes(100)):
        partition.append_raw(payload, flags=int(RecordFlags.BATCH))
    last = partition.append(b"behind")
    partition.publish()
    with pytest.raises(Corrupt, match="cannot be decoded"), PartitionReader(partition) as reader:
        list(reader.read())
    read, skipped = _read_around(partition)
    assert read == partition.kept()
    assert read[-1] == last
    assert len(skipped) == 3
    found = _inspect(partition, partition.active)
    assert found.verdict is Verdict.CORRUPT
    assert len(found.damages) == 3


def test_a_batch_that_belongs_elsewhere_is_damage(partition: FakePartition) -> None:
    first = partition.append_batch([b"a", b"b"])
    partition.publish()
    segment = partition.active
    payload = segment.file.pread(segment.positions[-1] + 32, 90)
    batch = payload[: segment.end - segment.positions[-1] - 36]
    partition.append_raw(batch, flags=int(RecordFlags.BATCH), count=2)
    partition.publish()
    with (
        pytest.raises(Corrupt, match="differs from the offset of its record"),
        PartitionReader(partition) as reader,
    ):
        list(reader.read())
    read, _ = _read_around(partition)
    assert read[-1] == first[-1]


def test_unknown_flags_are_kept_and_counted(partition: FakePartition) -> None:
    partition.append_raw(b"from the future", flags=1 << 9)
    partition.publish()
    assert _inspect(partition, partition.active).unknown_flags_count == 1
    with PartitionReader(partition) as reader:
        assert list(reader.read())[-1].flags == 1 << 9


def test_a_search_behind_damage_gives_up_on_a_payload_of_false_starts(
    partition: FakePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lakebed.keratin.log_bytes as module

    head = keratin_encode(
        [bytes(900)], None, offsets=15, timestamps_ms=0, flags=0, capacity=2000
    ).data[:32]
    monkeypatch.setattr(module, "FIND_COST_BYTES_MAX", 5000)
    log: LogBytes = open_log(partition.disk, partition.active.path, base_offset=0, is_sealed=False)
    partition.active.file.pwrite(RECORDS_START, head * 100)
    assert log.find(RECORDS_START, 4000, least_offset=0, limit_offset=100) is None
    log.close()


@pytest.mark.parametrize("window_bytes", range(54, 60))
def test_a_record_that_begins_across_two_windows_of_the_search_is_found(
    partition: FakePartition, monkeypatch: pytest.MonkeyPatch, window_bytes: int
) -> None:
    import lakebed.keratin.log_bytes as module

    monkeypatch.setattr(module, "_FIND_BYTES", window_bytes)
    segment = partition.built[0]
    segment.file.pwrite(segment.positions[0] + 40, b"\xff\xff")
    read, skipped = _read_around(partition)
    assert read == partition.kept()[1:]
    assert skipped[0].end == segment.positions[1]


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
