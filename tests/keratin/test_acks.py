"""When an append is acknowledged, how long it waits for company, and what a bad disk does to it."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Busy, InputError, LakebedError, NoSpace, Poisoned, SyncFailed
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import Ack
from lakebed.keratin.headers import Producer
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    driven,
    log_path,
    numbered,
    opened,
    values,
)


def syncs_of_log(world: World) -> int:
    """Steps of the disk; the turns of the scheduler are in its trace, too."""
    lines = [line.split() for line in world.trace if line[0].isdigit()]
    return sum(words[1] == "fdatasync" and words[2].endswith(".log") for words in lines)


def test_what_was_only_written_is_acknowledged_and_not_yet_visible() -> None:
    world = World(1)
    partition = opened(world)
    syncs = syncs_of_log(world)
    assert append(partition, b"hasty", ack=Ack.AFTER_WRITE) == 0
    assert syncs_of_log(world) == syncs
    assert partition.high_watermark() == 0
    assert values(partition) == []
    assert append(partition, b"durable") == 1
    assert syncs_of_log(world) == syncs + 1, "one sync covers both"
    assert values(partition) == [b"hasty", b"durable"]
    partition.close()


def test_what_was_only_written_is_synced_when_asked_and_only_if_need_be() -> None:
    world = World(1)
    partition = opened(world, ack="after_write")
    syncs = syncs_of_log(world)
    partition.sync()
    assert syncs_of_log(world) == syncs
    append(partition, b"hasty")
    partition.sync()
    partition.sync()
    assert syncs_of_log(world) == syncs + 1
    assert values(partition) == [b"hasty"]
    partition.close()


@pytest.mark.parametrize("linger_ms_max", [0, 5])
@pytest.mark.parametrize("seed", range(8))
def test_what_was_only_written_is_synced_within_its_time(seed: int, linger_ms_max: int) -> None:
    """Whoever commits it: the caller that waits, or the task."""
    world = World(seed)
    partition = driven(world, ack="after_write", sync_ms_max=50, linger_ms_max=linger_ms_max)
    world.runner.advance(100 * NS_PER_MS)
    world.runner.call("hasty", lambda: append(partition, b"hasty"))
    world.runner.settle()
    assert partition.high_watermark() == 0
    world.runner.advance(48 * NS_PER_MS)
    assert partition.high_watermark() == 0, "not earlier than it need be"
    world.runner.advance(8 * NS_PER_MS)
    assert partition.high_watermark() == 1
    partition.close()
    world.runner.close()


def test_closing_makes_what_was_only_written_durable() -> None:
    world = World(1)
    partition = opened(world, ack="after_write")
    append(partition, b"hasty")
    partition.close()
    world.restart(Crash.POWER)
    again = opened(world)
    assert values(again) == [b"hasty"]
    again.close()


def test_a_power_cut_may_take_back_what_was_only_written_and_nothing_else() -> None:
    world = World(1)
    partition = opened(world)
    append(partition, b"durable")
    append(partition, b"hasty", ack=Ack.AFTER_WRITE)
    world.restart(Crash.POWER, survivors=0)
    again = opened(world)
    assert values(again) == [b"durable"]
    assert not again.problems
    assert append(again, b"next") == 1
    again.close()


def test_replication_is_refused() -> None:
    world = World(1)
    partition = opened(world)
    with pytest.raises(InputError, match="replication is not supported yet"):
        partition.append_batch([b"x"], ack=Ack.AFTER_REPLICATED)
    partition.close()


def test_a_lone_append_that_nobody_waits_for_does_not_linger() -> None:
    world = World(1)
    partition = driven(world, linger_ms_max=1000)
    for _ in range(3):
        world.runner.advance(2000 * NS_PER_MS)
        future = partition.append_batch([b"x"])
        world.runner.settle()
        assert future.done(), "no time passed"
    partition.close()
    world.runner.close()


def test_under_load_appends_wait_for_one_another_as_long_as_a_commit_takes() -> None:
    world = World(1)
    partition = driven(world, linger_ms_max=20)
    # A commit that took a while: time passes in it.
    partition.change(lambda _: world.clock.advance(16 * NS_PER_MS))
    syncs = syncs_of_log(world)
    futures = []
    for _ in range(4):
        futures.append(partition.append_batch([b"x"]))
        world.runner.advance(NS_PER_MS // 2)
    assert not any(future.done() for future in futures)
    world.runner.advance(4 * NS_PER_MS)
    assert all(future.done() for future in futures)
    assert syncs_of_log(world) == syncs + 1
    partition.close()
    world.runner.close()


@pytest.mark.parametrize(
    ("settings", "commits"),
    [
        ({"batch_count_max": 10}, 4),  # 40 messages
        ({"batch_bytes_max": 4 * KIB}, 10),  # 40 records of just under a KiB
        ({}, 1),
    ],
)
def test_batches_end_at_their_count_and_their_bytes(settings: dict[str, Any], commits: int) -> None:
    world = World(1)
    partition = opened(world, segment_bytes=256 * KIB, **settings)
    syncs = syncs_of_log(world)
    futures = [partition.append_batch([bytes(980)] * 2) for _ in range(20)]
    futures[-1].result()
    assert [future.result() for future in futures] == [(2 * number, 2) for number in range(20)]
    assert syncs_of_log(world) - syncs == commits
    partition.close()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_end_known", [True, False])
@pytest.mark.parametrize("after", AfterFailedSync)
def test_a_failed_sync_acknowledges_nobody_and_ends_the_writing(
    after: AfterFailedSync, is_end_known: bool, seed: int
) -> None:
    world = World(seed)
    partition = opened(world)
    append(partition, b"before")
    world.disk.faults.fail("fdatasync", after=after)
    lost = numbered(3, size=1000)  # more than a sector each
    futures = [partition.append_batch([value]) for value in lost]
    with pytest.raises(SyncFailed):
        futures[0].result()
    assert all(isinstance(future.exception(), SyncFailed) for future in futures)
    for use in (lambda: append(partition, b"later"), partition.sync, partition.seal):
        with pytest.raises(Poisoned):
            use()
    assert partition.high_watermark() == 1
    assert values(partition) == [b"before"], "reading goes on, to the durable end"
    partition.close()
    if not is_end_known:
        world.disk.unlink(PATHS.durable_end)
    again = opened(world)
    found = values(again)
    assert found[:1] == [b"before"]
    assert found == [b"before", *lost][: len(found)]
    assert append(again, b"later") == len(found)
    again.close()
    world.restart(Crash.POWER)
    last = opened(world)
    assert values(last) == [*found, b"later"], "what was served is durable"
    last.close()


def test_a_failed_sync_of_what_was_only_written_is_told_to_the_next_who_wants_it() -> None:
    world = World(1)
    partition = opened(world, ack="after_write")
    append(partition, b"hasty")
    world.disk.faults.fail("fdatasync")
    with pytest.raises(SyncFailed):
        partition.sync()
    with pytest.raises(Poisoned):
        append(partition, b"later")
    assert partition.high_watermark() == 0
    partition.close()


def test_a_full_disk_refuses_and_nothing_of_what_was_refused_comes_back() -> None:
    for seed in range(12):
        world = World(seed)
        partition = opened(world)
        append(partition, b"before")
        log = content(world.disk, log_path(0))
        world.disk.faults.fail("pwrite", code=errno.ENOSPC)
        ack = Ack.AFTER_FSYNC if seed % 2 else Ack.AFTER_WRITE
        future = partition.append_batch([b"refused" * 100], ack=ack, producer=Producer(7, 0, 0))
        with pytest.raises(NoSpace):
            future.result()
        assert content(world.disk, log_path(0)) == log
        assert append(partition, b"again", producer=Producer(7, 0, 0)) == 1, "it was not there"
        assert values(partition) == [b"before", b"again"]
        world.restart(Crash.POWER)
        again = opened(world)
        assert values(again) == [b"before", b"again"]
        assert not again.problems
        again.close()


def test_a_refused_write_does_not_take_back_what_was_written_before_it() -> None:
    world = World(1)
    partition = opened(world)
    append(partition, b"hasty", ack=Ack.AFTER_WRITE)
    world.disk.faults.fail("pwrite", code=errno.ENOSPC)
    with pytest.raises(NoSpace):
        append(partition, b"refused" * 100)
    partition.sync()
    assert values(partition) == [b"hasty"]
    partition.close()


def test_below_the_reserve_writes_are_refused_until_there_is_room_again() -> None:
    world = World(1)
    partition = opened(world, reserve_bytes=64 * KIB)
    append(partition, b"before")
    world.disk.capacity_bytes = world.disk.used_bytes() + 60 * KIB
    with pytest.raises(NoSpace, match="in reserve"):
        append(partition, bytes(8 * KIB))
    world.disk.capacity_bytes += 100 * KIB
    assert append(partition, bytes(8 * KIB)) == 1
    partition.close()


def test_appends_of_one_commit_fail_apart_where_something_was_done_between_them() -> None:
    """What was done before is told as done, or its caller would send it again."""
    world = World(1)
    partition = opened(world)
    gate = world.runner.event()
    heard: dict[str, object] = {}

    def note(name: str, payload: bytes) -> None:
        try:
            heard[name] = partition.append_batch([payload]).result()
        except LakebedError as error:
            heard[name] = error

    def fill_up(_: object) -> None:
        world.disk.faults.fail("pwrite", code=errno.ENOSPC)

    world.runner.call("holder", lambda: partition.change(lambda _: gate.wait()))
    world.runner.settle()
    world.runner.call("first", lambda: note("first", b"first"))
    world.runner.settle()
    world.runner.call("between", lambda: partition.change(fill_up))
    world.runner.settle()
    world.runner.call("second", lambda: note("second", b"second" * 100))
    world.runner.settle()
    gate.set()
    world.runner.run()
    assert heard["first"] == (0, 1)
    assert isinstance(heard["second"], NoSpace)
    assert values(partition) == [b"first"]
    partition.close()


def test_a_durable_end_that_cannot_be_told_is_no_reason_to_refuse() -> None:
    world = World(1)
    partition = opened(world)
    world.disk.faults.fail("pwrite", nth=2)  # the first is the log's
    assert append(partition, b"a") == 0
    assert append(partition, b"b") == 1
    assert values(partition) == [b"a", b"b"]
    partition.close()


def test_those_who_wait_for_more_hear_of_what_is_durable_alone() -> None:
    world = World(1)
    partition = opened(world)
    heard: list[object] = []
    unsubscribe = partition.on_durable(lambda: heard.append(partition.high_watermark()))
    append(partition, b"hasty", ack=Ack.AFTER_WRITE)
    assert heard == []
    assert not partition.wait_beyond(0, 0)
    partition.sync()
    assert heard == [1]
    unsubscribe()
    append(partition, b"more")
    assert heard == [1]
    assert partition.wait_beyond(1, 0)
    waiting = world.runner.call("waiting", lambda: partition.wait_beyond(2, 10))
    world.runner.settle()
    append(partition, b"at last")
    world.runner.run()
    assert waiting.result() is True
    assert not partition.wait_beyond(3, 0.5)
    partition.close()


def test_a_manifest_that_cannot_be_written_is_no_reason_to_refuse() -> None:
    world = World(1)
    partition = opened(world, manifest_ms=100)
    before = content(world.disk, PATHS.manifest)
    world.clock.advance(200 * NS_PER_MS)
    world.disk.faults.fail("create", code=errno.ENOSPC)
    assert append(partition, b"a") == 0
    assert content(world.disk, PATHS.manifest) == before
    world.clock.advance(200 * NS_PER_MS)
    append(partition, b"b")
    assert content(world.disk, PATHS.manifest) != before, "and later it is"
    partition.close()


def test_busy_is_for_those_who_do_not_wait() -> None:
    world = World(1)
    partition = opened(world, queue_count_max=1)
    partition.append_batch([b"a"])
    with pytest.raises(Busy, match="orders-0: the queue of writes is full"):
        partition.append_batch([b"b"], timeout=0)
    partition.close()
