"""Leases of a group: listed with their holders' deadlines, and taken back by an operator."""

from __future__ import annotations

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import InputError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.stroma.errors import StaleLease
from lakebed.stroma.group import HeldRange
from tests.store.queues import append, elapse, now_ms, numbered, opened, values


def test_leases_are_listed_by_partition_and_offset_with_deadline_and_deliveries() -> None:
    world = World(1)
    topic = opened(world).topic("orders", partitions=2)
    append(topic, *numbered(4), partition=0)
    append(topic, *numbered(2), partition=1)
    group = topic.group("billing")
    assert group.leases() == []
    first = group.lease(max_messages=6, lease_ms=5000)
    until_ms = now_ms(world) + 5000
    group.ack(next(message for message in first if message.partition == 0 and message.offset == 1))
    epochs = {message.partition: message.epoch for message in first}

    def held(partition: int, start: int, end: int) -> HeldRange:
        return HeldRange(
            partition=partition,
            start=start,
            end=end,
            deadline_ms=until_ms,
            delivery_count=1,
            epoch=epochs[partition],
        )

    everything = [held(0, 0, 1), held(0, 2, 4), held(1, 0, 2)]
    assert group.leases() == everything
    assert group.leases(max_leases=2) == everything[:2]
    assert group.leases(partition=0, offset=3) == [held(0, 3, 4)]
    assert group.leases(partition=1) == everything[2:]
    with pytest.raises(InputError):
        group.leases(partition=2)
    elapse(world, 5001)
    assert group.leases() == [], "they have ended"
    again = group.lease()
    assert {lease.delivery_count for lease in group.leases()} == {2}
    group.ack_all(again)


def test_what_is_released_is_delivered_again_and_its_holder_is_refused() -> None:
    world = World(2)
    store = opened(world)
    topic = store.topic("orders", partitions=2)
    append(topic, *numbered(3), partition=0)
    append(topic, b"other", partition=1)
    group = topic.group("billing")
    held = group.lease(lease_ms=60_000)
    assert group.release(partition=0, offset=1) == 1
    assert group.release(partition=0, offset=1) == 0, "it is free already"
    assert group.release(partition=0, offset=99) == 0
    (again,) = group.lease()
    assert (again.partition, again.offset, again.delivery_count) == (0, 1, 2)
    stale = next(message for message in held if message.partition == 0 and message.offset == 1)
    for settle in (group.ack, group.nack, group.extend):
        with pytest.raises(StaleLease):
            settle(stale)
    assert group.release(partition=0) == 3
    assert group.release() == 1, "that of the other partition"
    with pytest.raises(InputError, match="also needs `partition`"):
        group.release(offset=1)
    world.restart(Crash.POWER)
    group = opened(world).topic("orders").group("billing")
    assert sorted(values(group.lease()), key=str) == sorted([*numbered(3), b"other"], key=str)


def test_a_consumer_that_waits_gets_what_is_released() -> None:
    world = World(3)
    topic = opened(world).topic("orders")
    append(topic, b"one")
    group = topic.group("billing")
    group.lease(lease_ms=60_000)
    started_ns = world.clock.monotonic_ns()
    waiting = world.runner.call("consumer", lambda: group.lease(wait_s=30))
    elapse(world, 10)
    assert not waiting.done
    assert group.release() == 1
    world.runner.run()
    assert values(waiting.result()) == [b"one"]
    assert world.clock.monotonic_ns() - started_ns < 1000 * NS_PER_MS, "not at the deadline"
