"""A log on the simulated machine, seen through its public API."""

from __future__ import annotations

import errno
from collections import deque
from itertools import pairwise

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment import Segment
from lakebed.base.errors import (
    AlreadyExists,
    BadConfig,
    Closed,
    Corrupt,
    InputError,
    Locked,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    Poisoned,
    SyncFailed,
    TooLarge,
)
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.fakes.aof_scan import scan_log
from tests.fakes.troubled_disk import TroubledDisk

SMALL = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0, flush_bytes=4 * KIB))


def open_log(world: World, config: AofConfig = SMALL) -> tuple[AofManager, Aof]:
    manager = AofManager("/store", config=config, disk=world.disk, runner=world.runner)
    return manager, manager.open("orders")


def payload(number: int, size: int = 1000) -> bytes:
    return (b"%08d" % number).ljust(size, b".")


def test_a_record_is_durable_when_its_flush_returns() -> None:
    world = World(1)
    _, log = open_log(world)
    record_id = log.append_record(b"hello", ext_id=7, timestamp=42)
    assert (record_id.segment_index, record_id.segment_offset) == (0, 64)
    assert log.durable_end() <= record_id
    log.flush(record_id)
    assert log.durable_end() > record_id
    world.restart(Crash.POWER)
    assert scan_log(world.disk) == [(record_id, 42, 7, b"hello")]


def test_nobody_has_to_ask_for_a_flush() -> None:
    world = World(2)
    _, log = open_log(world)
    record_id = log.append_record(b"hello")
    assert log.wait_beyond(record_id, 1)
    assert world.clock.monotonic_ns() == 5_000_000


def test_ids_follow_each_other_on_eight_byte_boundaries() -> None:
    _, log = open_log(World(3))
    ids = log.append_records([b"a", b"b" * 8, b"c" * 9])
    assert [record_id.segment_offset for record_id in ids] == [64, 96, 128]
    assert ids[-1] == RecordId.from_parts(0, 128)
    assert log.append_record(b"d").segment_offset == 168


def test_a_batch_crosses_segments_and_keeps_its_order() -> None:
    world = World(4)
    manager, log = open_log(world)
    payloads = [payload(n) for n in range(100)]
    ids = list(log.append_records(payloads, ext_ids=list(range(100))))
    assert ids == sorted(ids)
    assert {record_id.segment_index for record_id in ids} == {0, 1}
    log.flush()
    manager.close()
    found = scan_log(world.disk)
    assert [record[0] for record in found] == ids
    assert [record[2] for record in found] == list(range(100))
    assert [record[3] for record in found] == payloads


def test_full_segments_are_sealed_in_the_background() -> None:
    world = World(5)
    _, log = open_log(world)
    for number in range(300):
        log.append_record_with_timeout(payload(number), timeout=10)
    log.flush()
    world.runner.advance(10**9)
    infos = log.segments()
    assert [info.segment_id for info in infos] == [0, 1, 2, 3, 4]
    assert [info.is_sealed for info in infos] == [True, True, True, True, False]
    for one, other in pairwise(infos):
        assert one.end is not None
        assert other.base_offset == one.base_offset + one.end + 96


def test_at_most_two_segments_are_not_finalised() -> None:
    _, log = open_log(World(6))
    with pytest.raises(WouldBlock) as caught:
        log.append_records([payload(n) for n in range(300)])
    assert caught.value.kind is BackpressureKind.ROLLOVER
    assert {record_id.segment_index for record_id in caught.value.record_ids} == {0, 1}
    log.wait_for_writable_segment(10)
    done = len(caught.value.record_ids)
    assert log.append_record(payload(done)).segment_index == 2


def test_too_much_that_is_not_durable_holds_appends_back() -> None:
    flush = FlushConfig(
        reserve_bytes=0, flush_ms=60_000, flush_bytes=8 * KIB, max_unflushed_bytes=8 * KIB
    )
    world = World(7)
    _, log = open_log(world, AofConfig(segment_bytes=64 * KIB, flush=flush))
    with pytest.raises(WouldBlock) as caught:
        [log.append_record(payload(number)) for number in range(100)]
    assert caught.value.kind is BackpressureKind.FLUSH
    assert log.append_record_with_timeout(b"x", timeout=1)
    counts = log.counters.snapshot().counters
    assert counts["would_block_flush"] >= 1


