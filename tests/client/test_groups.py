"""Consumer groups: the same embedded, over the socket and over TCP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import InputError, NotFound
from lakebed.client.store import RemoteStore
from lakebed.store.dead_letters import Origin
from lakebed.store.leased_message import held_of
from lakebed.store.store import Store
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from tests.client.scripted import GIVE_UP_S


def test_messages_are_leased_acked_given_back_and_extended(store: Any) -> None:
    topic = store.topic("orders", partitions=2)
    for number in range(2):
        topic.append_batch(
            [b"a", b"b", b"c"], partition=number, key=b"k", headers=[[("h", b"1")]] * 3
        ).result()
    group = topic.group("billing/ä ?")
    assert group.name == "billing/ä ?"
    assert group.lag() == {0: 3, 1: 3}
    peeked = group.peek(max_messages=4)
    assert len(peeked) == 4
    assert {one.key for one in peeked} == {b"k"}
    leased = group.lease(max_messages=4, lease_ms=60_000)
    assert [(one.partition, one.offset) for one in leased] == [
        (one.partition, one.offset) for one in peeked
    ]
    first = leased[0]
    assert (first.key, first.value, first.headers) == (b"k", b"a", (("h", b"1"),))
    assert (first.delivery_count, first.message.value) == (1, b"a")
    longer = group.extend(first, lease_ms=120_000)
    assert longer.deadline_ms > first.deadline_ms
    group.ack(first)
    with pytest.raises(StaleLease):
        group.nack(first)
    group.nack(leased[1])
    group.ack_all(leased[2:])
    group.ack_all([])
    assert sum(group.lag().values()) == 3
    again = group.lease()
    assert sorted(one.delivery_count for one in again) == [1, 1, 2]
    group.nack_all(again, delay_ms=60_000)
    assert group.lease() == []
    described = group.describe()
    assert sum(one.waiting for one in described.values()) == 3
    assert set(described) == {0, 1}
    assert all(one.problems == () for one in described.values())
    assert store.topics.open("orders").groups() == ["billing/ä ?"]
    store.topics.open("orders").delete_group("billing/ä ?")
    assert store.topics.open("orders").groups() == []
    with pytest.raises(NotFound):
        store.topics.open("orders").delete_group("billing/ä ?")


def test_a_group_is_moved_to_an_offset_a_moment_or_the_end(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"%d" % one for one in range(5)], timestamps_ms=[10, 20, 30, 40, 50])
    topic.partition(0).sync()
    group = topic.group("g")

    def next_value() -> bytes | None:
        leased = group.lease(max_messages=1)
        group.nack_all(leased)
        return leased[0].value if leased else None

    group.seek(3, partition=0)
    assert next_value() == b"3"
    group.seek(timestamp_ms=20)
    assert next_value() == b"1"
    group.seek(to_end=True)
    assert next_value() is None
    group.reset()
    assert next_value() == b"0"
    group.reset(partition=0)
    with pytest.raises(InputError):
        group.reset(partition=7)
    with pytest.raises(InputError):
        group.seek(0, partition=7)
    with pytest.raises(InputError):
        group.lease(wait_s=-1)


def test_waiting_for_the_first_message(store: Any) -> None:
    topic = store.topic("orders")
    group = topic.group("g")
    assert group.lease(wait_s=0.01) == []
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(group.lease(wait_s=GIVE_UP_S)))
    waiting.start()
    topic.append_batch([b"a"]).result()
    waiting.join(GIVE_UP_S)
    assert [one.value for one in found] == [b"a"]


def test_what_is_given_back_was_not_delivered(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"a", b"b"]).result()
    group = topic.group("g", config=GroupConfig(delivery_count_max=1))
    for _ in range(3):
        leased = group.lease()
        assert [(one.value, one.delivery_count) for one in leased] == [(b"a", 1), (b"b", 1)]
        group.give_back(leased)
        with pytest.raises(StaleLease):
            group.give_back(leased)
    assert group.dead_letters() == []


def test_dead_letters_are_listed_and_sent_back(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"a", b"b"], key=b"k").result()
    group = topic.group("g", config=GroupConfig(delivery_count_max=1))
    assert group.dead_letters() == []
    assert group.redrive() == 0
    group.nack_all(group.lease())
    assert group.lease() == []
    letters = group.dead_letters()
    (topic_id,) = {one.origin.topic_id for one in letters}
    assert len(topic_id) == 32
    assert [one.origin for one in letters] == [
        Origin("orders", 0, at, "g", 1, topic_id) for at in (0, 1)
    ]
    assert [(one.message.key, one.message.value) for one in letters] == [(b"k", b"a"), (b"k", b"b")]
    assert group.redrive(max_messages=0) == 0
    assert group.redrive(max_messages=1) == 1
    assert group.redrive() == 1
    assert group.dead_letters() == []
    assert [one.value for one in group.lease()] == [b"a", b"b"]


def test_of_settings_given_as_a_whole_those_are_kept_that_differ_from_the_stores(
    store: Any, request: pytest.FixtureRequest
) -> None:
    own = store if isinstance(store, Store) else request.getfixturevalue("live_api").store
    store.topic("orders").group("g", config=GroupConfig(lease_ms=5000))
    (file,) = Path(own.root, "groups").glob("*.settings")
    assert json.loads(file.read_bytes())["config"] == {"lease_ms": 5000}
    store.topic("orders").group("g", config=GroupConfig())
    assert not file.exists()


def test_ten_consumers_share_a_group(remote: RemoteStore) -> None:
    topic = remote.topic("orders", partitions=2)
    topic.append_keyed([(b"%d" % one, b"%d" % one) for one in range(200)])
    found: list[bytes | None] = []

    def consume() -> None:
        group = topic.group("g")
        while leased := group.lease(max_messages=7, lease_ms=60_000):
            group.ack_all(leased)
            found.extend(one.value for one in leased)

    threads = [threading.Thread(target=consume) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert sorted(map(int, filter(None, found))) == list(range(200))


def test_more_ranges_than_a_request_holds_are_settled_in_several(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.client.group.RANGES_AT_ONCE", 3)
    topic = store.topic("orders", partitions=2)
    for number in range(2):
        topic.append_batch([b"a"] * 20, partition=number).result()
    group = topic.group("billing")
    leased = [*group.lease(max_messages=20), *group.lease(max_messages=20)]
    group.ack_all([one for one in leased if one.offset % 2])
    group.nack_all([one for one in leased if not one.offset % 2])
    assert group.lag() == {0: 10, 1: 10}
    assert len(group.lease(max_messages=40)) == 20


def test_what_was_leased_together_is_settled_together(remote: RemoteStore) -> None:
    topic = remote.topic("orders")
    topic.append_batch([b"x"] * 6).result()
    leased = topic.group("g").lease()
    held = held_of([leased[5], leased[0], leased[1], leased[3]])
    assert [(one.partition, one.ranges) for one in held] == [(0, [(0, 2), (3, 4), (5, 6)])]


def topic_again(store: Any) -> None:
    store.topics.delete("orders")
    store.topic("orders")


def group_again(store: Any) -> None:
    store.topics.open("orders").delete_group("billing")


@pytest.mark.parametrize("make_again", [topic_again, group_again])
@pytest.mark.parametrize("settle", ["ack", "ack_all", "nack", "nack_all", "extend"])
def test_a_lease_from_before_a_re_creation_is_stale(
    store: Any, make_again: Callable[[Any], None], settle: str
) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"old"]).result()
    (old,) = topic.group("billing").lease(lease_ms=600_000)
    make_again(store)
    topic = store.topic("orders")
    topic.append_batch([b"new"]).result()
    group = topic.group("billing")
    (new, *_) = group.lease(lease_ms=600_000)
    assert (new.partition, new.offset, new.epoch) == (old.partition, old.offset, old.epoch)
    lag = group.lag()
    with pytest.raises(StaleLease, match="recreated after the lease"):
        getattr(group, settle)([old] if settle.endswith("_all") else old)
    assert group.lag() == lag
    assert [one.in_flight for one in group.describe().values()] == [lag[0]]
    group.ack(new)
    assert group.lag() == {0: lag[0] - 1}


def test_a_stale_ack_of_what_is_settled_is_refused_after_a_re_creation(store: Any) -> None:
    topic = store.topic("orders")
    topic.append_batch([b"old"]).result()
    (old,) = topic.group("billing").lease()
    topic_again(store)
    topic = store.topic("orders")
    topic.append_batch([b"new"]).result()
    group = topic.group("billing")
    group.ack_all(group.lease())
    with pytest.raises(StaleLease):
        group.ack(old)


def test_leases_are_listed_and_taken_back(store: Any) -> None:
    topic = store.topic("orders", partitions=2)
    for number in range(2):
        topic.append_batch([b"a", b"b"], partition=number).result()
    group = topic.group("billing")
    leased = group.lease(lease_ms=60_000)
    held = group.leases()
    assert [(one.partition, one.start, one.end, one.delivery_count) for one in held] == [
        (0, 0, 2, 1),
        (1, 0, 2, 1),
    ]
    assert {one.deadline_ms // 10_000 for one in held} <= {
        one.deadline_ms // 10_000 + step for one in leased for step in (-1, 0)
    }
    assert [one.start for one in group.leases(partition=1, offset=1)] == [1]
    assert len(group.leases(max_leases=1)) == 1
    assert group.release(partition=0, offset=0) == 1
    with pytest.raises(StaleLease):
        group.ack(next(one for one in leased if (one.partition, one.offset) == (0, 0)))
    assert group.release() == 3
    assert group.leases() == []
    assert {one.delivery_count for one in group.lease()} == {2}
    for wrong in ({"offset": 1}, {"partition": 7}):
        with pytest.raises(InputError):
            group.release(**wrong)
