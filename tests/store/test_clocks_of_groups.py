"""Groups and the clocks: leases and delays last as long as was said, schedules follow the wall."""

from __future__ import annotations

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.store.group import Group
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.stroma.lease_transitions import LeasedRange
from tests.store.queues import append, elapse, now_ms, opened, values

HOUR_MS = 3_600_000
LONG = GroupConfig(lease_ms=60_000)


@pytest.fixture
def world() -> World:
    return World(5)


def step_wall(world: World, difference_ms: int) -> None:
    world.clock.skew(difference_ms * NS_PER_MS)


def started(world: World) -> Group:
    return opened(world, group_config=LONG).topic("orders").group("billing")


def scheduled(world: World, delay_ms: int) -> Group:
    """A group with one message, which was looked at, and is due after the delay."""
    topic = opened(world, group_config=LONG).topic("orders")
    append(topic, b"later", not_before_ms=now_ms(world) + delay_ms)
    group = topic.group("billing")
    assert group.lease() == []
    return group


def test_a_schedule_is_due_when_the_wall_clock_steps_past_it(world: World) -> None:
    group = scheduled(world, HOUR_MS)
    step_wall(world, HOUR_MS)
    assert values(group.lease()) == [b"later"]


def test_a_schedule_waits_longer_when_the_wall_clock_steps_back(world: World) -> None:
    group = scheduled(world, 10_000)
    step_wall(world, -HOUR_MS)
    elapse(world, 10_000)
    assert group.lease() == []
    assert group.describe()[0].waiting == 1
    elapse(world, HOUR_MS)
    assert values(group.lease()) == [b"later"]


def test_a_schedule_that_nobody_looked_at_is_compared_with_the_wall_of_now(world: World) -> None:
    topic = opened(world, group_config=LONG).topic("orders")
    group = topic.group("billing")
    due_ms = now_ms(world) + HOUR_MS
    step_wall(world, HOUR_MS)
    append(topic, b"due", not_before_ms=due_ms)
    append(topic, b"later", not_before_ms=due_ms + 1000)
    assert values(group.lease()) == [b"due"]
    elapse(world, 1000)
    assert values(group.lease()) == [b"later"]


def test_whoever_waits_gets_a_schedule_soon_after_a_step(world: World) -> None:
    group = scheduled(world, HOUR_MS)
    started_ns = world.clock.monotonic_ns()
    waiting = world.runner.call("consumer", lambda: group.lease(wait_s=HOUR_MS / 1000))
    world.runner.call("clock", lambda: step_wall(world, HOUR_MS))
    world.runner.run()
    assert values(waiting.result()) == [b"later"]
    assert world.clock.monotonic_ns() - started_ns <= 1000 * NS_PER_MS


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_leases_and_delays_last_as_long_as_they_were_given_for(world: World, step_ms: int) -> None:
    topic = opened(world, group_config=LONG).topic("orders")
    append(topic, b"held", b"delayed")
    group = topic.group("billing")
    _, delayed = group.lease()
    group.nack(delayed, delay_ms=50_000)
    step_wall(world, step_ms)
    elapse(world, 49_999)
    assert group.lease() == []
    elapse(world, 1)
    assert values(group.lease()) == [b"delayed"]
    elapse(world, 10_000)
    assert values(group.lease()) == [b"held"]


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_leases_and_delays_outlive_a_restart_after_a_step(
    world: World, step_ms: int, is_folded: bool
) -> None:
    topic = opened(world, group_config=LONG).topic("orders")
    append(topic, b"held", b"delayed")
    group = topic.group("billing")
    step_wall(world, step_ms)
    _, delayed = group.lease()
    group.nack(delayed, delay_ms=50_000)
    if is_folded:
        group.parts[0].compact()
    world.restart(Crash.POWER)
    group = started(world)
    elapse(world, 49_999)
    assert group.lease() == []
    elapse(world, 1)
    assert values(group.lease()) == [b"delayed"]
    elapse(world, 10_000)
    assert values(group.lease()) == [b"held"]


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_a_delay_given_under_a_wrong_clock_is_no_longer_after_a_restart(
    world: World, is_folded: bool, count: int
) -> None:
    step_wall(world, HOUR_MS)
    topic = opened(world, group_config=LONG).topic("orders")
    append(topic, *[b"delayed"] * count)
    group = topic.group("billing")
    group.nack_all(group.lease(), delay_ms=50_000)
    if is_folded:
        group.parts[0].compact()
    step_wall(world, -HOUR_MS)
    world.restart(Crash.POWER)
    group = started(world)
    assert group.lease() == []
    elapse(world, 50_000)
    assert values(group.lease()) == [b"delayed"] * count


def test_a_schedule_is_not_capped_after_a_restart(world: World) -> None:
    group = scheduled(world, HOUR_MS)
    group.parts[0].compact()
    world.restart(Crash.POWER)
    group = started(world)
    elapse(world, HOUR_MS - 1)
    assert group.lease() == []
    elapse(world, 1)
    assert values(group.lease()) == [b"later"]


def test_a_deadline_is_told_by_the_wall_of_now(world: World) -> None:
    topic = opened(world, group_config=LONG).topic("orders")
    append(topic, b"one")
    group = topic.group("billing")
    step_wall(world, HOUR_MS)
    (held,) = group.lease()
    assert held.deadline_ms == now_ms(world) + 60_000
    assert group.extend(held, lease_ms=90_000).deadline_ms == now_ms(world) + 90_000


def delayed(world: World) -> Group:
    """A group whose only message was given back with a delay of 50 ms."""
    topic = opened(world, group_config=LONG).topic("orders")
    append(topic, b"again")
    group = topic.group("billing")
    group.nack(group.lease()[0], delay_ms=50)
    return group


def test_a_delay_that_ends_while_a_lease_is_chosen_wakes_the_consumer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = delayed(world)
    available = PartitionGroup.available

    def slow(part: PartitionGroup, max_messages: int) -> list[LeasedRange]:
        ranges = available(part, max_messages)
        world.clock.advance(60 * NS_PER_MS)
        return ranges

    monkeypatch.setattr(PartitionGroup, "available", slow)
    assert group.lease(max_bytes=1000) == []
    assert group.due_ns() == 0, "a consumer that waits tries again"


@pytest.mark.parametrize("look", ["describe", "leases", "peek"])
def test_a_look_at_a_group_after_a_delay_wakes_the_consumers(world: World, look: str) -> None:
    group = delayed(world)
    woken: list[str] = []
    group.on_change(lambda: woken.append(look))
    world.clock.advance(60 * NS_PER_MS)
    getattr(group, look)()
    assert woken