def test_a_log_goes_on_where_it_was_closed() -> None:
    world = World(8)
    manager, log = open_log(world)
    first = log.append_record(b"first")
    log.set_coordinator_watermark(99)
    manager.close()
    with pytest.raises(Closed):
        log.append_record(b"late")
    _, again = open_log(world)
    assert again.durable_end() > first
    assert again.coordinator_watermark == 99
    second = again.append_record(b"second")
    assert second == first + 32
    again.flush()
    assert [record[3] for record in scan_log(world.disk)] == [b"first", b"second"]


@pytest.mark.parametrize("watermark", [-1, 1 << 64])
def test_a_watermark_that_cannot_be_written_is_refused(watermark: int) -> None:
    world = World(9)
    manager, log = open_log(world)
    with pytest.raises(InputError, match=r"from 0 to 2\*\*64 - 1"):
        log.set_coordinator_watermark(watermark)
    log.set_coordinator_watermark((1 << 64) - 1)
    manager.close()
    assert open_log(world)[1].coordinator_watermark == (1 << 64) - 1


def test_the_watermark_is_kept_in_the_footer_and_the_pointer() -> None:
    world = World(9)
    _, log = open_log(world)
    log.append_record(b"x")
    log.set_coordinator_watermark(1234)
    log.seal_current_segment()
    world.restart(Crash.POWER)
    _, again = open_log(world)
    assert again.coordinator_watermark == 1234
    again.set_coordinator_watermark(7)
    assert again.coordinator_watermark == 1234


def test_sealing_an_empty_log_does_nothing_and_sealing_twice_seals_once() -> None:
    world = World(10)
    _, log = open_log(world)
    assert log.seal_current_segment() is None
    log.append_record(b"x")
    info = log.seal_current_segment()
    assert info is not None
    assert (info.segment_id, info.is_sealed, info.end) == (0, True, 96)
    assert log.seal_current_segment() is None
    assert log.append_record(b"y") == RecordId.from_parts(1, 64)


def test_a_second_writer_is_refused() -> None:
    world = World(11)
    manager, _ = open_log(world)
    with pytest.raises(AlreadyExists, match="already open"):
        manager.open("orders")
    with pytest.raises(Locked):
        AofManager("/store", disk=world.disk, runner=world.runner)


def test_bad_input_changes_nothing() -> None:
    _, log = open_log(World(12))
    for bad in (b"", "text", None, 5):
        with pytest.raises(InputError):
            log.append_record(bad)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        log.append_records([b"good", b""])
    with pytest.raises(InputError):
        log.append_record(b"x", ext_id=-1)
    with pytest.raises(InputError):
        log.append_record(b"x", timestamp=1 << 64)
    with pytest.raises(TooLarge, match="the maximum is 65352"):
        log.append_record(b"x" * 65353)
    assert log.append_records([]) == ()
    assert log.append_record(b"x" * 65352) == RecordId.from_parts(0, 64)


def test_numbers_in_any_sequence_are_taken_or_refused_before_anything_is_queued() -> None:
    world = World(20)
    _, log = open_log(world)
    stamps = deque([5, 9, 7])
    ids = list(log.append_records([b"a", b"b", b"c"], timestamps=stamps, ext_ids=deque([1, 2, 3])))
    for bad in ([1, 2], [1, 2, None], "xyz", {1: 2}):
        with pytest.raises((InputError, TypeError, KeyError)):
            log.append_records([b"a", b"b", b"c"], timestamps=bad)  # type: ignore[arg-type]
    last = log.append_record(b"last", timestamp=11)
    log.flush()
    assert [record[:2] for record in scan_log(world.disk)] == [
        (ids[0], 5), (ids[1], 9), (ids[2], 7), (last, 11),
    ]  # fmt: skip


