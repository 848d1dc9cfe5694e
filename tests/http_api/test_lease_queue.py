"""The queue of those who wait for something to lease: who is told, and that nobody is forgotten."""

from __future__ import annotations

from contextlib import ExitStack

from lakebed.base.simulation.world import World
from lakebed.http_api.lease_queue import LeaseQueues
from tests.http.serving import in_loop, until
from tests.store.queues import append, opened


@in_loop
async def test_one_who_was_told_and_leaves_without_a_look_tells_the_next() -> None:
    group = opened(World(7)).topic("orders").group("billing")
    queues = LeaseQueues()
    with ExitStack() as others:
        with queues.place(group) as (queue, first):
            _, second = others.enter_context(queues.place(group))
            _, third = others.enter_context(queues.place(group))
            queue.wake_next()
            assert [wake_event._is_set for wake_event in (first, second, third)] == [
                True,
                False,
                False,
            ]
        assert [wake_event._is_set for wake_event in (second, third)] == [True, False]
    assert queues._queues == {}


@in_loop
async def test_one_who_waits_again_is_behind_the_others() -> None:
    group = opened(World(7)).topic("orders").group("billing")
    queues = LeaseQueues()
    with queues.place(group) as (queue, first), queues.place(group) as (_, second):
        queue.wake_next()
        assert await first.wait(0)
        queue.wait_again(first)
        queue.wake_next()
        assert [wake_event._is_set for wake_event in (first, second)] == [False, True]
        queue.wake_next()
        assert first._is_set


@in_loop
async def test_a_change_in_the_group_tells_one_and_an_empty_queue_does_not_listen() -> None:
    topic = opened(World(7)).topic("orders")
    group = topic.group("billing")
    queues = LeaseQueues()
    with queues.place(group) as (_, first), queues.place(group) as (_, second):
        append(topic, b"a")
        await until(lambda: first._is_set)
        assert not second._is_set
    assert not len(group._listeners)


@in_loop
async def test_a_bell_that_is_not_rung_is_waited_for_no_longer_than_said() -> None:
    group = opened(World(7)).topic("orders").group("billing")
    with LeaseQueues().place(group) as (_, wake_event):
        assert not await wake_event.wait(0)
