"""The deterministic runner: same seed, same run; no lost wake-up; time that only jumps."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from lakebed.base.clock import NS_PER_S
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.base.simulation.scheduler import Deadlock, Scheduler, SimulatedCrash
from lakebed.base.simulation.world import World


def _scheduler(seed: int = 0) -> Scheduler:
    return Scheduler(Random(seed), SimulatedClock())


def _race(seed: int) -> list[str]:
    """Three callers that are overtaken by each other."""
    scheduler, order = _scheduler(seed), list[str]()

    def caller(name: str) -> None:
        for n in range(3):
            scheduler.pause("here")
            order.append(f"{name}{n}")

    for name in "abc":
        scheduler.call(name, partial(caller, name))
    scheduler.run()
    return order


def test_one_seed_gives_one_order_and_seeds_differ() -> None:
    assert _race(1) == _race(1)
    assert len({tuple(_race(seed)) for seed in range(20)}) > 10


def test_everyone_runs_to_the_end() -> None:
    assert sorted(_race(3)) == [f"{name}{n}" for name in "abc" for n in range(3)]


def test_a_mutex_admits_one_at_a_time() -> None:
    scheduler, inside, worst = _scheduler(), list[str](), list[int]()
    mutex = scheduler.mutex()

    def caller(name: str) -> None:
        for _ in range(5):
            with mutex:
                inside.append(name)
                scheduler.pause("inside")
                worst.append(len(inside))
                inside.remove(name)

    for name in "abcd":
        scheduler.call(name, partial(caller, name))
    scheduler.run()
    assert max(worst) == 1


def test_an_event_wakes_those_who_wait_and_those_who_come_later() -> None:
    scheduler = _scheduler()
    event = scheduler.event()
    waiters = [scheduler.call(f"w{n}", event.wait) for n in range(3)]
    scheduler.call("setter", event.set)
    scheduler.run()
    assert [waiter.result() for waiter in waiters] == [True] * 3
    assert event.wait(0)


def test_time_passes_only_when_everyone_waits() -> None:
    scheduler = _scheduler()
    event = scheduler.event()
    timed = scheduler.call("timed", lambda: event.wait(2.5))
    slept = scheduler.call("sleeper", lambda: scheduler.sleep_ns(NS_PER_S))
    scheduler.run()
    assert timed.result() is False
    assert slept.done
    assert scheduler.clock.monotonic_ns() == 2.5 * NS_PER_S


def test_a_deadlock_is_told_by_name() -> None:
    scheduler = _scheduler()
    scheduler.call("the forgotten one", scheduler.event().wait)
    with pytest.raises(Deadlock, match="the forgotten one for an event"):
        scheduler.run()


def test_an_error_of_a_caller_is_its_own() -> None:
    scheduler = _scheduler()
    bad = scheduler.call("bad", lambda: 1 // 0)
    good = scheduler.call("good", lambda: 7)
    scheduler.run()
    assert good.result() == 7
    with pytest.raises(ZeroDivisionError):
        bad.result()


def test_a_crash_in_one_ends_all_without_letting_them_wait_or_go_on() -> None:
    scheduler, reached = _scheduler(), list[str]()
    never = scheduler.event()

    def waiter() -> None:
        try:
            never.wait()
        finally:
            reached.append("unwound")
            scheduler.pause("must not go on")
            reached.append("went on")

    def crasher() -> None:
        scheduler.pause("first")
        crash = SimulatedCrash("power")
        scheduler.halt(crash)
        raise crash

    scheduler.call("waiter", waiter)
    scheduler.call("crasher", crasher)
    with pytest.raises(SimulatedCrash, match="power"):
        scheduler.run()
    assert reached in (["unwound"], [])  # empty if the crash came before it started


def test_the_driver_may_wait_too_and_runs_the_others_meanwhile() -> None:
    scheduler = _scheduler()
    event = scheduler.event()

    def set_later() -> None:
        scheduler.sleep_ns(5)
        event.set()

    scheduler.call("setter", set_later)
    assert event.wait(1)
    assert scheduler.clock.monotonic_ns() == 5
    assert not scheduler.event().wait(1)
    assert scheduler.clock.monotonic_ns() == NS_PER_S + 5


def test_one_seed_replays_disk_and_threads_together() -> None:
    def run(seed: int) -> list[str]:
        world = World(seed)

        def writer(name: str) -> None:
            with world.disk.create(f"/{name}") as file:
                for n in range(4):
                    file.write_and_sync(n * 10, [b"x" * world.random.randrange(1, 10)])

        for name in "abc":
            world.runner.call(name, partial(writer, name))
        world.runner.run()
        return world.trace

    assert run(42) == run(42)
    assert run(42) != run(43)
