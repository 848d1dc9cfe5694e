"""Leases and peeks that are bounded in bytes: what fits is delivered, the rest by the next one."""

from __future__ import annotations

import pytest

from lakebed.base.errors import InputError
from lakebed.base.simulation.world import World
from lakebed.keratin.compression import Compression
from lakebed.keratin.record_batch import build
from lakebed.store import group as group_module
from lakebed.store.dead_letters import dead_letter_topic
from lakebed.store.leased_message import LeasedMessage, PeekedMessage
from lakebed.store.topics import REDRIVE_PREFIX
from lakebed.stroma.config import GroupConfig
from tests.store.queues import append, numbered, opened, values


@pytest.fixture
def world() -> World:
    return World(7)


def sized(*sizes: int) -> list[bytes]:
    """Values of those lengths, no two alike."""
    return [bytes([65 + number]) * size for number, size in enumerate(sizes)]


def size_of(messages: list[LeasedMessage]) -> int:
    return sum(len(message.value or b"") for message in messages)


@pytest.mark.parametrize("limit", [10, 14, 19])
def test_what_does_not_fit_is_delivered_by_the_next_lease(world: World, limit: int) -> None:
    topic = opened(world).topic("orders")
    everything = sized(5, 5, 5, 5, 5)
    append(topic, *everything)
    group = topic.group("billing")
    fits = limit // 5
    found: list[LeasedMessage] = []
    while leased := group.lease(max_bytes=limit):
        assert values(leased) == everything[len(found) : len(found) + fits]
        found += leased
    assert values(found) == everything
    assert {message.delivery_count for message in found} == {1}


def test_a_message_larger_than_the_limit_is_delivered_alone(world: World) -> None:
    topic = opened(world).topic("orders")
    small, large, last = sized(3, 500, 4)
    append(topic, small, large)
    append(topic, last)
    group = topic.group("billing")
    leases = [group.lease(max_bytes=10) for _ in range(4)]
    assert [values(leased) for leased in leases] == [[small], [large], [last], []]
    assert {one.delivery_count for leased in leases for one in leased} == {1}


def test_the_bytes_of_a_lease_are_those_of_all_partitions(world: World) -> None:
    topic = opened(world).topic("orders", partitions=3)
    for number in range(3):
        append(topic, *sized(40, 40), partition=number)
    group = topic.group("billing")
    leases = [group.lease(max_bytes=100) for _ in range(3)]
    assert [len(leased) for leased in leases] == [2, 2, 2]
    assert group.lease(max_bytes=100) == []
    group.nack_all([one for leased in leases for one in leased])
    assert len(group.lease(max_bytes=130)) == 3, "from the next partition what one cannot give"


def test_a_lease_stops_at_what_does_not_fit_and_passes_nothing_over(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    append(topic, *sized(10, 90), partition=1)  # whose turn it is first
    append(topic, *sized(10, 10), partition=0)
    group = topic.group("billing")
    leases = [group.lease(max_bytes=50) for _ in range(3)]
    lengths = [[len(one.value or b"") for one in leased] for leased in leases]
    assert lengths == [[10], [10, 10], [90]]


def test_a_large_message_behind_others_is_not_taken_with_them(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, b"small")
    topic.partition(0).append_record_batch(build([b"x" * 500], timestamps_ms=5)).result()
    group = topic.group("billing")
    assert [values(group.lease(max_bytes=100)) for _ in range(2)] == [[b"small"], [b"x" * 500]]


def test_keys_and_headers_count(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, b"v", b"v", key=b"k" * 50)
    append(topic, b"v", headers=[[("name", b"h" * 50)]])
    group = topic.group("billing")
    assert [len(group.lease(max_bytes=60)) for _ in range(3)] == [1, 1, 1]


def test_messages_of_compressed_batches_count_as_they_are_delivered(world: World) -> None:
    topic = opened(world).topic("orders")
    everything = sized(*[100] * 8)
    packed = build(everything, timestamps_ms=5, compression=Compression.ZSTD)
    topic.partition(0).append_record_batch(packed).result()
    group = topic.group("billing")
    leases = [group.lease(max_bytes=250) for _ in range(4)]
    assert [value for leased in leases for value in values(leased)] == everything
    assert {len(leased) for leased in leases} == {2}


def test_a_peek_shows_what_a_lease_of_as_many_bytes_gets(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    for number in (0, 1):
        append(topic, *sized(30, 5, 200, 30), partition=number)
    group = topic.group("billing")
    for _ in range(6):
        for limit in (1, 34, 35, 70, 240):
            shown = group.peek(max_bytes=limit)
            leased = group.lease(max_messages=10, max_bytes=limit)
            assert shown == [PeekedMessage(*one[:6]) for one in leased]
            group.nack_all(leased)


def test_messages_that_are_gone_take_no_room(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, *sized(*[100] * 50))
    group = topic.group("billing")
    group.peek(max_messages=50)  # so that they are known to be there
    partition = topic.partition(0)
    partition.seal()
    append(topic, b"last")
    partition.truncate_before(50)
    assert values(group.lease(max_bytes=10)) == [b"last"]
    assert group.lag() == {0: 1}


@pytest.mark.parametrize("seed", range(20))
def test_many_who_lease_at_once_get_no_more_than_fits(seed: int) -> None:
    world = World(seed)
    topic = opened(world).topic("orders")
    sizes = [(number * 37) % 90 + 1 for number in range(60)]
    everything = [b"%02d" % number + bytes(size) for number, size in enumerate(sizes)]
    append(topic, *everything)
    group = topic.group("billing")

    def drain() -> list[list[LeasedMessage]]:
        found = []
        while leased := group.lease(max_bytes=100, lease_ms=600_000):
            found.append(leased)
        return found

    calls = [world.runner.call(f"consumer {number}", drain) for number in range(4)]
    world.runner.run()
    leases = [leased for call in calls for leased in call.result()]
    assert all(size_of(leased) <= 100 or len(leased) == 1 for leased in leases)
    found = [one for leased in leases for one in leased]
    assert sorted(str(one.value) for one in found) == sorted(map(str, everything))
    assert {one.delivery_count for one in found} == {1}


def test_limits_that_are_none_are_refused(world: World) -> None:
    group = opened(world).topic("orders").group("billing")
    for limit in (0, -1, 0.5, "1"):
        with pytest.raises(InputError, match="max_bytes"):
            group.lease(max_bytes=limit)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="max_bytes"):
            group.peek(max_bytes=limit)  # type: ignore[arg-type]
    for count in (0, -1, 1 << 40):
        with pytest.raises(InputError, match="max_messages"):
            group.lease(max_messages=count, max_bytes=10)
        with pytest.raises(InputError, match="max_messages"):
            group.peek(max_messages=count, max_bytes=10)


def test_letters_are_sent_back_a_few_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "_DEAD_LETTERS_BYTES_AT_ONCE", 100)
    config = GroupConfig(lease_ms=1000, delivery_count_max=1)
    store = opened(world, group_config=config)
    topic = store.topic("orders")
    append(topic, *numbered(40))
    group = topic.group("billing")
    group.nack_all(group.lease())
    assert group.lease() == []
    assert group.redrive() == 40
    sender = store.topics.open_group(dead_letter_topic("orders"), REDRIVE_PREFIX + "billing")
    assert sender.describe()[0].epoch > 10, "as many leases"
    assert sorted(map(str, values(group.lease()))) == sorted(map(str, numbered(40)))
