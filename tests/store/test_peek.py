"""Looking at what a group would lease next, and settling by ranges of offsets."""

from __future__ import annotations

import pytest

from lakebed.base.errors import Closed, InputError
from lakebed.base.simulation.world import World
from lakebed.store.group import Group
from lakebed.store.leased_message import Held
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from tests.store.queues import append, elapse, now_ms, numbered, opened, values

ORDERED = GroupConfig(lease_ms=1000, per_key_order=True)


@pytest.fixture
def world() -> World:
    return World(7)


def peeked(group: Group, count: int = 100) -> list[bytes | None]:
    return [one.value for one in group.peek(max_messages=count)]


@pytest.mark.parametrize("count", [1, 2, 5, 9, 100])
def test_a_peek_shows_what_the_next_lease_gets(world: World, count: int) -> None:
    topic = opened(world).topic("orders", partitions=3)
    for number in range(3):
        append(topic, *numbered(3, f"partition {number}"), partition=number)
    group = topic.group("billing")
    for _ in range(4):
        shown = group.peek(max_messages=count)
        assert shown == group.peek(max_messages=count)
        leased = group.lease(max_messages=count)
        assert [one[:6] for one in leased] == [tuple(one) for one in shown]
        group.nack_all(leased)


def test_a_peek_holds_and_counts_nothing(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(300))
    group = topic.group("billing")
    for count in (1, 10, 299):
        assert peeked(group, count) == numbered(count)
    found = group.describe()[0]
    assert (found.in_flight, found.lag, found.acked_until, found.epoch) == (0, 300, 0, 0)
    leased = group.lease(max_messages=1000)
    assert values(leased) == numbered(300)
    assert {one.delivery_count for one in leased} == {1}


def test_a_peek_shows_only_what_can_be_leased_now(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, b"leased", b"acked", b"nacked", b"delayed")
    group = topic.group("billing")
    _, acked, nacked, delayed = group.lease()
    group.ack(acked)
    group.nack(nacked)
    group.nack(delayed, delay_ms=5000)
    append(topic, b"later", not_before_ms=now_ms(world) + 7000)
    append(topic, b"new")
    assert peeked(group) == [b"nacked", b"new"]
    elapse(world, 1001)
    assert peeked(group) == [b"leased", b"nacked", b"new"], "a lease has ended"
    elapse(world, 4000)
    assert peeked(group) == [b"leased", b"nacked", b"delayed", b"new"]
    elapse(world, 2000)
    assert peeked(group) == [b"leased", b"nacked", b"delayed", b"later", b"new"]


def test_a_peek_keeps_the_order_of_keys(world: World) -> None:
    topic = opened(world, group_config=ORDERED).topic("orders")
    append(topic, b"first", b"second", key=b"key")
    append(topic, b"other", key=b"else")
    group = topic.group("billing")
    assert peeked(group, 2) == [b"first", b"other"]
    assert peeked(group) == [b"first", b"second", b"other"]
    first = group.lease(max_messages=1)
    assert peeked(group) == [b"other"]
    group.ack_all(first)
    assert peeked(group) == [b"second", b"other"]


def test_a_peek_does_not_show_what_was_delivered_too_often(world: World) -> None:
    config = GroupConfig(lease_ms=1000, delivery_count_max=1)
    topic = opened(world, group_config=config).topic("orders")
    append(topic, b"bad", b"good")
    group = topic.group("billing")
    group.nack_all(group.lease(max_messages=1))
    assert peeked(group) == [b"good"]
    assert [letter.message.value for letter in group.dead_letters()] == [], "it buries nothing"


def test_a_peek_has_limits(world: World) -> None:
    store = opened(world)
    group = store.topic("orders").group("billing")
    assert peeked(group) == []
    for count in (0, -1, 1 << 40):
        with pytest.raises(InputError):
            group.peek(max_messages=count)
    store.topics.delete_group("orders", "billing")
    with pytest.raises(Closed):
        group.peek()


def test_ranges_are_settled_as_their_messages_are(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    append(topic, *numbered(6), partition=1)
    group = topic.group("billing")
    leased = group.lease()[0]

    def held(*ranges: tuple[int, int], partition: int = 1) -> list[Held]:
        return [Held(partition, leased.epoch, leased.incarnation, list(ranges))]

    assert group.extend_held(held((0, 6)), lease_ms=9000) == [now_ms(world) + 9000]
    group.ack_held(held((0, 2), (5, 6)))
    group.nack_held(held((2, 4)))
    assert group.lag() == {0: 0, 1: 3}
    assert peeked(group) == numbered(6)[2:4]
    with pytest.raises(StaleLease):
        group.ack_held(held((2, 5)))
    for partition in (-1, 2):
        with pytest.raises(InputError):
            group.ack_held(held((4, 5), partition=partition))


def test_whoever_listens_to_a_group_hears_of_all_partitions_until_it_stops(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    group = topic.group("billing")
    heard: list[int] = []
    stop = group.on_change(lambda: heard.append(1))
    assert group.due_ns() is None
    for number in (0, 1):
        before = len(heard)
        append(topic, b"a", partition=number)
        assert len(heard) > before
    group.lease(lease_ms=500)
    due_ns = group.due_ns()
    assert due_ns is not None
    assert 0 < due_ns <= 500_000_000
    stop()
    before = len(heard)
    append(topic, b"b", partition=0)
    assert len(heard) == before


def test_open_ones_are_found_without_waiting(world: World) -> None:
    topics = opened(world).topics
    assert topics.opened_topic("orders") is None
    topic = topics.create("orders")
    assert topics.opened_topic("orders") is topic
    assert topics.opened_group("orders", "billing") is None
    group = topic.group("billing")
    assert topics.opened_group("orders", "billing") is group
    assert topics.open_group("orders", "billing") is group
    topics.delete("orders")
    assert topics.opened_topic("orders") is None
    assert topics.opened_group("orders", "billing") is None
