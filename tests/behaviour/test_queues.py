"""Groups as queues: ended leases, delays, order by key, limits of delivery, who may settle."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from tests.client.scripted import GIVE_UP_S

pytestmark = pytest.mark.process


def test_a_lease_that_ended_is_no_lease_and_its_message_comes_again(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"a", b"b", b"c"]).result()
    group = topic.group("g")
    held = group.lease(max_messages=2, lease_ms=1)
    again: list[Any] = []
    while len(again) < 3:
        again += group.lease(lease_ms=60_000, wait_s=GIVE_UP_S)
    assert sorted((one.offset, one.delivery_count) for one in again) == [(0, 2), (1, 2), (2, 1)]
    for call in (group.ack_all, group.nack_all):
        with pytest.raises(StaleLease) as told:
            call(held)
        assert told.value.ranges == ((0, 2),)
        assert told.value.epoch == held[0].epoch
    with pytest.raises(StaleLease, match="message 1 is not leased under epoch"):
        group.extend(held[1])
    group.ack_all(again)
    group.ack_all(held)  # settled by another, and said once more
    assert group.lag() == {0: 0}


def test_a_lease_of_so_many_bytes_leaves_the_rest_to_the_next(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"a" * 400, b"b" * 400, b"c" * 4000, b"d" * 400]).result()
    group = topic.group("g")
    assert [one.offset for one in group.peek(max_bytes=1000)] == [0, 1]
    found = [group.lease(max_bytes=1000) for _ in range(4)]
    assert [[one.offset for one in leased] for leased in found] == [[0, 1], [2], [3], []]
    assert {one.delivery_count for leased in found for one in leased} == {1}
    group.nack_all([one for leased in found for one in leased])
    assert len(group.lease(max_bytes=1 << 40)) == 4


def test_a_message_is_not_delivered_before_its_time(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"never"], not_before_ms=1 << 50).result()
    topic.append_batch([b"now"]).result()
    group = topic.group("g")
    leased = group.lease(wait_s=GIVE_UP_S)
    assert [one.value for one in leased] == [b"now"]
    group.nack(leased[0], delay_ms=20)
    delayed = group.lease(wait_s=GIVE_UP_S)
    assert [(one.value, one.delivery_count) for one in delayed] == [(b"now", 2)]
    group.ack_all(delayed)
    assert group.lease(wait_s=0.01) == []
    assert group.lag() == {0: 1}


def test_messages_of_a_key_are_delivered_in_order_to_one_consumer_at_a_time(store: Any) -> None:
    topic = store.topic("orders")
    group = topic.group("g", config=GroupConfig(per_key_order=True))
    for value in (b"a1", b"b1", b"a2", b"a3"):
        topic.append_batch([value], key=value[:1]).result()
    found = []
    while sum(group.lag().values()):
        leased = group.lease(max_messages=3, lease_ms=60_000, wait_s=GIVE_UP_S)
        others = group.lease(lease_ms=60_000)
        assert not {one.key for one in leased} & {one.key for one in others}
        group.nack_all(others)
        found += [one.value for one in leased]
        group.ack_all(leased)
    assert sorted(found) == [b"a1", b"a2", b"a3", b"b1"]
    assert [one for one in found if one.startswith(b"a")] == [b"a1", b"a2", b"a3"]


def test_what_was_delivered_too_often_is_put_aside_and_told_of(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"bad"], key=b"k", headers=[[("h", b"1")]]).result()
    group = topic.group("g", config=GroupConfig(delivery_count_max=3))
    for count in (1, 2, 3):
        (message,) = group.lease()
        assert message.delivery_count == count
        group.nack(message)
    assert group.lease() == []
    (letter,) = group.dead_letters()
    assert (letter.origin.delivery_count, letter.message.value) == (3, b"bad")
    assert group.lag() == {0: 0}
    assert group.redrive() == 1
    (message,) = group.lease()
    assert (message.key, message.value) == (b"k", b"bad")
