"""A group over the partitions of a topic: what is leased, who may settle it, who is woken."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Closed, DiskError, InputError, LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.keratin.compression import Compression
from lakebed.keratin.record_batch import BatchAttributes, build
from lakebed.store.group import WAIT_S_MAX
from lakebed.store.leased_message import LeasedMessage
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from tests.store.queues import append, drained, elapse, now_ms, numbered, opened, values

ORDERED = GroupConfig(lease_ms=1000, per_key_order=True)


@pytest.fixture
def world() -> World:
    return World(7)


def test_every_message_of_every_partition_is_delivered_once_to_each_group(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        topic = store.topic("orders", partitions=3)
        for number in range(3):
            append(topic, *numbered(10, f"partition {number}"), partition=number)
        for name in ("billing", "shipping"):
            group = topic.group(name)
            found = drained(group)
            for number in range(3):
                mine = [message for message in found if message.partition == number]
                assert [message.offset for message in mine] == list(range(10)), "in order"
                assert values(mine) == numbered(10, f"partition {number}")
            assert len(found) == 30
            assert group.lag() == {0: 0, 1: 0, 2: 0}


def test_a_long_backlog_in_one_partition_does_not_hold_up_the_others(world: World) -> None:
    topic = opened(world).topic("orders", partitions=3)
    append(topic, *numbered(60), partition=0)
    for number in (1, 2):
        append(topic, *numbered(2), partition=number)
    group = topic.group("billing")
    first = [message for _ in range(3) for message in group.lease(max_messages=5)]
    assert {message.partition for message in first} == {0, 1, 2}
    assert Counter(message.partition for message in first)[0] >= 5


def test_a_lease_takes_from_the_next_partition_what_one_cannot_give(world: World) -> None:
    topic = opened(world).topic("orders", partitions=3)
    for number in range(3):
        append(topic, *numbered(2), partition=number)
    leased = topic.group("billing").lease(max_messages=5)
    assert sorted(Counter(message.partition for message in leased).values()) == [1, 2, 2]


@pytest.mark.parametrize("reason", ["append", "nack", "end of a delay", "end of a lease", "ack"])
@pytest.mark.parametrize("seed", range(4))
def test_a_lease_that_waits_is_woken(reason: str, seed: int) -> None:
    world = World(seed)
    topic = opened(world, group_config=ORDERED).topic("orders", partitions=3)
    group = topic.group("billing")
    if reason == "ack":
        append(topic, b"first", b"second", key=b"key")
    elif reason != "append":
        append(topic, b"first", partition=1)
    held = group.lease(max_messages=1, lease_ms=40_000)
    assert values(held) == ([b"first"] if held else [])
    started_ns, expected, expected_ms = world.clock.monotonic_ns(), b"first", 0
    waiting = world.runner.call("consumer", lambda: group.lease(wait_s=100))
    elapse(world, 10)
    assert not waiting.done
    match reason:
        case "append":
            append(topic, b"first", partition=2)
        case "nack":
            group.nack(held[0])
        case "end of a delay":
            group.nack(held[0], delay_ms=5000)
            expected_ms = 5010
        case "end of a lease":
            expected_ms = 40_000
        case "ack":
            group.ack(held[0])
            expected = b"second"
    world.runner.run()
    assert values(waiting.result()) == [expected]
    waited_ms = (world.clock.monotonic_ns() - started_ns) / NS_PER_MS
    assert expected_ms <= waited_ms <= expected_ms + 50


def test_a_lease_that_waits_in_vain_comes_back_empty_in_time(world: World) -> None:
    group = opened(world).topic("orders", partitions=2).group("billing")
    started_ns = world.clock.monotonic_ns()
    waiting = world.runner.call("consumer", lambda: group.lease(wait_s=2.5))
    world.runner.run()
    assert waiting.result() == []
    assert world.clock.monotonic_ns() - started_ns == 2500 * NS_PER_MS


def test_many_who_wait_share_what_comes(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    group = topic.group("billing")
    calls = [
        world.runner.call(f"consumer {n}", lambda: group.lease(max_messages=1, wait_s=1000))
        for n in range(4)
    ]
    elapse(world, 10)
    append(topic, b"0", b"1", partition=0)
    append(topic, b"2", b"3", partition=1)
    world.runner.run()
    assert sorted(values([m for call in calls for m in call.result()])) == [b"0", b"1", b"2", b"3"]  # type: ignore[type-var]


@pytest.mark.parametrize("call", ["ack", "nack", "extend", "ack_all", "nack_all"])
def test_who_does_not_hold_a_message_is_refused(world: World, call: str) -> None:
    topic = opened(world).topic("orders", partitions=2)
    append(topic, *numbered(4), partition=1)
    group = topic.group("billing")
    (held,) = group.lease(max_messages=1)

    def settle(message: LeasedMessage) -> None:
        getattr(group, call)([message] if call.endswith("all") else message)

    for foreign in (
        held._replace(epoch=held.epoch + 1),
        held._replace(offset=held.offset + 1),
        held._replace(offset=1000),
        held._replace(partition=0),
    ):
        with pytest.raises(StaleLease):
            settle(foreign)
    for partition in (-1, 2, 10**9):
        with pytest.raises(InputError):
            settle(held._replace(partition=partition))
    assert group.describe()[1].in_flight == 1, "whoever holds it keeps it"
    elapse(world, 1000)
    with pytest.raises(StaleLease):
        settle(held)
    (again,) = group.lease(max_messages=1)
    assert (again.offset, again.delivery_count) == (held.offset, 2)
    with pytest.raises(StaleLease):
        settle(held)
    settle(again)


def test_to_ack_a_settled_message_again_is_no_mistake_but_to_nack_it_is(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(3))
    group = topic.group("billing")
    first, second, _ = group.lease()
    group.ack(second)
    group.ack(second)
    for settle in (group.nack, group.extend):
        with pytest.raises(StaleLease):
            settle(second)
    group.ack(first)
    group.ack(second)
    elapse(world, 1000)
    assert values(group.lease()) == [b"message 2"]


def test_an_extended_message_is_held_until_its_new_deadline(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, b"one")
    group = topic.group("billing")
    (held,) = group.lease()
    elapse(world, 900)
    extended = group.extend(held, lease_ms=5000)
    assert extended == held._replace(deadline_ms=now_ms(world) + 5000)
    elapse(world, 4999)
    assert group.lease() == []
    group.ack(extended)


def test_a_scheduled_message_waits_for_its_time(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    append(topic, b"later", partition=0, not_before_ms=now_ms(world) + 3000)
    append(topic, b"now", partition=0)
    group = topic.group("billing")
    assert values(drained(group)) == [b"now"]
    waiting = world.runner.call("consumer", lambda: group.lease(wait_s=60))
    world.runner.run()
    (message,) = waiting.result()
    assert message.value == b"later"
    assert now_ms(world) - message.timestamp_ms == 3000


def test_messages_of_a_key_come_one_by_one_while_other_keys_go_on(world: World) -> None:
    topic = opened(world, group_config=ORDERED).topic("orders", partitions=2)
    for turn in range(3):
        for future in topic.append_keyed(
            [(b"key %d" % key, b"%d of %d" % (turn, key)) for key in range(6)]
        ):
            future.result()
    group = topic.group("billing")
    for turn in range(3):
        leased = [message for _ in range(6) for message in group.lease(max_messages=1)]
        assert sorted(values(leased)) == [b"%d of %d" % (turn, key) for key in range(6)]  # type: ignore[type-var]
        slow, *others = leased
        group.ack_all(others)
        following = group.lease(max_messages=100)
        assert slow.key not in {message.key for message in following}
        group.nack_all(following)
        group.ack(slow)
    assert group.lease() == []


def test_one_consumer_gets_several_messages_of_a_key_in_order_and_no_other_gets_any(
    world: World,
) -> None:
    topic = opened(world, group_config=ORDERED).topic("orders")
    append(topic, *numbered(5, "hot"), key=b"hot")
    append(topic, *numbered(2, "cold"), key=b"cold")
    group = topic.group("billing")
    leased = group.lease(max_messages=5)
    assert values(leased) == [*numbered(4, "hot"), b"cold 0"]
    assert group.lease() == []
    group.nack(leased[0])
    group.ack_all(leased[1:3])
    assert group.lease() == [], "the other consumer has one of each still"
    group.ack(leased[4])
    assert values(group.lease()) == [b"cold 1"]
    group.ack(leased[3])
    again = group.lease()
    assert [(one.value, one.delivery_count) for one in again] == [(b"hot 0", 2), (b"hot 4", 1)]


def test_a_hot_key_does_not_use_up_the_bytes_of_a_lease_before_other_keys_have_theirs(
    world: World,
) -> None:
    topic = opened(world, group_config=ORDERED).topic("orders")
    append(topic, *[b"%d" % number * 100 for number in range(9)], key=b"hot")
    append(topic, b"x" * 100, b"y" * 100, key=b"cold")
    group = topic.group("billing")
    shown = group.peek(max_messages=100, max_bytes=450)
    leased = group.lease(max_messages=100, max_bytes=450)
    assert values(leased) == [b"0" * 100, b"1" * 100, b"2" * 100, b"x" * 100]
    assert [one.value for one in shown] == values(leased)
    group.ack_all(leased)
    assert len(values(drained(group))) == 7


def test_many_are_acked_over_several_leases_and_partitions_at_once(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    for number in range(2):
        append(topic, *numbered(10), partition=number)
    group = topic.group("billing")
    leases = [group.lease(max_messages=3) for _ in range(6)]
    messages = [message for leased in reversed(leases) for message in leased]
    syncs = sum("fdatasync" in line for line in world.trace)
    group.ack_all(messages[::2])
    assert sum("fdatasync" in line for line in world.trace) - syncs <= len(leases)
    group.ack_all(messages)
    assert sum(group.lag().values()) == 20 - 18


def test_one_stale_message_keeps_those_leased_with_it_and_no_others(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(6))
    group = topic.group("billing")
    first, second = group.lease(max_messages=3), group.lease(max_messages=3)
    group.nack(second[1])
    with pytest.raises(StaleLease):
        group.ack_all([*first, *second])
    described = group.describe()[0]
    assert (described.acked_until, described.in_flight, described.settled_ahead) == (3, 2, 0)


def test_tombstones_and_batch_records_are_messages_and_control_records_are_not(
    world: World,
) -> None:
    topic = opened(world).topic("orders")
    partition = topic.partition(0)
    append(topic, None, key=b"key")
    for compression in (Compression.NONE, Compression.ZSTD):
        batch = build([b"one", None, b"three"], timestamps_ms=5, keys=[b"a", None, None],
                      headers=[[("name", b"value")], [], []], compression=compression)  # fmt: skip
        assert partition.append_record_batch(batch).result() == (partition.high_watermark() - 3, 3)
    control = build([b"\0\0\0\0\0\0"], timestamps_ms=5, keys=[b"\0\0\0\1"],
                    attributes=BatchAttributes.CONTROL)  # fmt: skip
    partition.append_record_batch(control).result()
    append(topic, b"last")
    group = topic.group("billing")
    found = drained(group, at_once=2)
    assert values(found) == [None, *[b"one", None, b"three"] * 2, b"last"]
    assert [message.offset for message in found] == [0, 1, 2, 3, 4, 5, 6, 8]
    assert (found[0].key, found[1].key, found[1].headers) == (b"key", b"a", (("name", b"value"),))
    assert group.lag() == {0: 0}


def test_reset_and_seeks_move_every_partition(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    for number in range(2):
        append(topic, *numbered(4), partition=number, timestamps_ms=[1000, 2000, 3000, 4000])
    group = topic.group("billing")
    assert len(drained(group)) == 8
    group.reset(partition=1)
    assert group.lag() == {0: 0, 1: 4}
    group.seek(2, partition=0)
    assert group.lag() == {0: 2, 1: 4}
    group.seek(timestamp_ms=3500)
    assert sorted((m.partition, m.offset) for m in drained(group)) == [(0, 3), (1, 3)]
    group.reset()
    group.seek(to_end=True)
    assert group.lease() == []
    with pytest.raises(InputError):
        group.seek(5, partition=0)


@pytest.mark.parametrize("wait_s", [-1, float("nan"), float("inf"), WAIT_S_MAX + 1])
def test_a_wait_that_is_none_is_refused(world: World, wait_s: float) -> None:
    group = opened(world).topic("orders").group("billing")
    with pytest.raises(InputError):
        group.lease(wait_s=wait_s)
    for max_messages in (0, -1):
        with pytest.raises(InputError):
            group.lease(max_messages=max_messages)


def test_leases_and_acks_survive_a_restart(world: World) -> None:
    store = opened(world)
    topic = store.topic("orders", partitions=2)
    append(topic, *numbered(6), partition=1)
    group = topic.group("billing")
    held = group.lease(max_messages=4, lease_ms=10_000)
    group.ack_all(held[:2])
    world.restart(Crash.POWER)
    group = opened(world).topic("orders").group("billing")
    assert values(group.lease()) == numbered(6)[4:]
    group.ack(held[2])
    elapse(world, 10_000)
    with pytest.raises(StaleLease):
        group.ack(held[3])
    assert values(group.lease()) == numbered(6)[3:]


def test_a_partition_that_fails_keeps_nothing_from_the_others(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    for number in range(2):
        append(topic, *numbered(3, f"partition {number}"), partition=number)
    group = topic.group("billing")
    world.disk.faults.fail("fdatasync", nth=2)  # the second partition's lease
    leased = group.lease()
    assert len({message.partition for message in leased}) == 1
    assert len(leased) == 3
    world.disk.faults.fail("pwrite")
    with pytest.raises(LakebedError):
        group.lease()
    assert len(group.lease()) == 3, "it goes on when it can"


def test_what_could_not_be_read_is_given_back(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(3))
    group = topic.group("billing")
    group.nack_all(group.lease())  # the group has looked at them
    world.disk.faults.fail("pread")
    with pytest.raises(LakebedError):
        group.lease()
    assert values(group.lease()) == numbered(3), "not only when a lease has ended"


@pytest.mark.parametrize("nth", range(1, 6))
def test_what_was_read_before_a_failure_is_handed_out_and_the_rest_given_back(
    world: World, nth: int
) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(3))
    topic.partition(0).seal()
    append(topic, *numbered(3))
    group = topic.group("billing")
    group.nack_all(group.lease())  # the group has looked at them
    world.disk.faults.fail("pread", nth=nth)
    leased: list[LeasedMessage] = []
    for _ in range(2):
        with contextlib.suppress(DiskError):
            leased += group.lease()
    assert [message.offset for message in leased] == [*range(6)]
    assert {message.delivery_count for message in leased} == {2}
    assert group.lag() == {0: 6}


def test_a_closed_group_says_so(world: World) -> None:
    store = opened(world)
    group = store.topic("orders", partitions=2).group("billing")
    calls = [world.runner.call("consumer", lambda: group.lease(wait_s=1000)) for _ in range(3)]
    elapse(world, 10)
    store.close()
    world.runner.run()
    for call in calls:
        with pytest.raises(Closed):
            call.result()


def test_a_callback_that_raises_fails_nobody_else(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(world)
    topic = store.topic("orders")
    append(topic, *numbered(3))
    group = topic.group("billing")
    heard = []

    def broken() -> None:
        raise ValueError("the callback is broken")

    group.on_change(broken)
    stop = group.on_change(lambda: heard.append("after it"))
    first, second, third = group.lease()
    group.ack(first)
    group.nack(second)
    group.extend(third, lease_ms=5000)
    assert group.lag() == {0: 2}
    assert heard, "those behind it are called"
    assert "the callback is broken" in caplog.text
    heard.clear()
    stop()
    group.reset()
    assert heard == []
    store.close()
