"""Appending to a partition: offsets, order, everything a message has, and who is told what."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import Busy, Closed, InputError, OutcomeUnknown, TooLarge
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.keratin.append_future import AppendFuture
from lakebed.keratin.compression import Compression
from lakebed.keratin.errors import CodecMissing
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Producer
from lakebed.keratin.message import Message
from lakebed.keratin.partition import Partition
from lakebed.keratin.record_batch import build
from lakebed.keratin.topic import Topic
from lakebed.keratin.topics import Topics
from lakebed.kernels.disk import real_disk
from tests.keratin.partitions import append, messages, opened, small, values


@pytest.fixture
def world() -> World:
    return World(3)


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    """On the real disk, with threads."""
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        yield topics.create("orders")
        topics.close()


def test_an_append_gives_the_first_offset_and_the_count(world: World) -> None:
    partition = opened(world)
    assert partition.append_batch([b"a", b"b"]).result() == (0, 2)
    assert partition.append_batch([b"c"]).result() == (2, 1)
    assert (partition.start_offset(), partition.high_watermark()) == (0, 3)
    assert values(partition) == [b"a", b"b", b"c"]
    partition.close()


def test_a_message_comes_back_with_all_that_was_given(world: World) -> None:
    partition = opened(world)
    append(partition, b"plain")
    future = partition.append_batch(
        [b"value", None, b""],
        keys=[b"key", b"gone", None],
        headers=[[("name", b"v"), ("null", None)], [], [("é", b"")]],
        timestamps_ms=[5, 7, 6],
        producer=Producer(9, 1, 4),
    )
    assert future.result() == (1, 3)
    append(partition, b"later", not_before_ms=99)
    now_ms = world.clock.wall_ns() // 1_000_000
    assert messages(partition) == [
        Message(0, now_ms, None, b"plain"),
        Message(1, 5, b"key", b"value", (("name", b"v"), ("null", None))),
        Message(2, 7, b"gone", None, (), RecordFlags.TOMBSTONE),
        Message(3, 6, None, b"", (("é", b""),)),
        Message(
            4, now_ms, None, b"later", (("lakebed-not-before-ms", b"99"),), RecordFlags.SCHEDULED
        ),
    ]
    assert messages(partition)[4].not_before_ms == 99
    partition.close()


@pytest.mark.parametrize("compression", Compression)
def test_record_batches_and_plain_messages_stand_in_one_log(
    world: World, compression: Compression
) -> None:
    partition = opened(world)
    append(partition, b"before")
    for count in (1, 3):
        batch = build(
            [b"m%d" % number for number in range(count)],
            timestamps_ms=5,
            keys=[b"k"] * count,
            first_offset=1_000_000,
            compression=compression,
        )
        assert partition.append_record_batch(batch).result().message_count == count
    append(partition, b"behind")
    found = messages(partition)
    assert [message.offset for message in found] == [0, 1, 2, 3, 4, 5]
    assert [message.value for message in found] == [
        b"before", b"m0", b"m0", b"m1", b"m2", b"behind",
    ]  # fmt: skip
    partition.close()
    world.runner.close()
    again = opened(world)
    assert messages(again) == found
    again.close()


def test_what_is_queued_together_keeps_its_order(world: World) -> None:
    partition = opened(world)
    futures = [partition.append_batch([b"%d" % number, b"-"]) for number in range(20)]
    assert not any(future.done() for future in futures)
    futures[-1].result()
    assert [future.result() for future in futures] == [(2 * number, 2) for number in range(20)]
    assert values(partition)[::2] == [b"%d" % number for number in range(20)]
    partition.close()


def test_many_threads_get_offsets_of_their_own_and_keep_their_order(topic: Topic) -> None:
    partition = topic.partition(0)
    results: dict[int, list[tuple[int, int]]] = {number: [] for number in range(8)}

    def write(number: int) -> None:
        for turn in range(40):
            payloads = [b"%d %d %d" % (number, turn, index) for index in range(1 + turn % 3)]
            results[number].append(partition.append_batch(payloads).result())

    threads = [threading.Thread(target=partial(write, number)) for number in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = {message.offset: message.value for message in messages(partition)}
    expected: dict[int, bytes] = {}
    for number, ranges in results.items():
        assert ranges == sorted(ranges)
        for turn, (base, count) in enumerate(ranges):
            for index in range(count):
                expected[base + index] = b"%d %d %d" % (number, turn, index)
    assert found == expected
    assert sorted(found) == list(range(len(found)))
    assert len(partition.segments()) > 1


COMPRESSED = [kind for kind in Compression if kind is not Compression.NONE]


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_compressed_batch_without_its_codec_is_refused_with_the_extra_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch, compression: Compression
) -> None:
    partition = opened(world)
    batch = build([b"figs"], timestamps_ms=5, compression=compression)
    partition.append_record_batch(batch).result()
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(CodecMissing, match=r"install lakebed\[codecs\]"):
        partition.append_record_batch(batch)
    plain = build([b"dates"], timestamps_ms=5)
    assert partition.append_record_batch(plain).result().message_count == 1
    with pytest.raises(CodecMissing, match=r"install lakebed\[codecs\]"):
        values(partition)  # the one that was stored before is not taken for damaged
    monkeypatch.undo()
    assert values(partition) == [b"figs", b"dates"]
    partition.close()


def test_wrong_input_leaves_the_partition_as_it_was(world: World) -> None:
    partition = opened(world)
    queued = partition.append_batch([b"queued"])
    wrong: list[dict[str, Any]] = [
        {"payloads": [None]},
        {"payloads": [b"x"], "timestamps_ms": [1.5]},
        {"payloads": [b"x"], "keys": ["text"]},
        {"payloads": "text"},
    ]
    for arguments in wrong:
        with pytest.raises(InputError):
            partition.append_batch(**arguments)
    with pytest.raises(InputError):
        partition.append_record_batch(b"not a batch")
    with pytest.raises(TooLarge):
        partition.append_batch([bytes(200_000)])
    assert queued.result() == (0, 1)
    assert values(partition) == [b"queued"]
    partition.close()


def test_buffers_that_change_before_the_commit_do_not_change_the_message(world: World) -> None:
    partition = opened(world)
    payload, payloads = bytearray(b"payload"), [b"first"]
    futures = [partition.append_batch([payload]), partition.append_batch(payloads)]
    payload[:] = b"changed"
    payloads.append(b"second")
    assert [future.result() for future in futures] == [(0, 1), (1, 1)]
    assert values(partition) == [b"payload", b"first"]
    partition.close()


def test_callbacks_are_called_once_it_is_done_and_at_once_behind_that(world: World) -> None:
    partition = opened(world)
    heard: list[tuple[str, object]] = []
    future = partition.append_batch([b"a"])
    future.add_done_callback(lambda done: heard.append(("first", done.result())))
    assert heard == []
    assert "under way" in repr(future)
    future.result()
    future.add_done_callback(lambda done: heard.append(("second", done.result())))
    assert heard == [("first", (0, 1)), ("second", (0, 1))]
    assert "base_offset=0" in repr(future)
    assert future.exception() is None
    partition.close()


def test_a_callback_that_fails_harms_nobody(world: World) -> None:
    partition = opened(world)

    def fails(_: AppendFuture) -> None:
        raise RuntimeError("the caller's own")

    first, second = partition.append_batch([b"a"]), partition.append_batch([b"b"])
    first.add_done_callback(fails)
    unsubscribe = partition.on_durable(lambda: fails(first))
    assert second.result() == (1, 1)
    assert append(partition, b"c") == 2
    unsubscribe()
    assert values(partition) == [b"a", b"b", b"c"]
    partition.close()


def test_a_refused_producer_gets_its_own_error_and_no_one_else_does(world: World) -> None:
    partition = opened(world)
    append(partition, b"a", producer=Producer(7, 0, 0))
    futures = [
        partition.append_batch([b"b"]),
        partition.append_batch([b"gap"], producer=Producer(7, 0, 5)),
        partition.append_batch([b"c"]),
    ]
    assert futures[2].result() == (2, 1)
    assert "is out of order, expected 1" in str(futures[1].exception())
    assert "failed" in repr(futures[1])
    assert values(partition) == [b"a", b"b", b"c"]
    partition.close()


def test_closing_commits_what_is_queued_and_refuses_what_comes_later(world: World) -> None:
    partition = opened(world)
    futures = [partition.append_batch([b"%d" % number]) for number in range(5)]
    partition.close()
    assert [future.result() for future in futures] == [(number, 1) for number in range(5)]
    for use in (
        lambda: partition.append_batch([b"x"]),
        partition.sync,
        partition.seal,
        lambda: partition.wait_beyond(5, None),
        lambda: partition.truncate_before(1),
    ):
        with pytest.raises(Closed):
            use()
    partition.close()
    again = opened(world)
    assert len(values(again)) == 5
    again.close()


def test_closing_twice_does_not_touch_what_the_next_writer_wrote(world: World) -> None:
    partition = opened(world)
    append(partition, b"a")
    partition.close()
    other = opened(world)
    append(other, b"b")
    other.seal()
    steps = world.disk.steps
    partition.close()
    assert world.disk.steps == steps
    other.close()
    again = opened(world)
    assert values(again) == [b"a", b"b"]
    assert not again.problems
    again.close()


def test_a_full_queue_makes_room_by_committing_or_says_that_it_is_busy(world: World) -> None:
    partition = opened(world, queue_count_max=3)
    futures = [partition.append_batch([b"%d" % number]) for number in range(3)]
    with pytest.raises(Busy):
        partition.append_batch([b"x"], timeout=0)
    assert not any(future.done() for future in futures)
    futures.append(partition.append_batch([b"3"]))
    assert [future.done() for future in futures] == [True, True, True, False]
    assert futures[3].result() == (3, 1)
    assert values(partition) == [b"0", b"1", b"2", b"3"]
    partition.close()


def test_who_waits_behind_a_long_commit_may_give_up_and_it_is_done_all_the_same() -> None:
    world = World(5)
    partition = opened(world, queue_count_max=2)
    gate = world.runner.event()
    heard: list[object] = []

    def hold() -> None:
        partition.change(lambda _: gate.wait())

    def late() -> None:
        future = partition.append_batch([b"late"])
        for ask in (future.result, future.exception):
            with pytest.raises(OutcomeUnknown):
                ask(0.5)
        with pytest.raises(Busy):
            partition.append_batch([b"no room"], timeout=0.5)
        heard.append(future.done())
        gate.set()
        heard.append(future.result())

    world.runner.call("holder", hold)
    world.runner.settle()
    world.runner.call("late", late)
    world.runner.run()
    assert heard == [False, (0, 1)]
    assert values(partition) == [b"late"]
    partition.close()


def test_a_partition_is_its_own_view(world: World) -> None:
    partition: Partition = opened(world)
    assert partition.name == "orders-0"
    assert partition.disk is world.disk
    assert partition.runner is world.runner
    assert partition.segments()[-1].next_offset == 0
    partition.close()