def test_an_append_that_is_interrupted_in_the_middle_is_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its bytes are queued, its place is not counted: another one would be written over it."""
    _, log = open_log(World(21))
    log.append_record(b"first")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "accept", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append_record(b"second")
    with pytest.raises(Poisoned, match="KeyboardInterrupt"):
        log.append_record(b"third")


def test_a_record_that_was_not_appended_cannot_be_flushed() -> None:
    _, log = open_log(World(13))
    with pytest.raises(NotFound):
        log.flush(RecordId.from_parts(0, 64))
    log.flush()


def test_a_batch_with_a_record_too_large_appends_none_of_it() -> None:
    world = World(14)
    _, log = open_log(world)
    many = [b"x" * 30_000] * 5
    for index in (0, 1, 2, 5):
        with pytest.raises(TooLarge, match="the maximum is 65352"):
            log.append_records([*many[:index], b"x" * 65353, *many[index:]])
    assert log.append_record(b"first") == RecordId.from_parts(0, 64)
    log.flush()
    assert len(scan_log(world.disk)) == 1


def test_settings_beyond_their_limits_are_refused() -> None:
    with pytest.raises(BadConfig, match="preallocate_segments"):
        AofConfig(preallocate_segments=9)
    with pytest.raises(BadConfig, match="zero_fill_spares"):
        AofConfig(zero_fill_spares="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("segment_bytes", [0, 1 << 15, 100_000, 1 << 31])
def test_segment_sizes_that_cannot_be_are_refused(segment_bytes: int) -> None:
    with pytest.raises(BadConfig, match="segment_bytes"):
        AofConfig(segment_bytes=segment_bytes)


def test_a_full_disk_fails_the_flush_and_comes_back_by_itself() -> None:
    world = World(14)
    _, log = open_log(world)
    log.append_record(b"first")
    log.flush()
    world.disk.capacity_bytes = world.disk.used_bytes()
    ids = [log.append_record(payload(n)) for n in range(10)]
    with pytest.raises(NoSpace):
        log.flush(ids[-1])
    with pytest.raises(WouldBlock) as caught:
        log.append_record(b"refused")
    assert caught.value.kind is BackpressureKind.FLUSH
    world.disk.capacity_bytes += 1 << 20
    world.runner.advance(10**9)
    assert log.durable_end() > ids[-1]
    log.append_record(b"again")
    log.flush()
    assert [record[3] for record in scan_log(world.disk)] == [
        b"first", *(payload(n) for n in range(10)), b"again",
    ]  # fmt: skip


def test_closing_a_log_that_cannot_flush_says_so_and_lets_go_of_everything() -> None:
    world = World(19)
    manager, log = open_log(world)
    log.append_record(b"first")
    log.flush()
    world.disk.capacity_bytes = world.disk.used_bytes()
    log.append_record(payload(1, 30_000))
    with pytest.raises(NoSpace):
        manager.close()
    world.disk.capacity_bytes = 1 << 30
    _, again = open_log(world)
    assert [record.payload for record in again.read()] == [b"first"]


def test_below_the_reserve_flushes_fail_and_leave_no_hole_when_they_come_back() -> None:
    world = World(17)
    config = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=1 << 19))
    world.disk.capacity_bytes = 3 << 20
    manager, log = open_log(world, config)
    first = log.append_record(b"first")
    log.flush()
    world.disk.capacity_bytes = (1 << 19) + world.disk.used_bytes()
    refused_payload = b"refused at first" * 3000  # more than is granted without a look
    refused = log.append_record(refused_payload)
    with pytest.raises(NoSpace, match="kept in reserve"):
        log.flush(refused)
    world.disk.capacity_bytes = 3 << 20
    world.runner.advance(10**9)
    last = log.append_record(b"last")
    log.flush(last)
    manager.close()
    world.restart(Crash.POWER)
    assert [(record[0], record[3]) for record in scan_log(world.disk)] == [
        (first, b"first"), (refused, refused_payload), (last, b"last"),
    ]  # fmt: skip


def test_a_failed_sync_ends_appends_until_the_log_is_opened_again() -> None:
    world = World(15)
    manager, log = open_log(world)
    kept = log.append_record(b"kept")
    log.flush()
    log.append_record(b"lost")
    world.disk.faults.fail("fdatasync")
    with pytest.raises(SyncFailed):
        log.flush()
    with pytest.raises(Poisoned, match="an earlier failure"):
        log.append_record(b"refused")
    with pytest.raises(Poisoned):
        log.flush()
    assert log.durable_end() == kept + 32
    with pytest.raises(SyncFailed):
        manager.close()  # not everything that was appended is durable, and it says so
    manager.close()
    _, again = open_log(world)
    again.append_record(b"more")
    again.flush()
    assert scan_log(world.disk)[0][3] == b"kept"


def test_a_file_too_short_to_be_a_segment_harms_nothing_but_itself() -> None:
    world = World(18)
    manager, log = open_log(world)
    first = log.append_record(b"whole")
    log.seal_current_segment()
    manager.close()
    short = f"/store/aof/orders/segments/{1:020}_{192:020}_{7:020}.seg"
    world.disk.create(short, size=10).close()
    _, again = open_log(world)
    assert "too short for a segment" in again.recovered.problems[0]
    assert again.get(first).payload == b"whole"
    last = again.append_record(b"behind it")
    assert last.segment_index == 2
    again.flush()
    assert again.get(last).payload == b"behind it"
    with pytest.raises(Corrupt):
        list(again.read())


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_pointer_that_cannot_be_written_is_tried_again_or_ends_the_log(code: int) -> None:
    world = World(16)
    _, log = open_log(world)
    log.append_record(b"x")
    world.disk.faults.fail("rename", nth=2, code=code)  # the first activates the segment
    if code == errno.ENOSPC:
        assert log.seal_current_segment() is not None
    else:
        with pytest.raises(Poisoned):
            log.seal_current_segment()


def test_a_flush_that_is_not_waited_for_has_an_unknown_outcome_and_is_named_so() -> None:
    world = World(22)
    world.disk = disk = TroubledDisk(world)
    _, log = open_log(world)
    log.append_record(b"first")
    disk.held = f"/segments/{0:020}_"
    leader = world.runner.call("leader", log.flush)
    world.runner.settle()
    assert disk.reached.is_set()
    log.append_record(b"second")
    with pytest.raises(OutcomeUnknown, match="may still be"):
        log.flush(timeout=0.01)
    disk.release()
    world.runner.advance(10**9)
    leader.result()
    log.flush()
    assert [record.payload for record in log.read()] == [b"first", b"second"]


def test_a_flush_on_a_full_disk_leaves_the_records_queued_to_be_flushed_again() -> None:
    world = World(23)
    _, log = open_log(world)
    world.disk.capacity_bytes = world.disk.used_bytes()
    record_id = log.append_record(payload(1))
    for _ in range(3):
        with pytest.raises(NoSpace):
            log.flush(record_id)
    world.disk.capacity_bytes += 1 << 20
    log.flush(record_id)
    assert [record.record_id for record in log.read()] == [record_id]


YEAR_NS = 365 * 86_400 * 10**9


def stamps(log: Aof) -> list[int]:
    log.flush()
    return [record.timestamp for record in log.read()]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_timestamp_from_the_future_does_not_hold_up_those_that_follow(
    *, is_reopened: bool
) -> None:
    world = World(24)
    manager, log = open_log(world)
    future_ns = world.clock.wall_ns() + YEAR_NS
    log.append_record(b"a caller's", timestamp=future_ns)
    log.flush()
    if is_reopened:
        manager.close()
        _, log = open_log(world)
    expected = [future_ns]
    for _ in range(3):
        world.clock.advance(10**9)
        expected.append(world.clock.wall_ns())
        log.append_record(b"automatic")
    assert stamps(log) == expected


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_clock_that_was_a_year_ahead_holds_up_no_timestamps_when_it_is_set_right(
    *, is_reopened: bool
) -> None:
    world = World(25)
    manager, log = open_log(world)
    world.clock.skew(YEAR_NS)
    log.append_record(b"ahead")
    ahead_ns = world.clock.wall_ns()
    log.flush()
    world.clock.skew(-YEAR_NS)
    if is_reopened:
        manager.close()
        _, log = open_log(world)
    world.clock.advance(10**9)
    log.append_record(b"right again")
    assert stamps(log) == [ahead_ns, world.clock.wall_ns()]


def test_timestamps_do_not_fall_when_the_clock_is_set_back_a_little() -> None:
    world = World(26)
    _, log = open_log(world)
    log.append_record(b"first")
    first_ns = world.clock.wall_ns()
    world.clock.skew(-(10**9) // 2)
    log.append_record(b"second")
    world.clock.advance(10**9)
    log.append_record(b"third")
    assert stamps(log) == [first_ns, first_ns, world.clock.wall_ns()]
