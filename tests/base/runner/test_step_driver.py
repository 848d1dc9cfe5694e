"""The task that runs the steps of many: of those that asked, and of no others."""

from __future__ import annotations

import pytest

from lakebed.base.runner.step_driver import StepDriver
from lakebed.base.simulation.world import World
from lakebed.keratin.topics import Topics
from tests.keratin.partitions import append, small


class Thing:
    """Counts its steps, and can be held up in one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.steps = 0
        self.delays: list[int | None] = []
        self.gate = world.runner.event()
        self.is_held = False
        self.is_removed = False

    def step(self) -> int | None:
        assert not self.is_removed, "its step ran after it was removed"
        self.steps += 1
        if self.is_held:
            self.gate.wait()
        return self.delays.pop(0) if self.delays else None


def made(seed: int = 0) -> tuple[World, StepDriver[Thing], Thing]:
    world = World(seed)
    drive: StepDriver[Thing] = StepDriver("drive", world.runner, Thing.step)
    return world, drive, Thing(world)


def test_a_step_runs_when_it_was_asked_for_and_when_it_asks_itself() -> None:
    world, drive, thing = made()
    world.runner.settle()
    assert thing.steps == 0
    thing.delays = [0, 500, None]
    drive.add(thing)
    world.runner.settle()
    assert thing.steps == 2
    world.runner.advance(499)
    assert thing.steps == 2
    world.runner.advance(1)
    assert thing.steps == 3
    world.runner.advance(10_000)
    assert thing.steps == 3
    drive.stop()


def test_who_asks_earlier_is_served_earlier_and_the_later_time_is_forgotten() -> None:
    world, drive, thing = made()
    thing.delays = [1000, None]
    drive.add(thing)
    world.runner.settle()
    drive.add(thing)
    world.runner.settle()
    assert thing.steps == 2
    world.runner.advance(5000)
    assert thing.steps == 2
    drive.stop()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("delay", [None, 10_000])
def test_one_that_is_woken_while_it_runs_runs_once_more(seed: int, delay: int | None) -> None:
    world, drive, thing = made(seed)
    thing.is_held, thing.delays = True, [delay]
    drive.add(thing)
    world.runner.settle()
    assert thing.steps == 1
    drive.add(thing)
    drive.add(thing)
    thing.is_held = False
    thing.gate.set()
    world.runner.settle()
    assert thing.steps == 2
    drive.stop()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("delay", [None, 0, 5])
def test_one_that_is_removed_while_it_runs_does_not_run_again(seed: int, delay: int | None) -> None:
    world, drive, thing = made(seed)
    thing.is_held, thing.delays = True, [delay]
    drive.add(thing)
    world.runner.settle()

    def remove() -> None:
        drive.remove(thing)
        thing.is_removed = True

    removers = [world.runner.call(f"remover {number}", remove) for number in range(2)]
    world.runner.settle()
    assert not any(remover.done for remover in removers), "they wait for the step to end"
    drive.add(thing)
    thing.gate.set()
    world.runner.run()
    world.runner.advance(100)
    assert thing.steps <= 2, "woken meanwhile it may run once more, but not behind its removal"
    drive.stop()


def test_removing_what_is_not_there_is_fine() -> None:
    world, drive, thing = made()
    drive.remove(thing)
    drive.add(thing)
    drive.remove(thing)
    world.runner.settle()
    assert thing.steps == 0
    drive.stop()


def test_one_that_waits_does_not_keep_the_others() -> None:
    world, drive, first = made()
    others = [Thing(world) for _ in range(3)]
    first.delays = [10_000]
    for thing in (first, *others):
        drive.add(thing)
    world.runner.settle()
    drive.add(others[1])
    world.runner.settle()
    assert [first.steps, *(thing.steps for thing in others)] == [1, 1, 2, 1]
    drive.stop()


def test_a_step_that_fails_is_reported_and_tried_again_and_the_others_go_on() -> None:
    world, drive, failing = made()
    other = Thing(world)

    def fail() -> int | None:
        failing.steps += 1
        if failing.steps < 4:
            raise RuntimeError("a bug")
        return None

    failing.step = fail  # type: ignore[method-assign]
    drive = StepDriver("failing", world.runner, lambda one: one.step())
    drive.add(failing)
    drive.add(other)
    world.runner.settle()
    assert (failing.steps, other.steps) == (1, 1)
    assert {thing: str(error) for thing, error in drive.failures().items()} == {failing: "a bug"}
    drive.add(other)
    world.runner.settle()
    assert other.steps == 2
    world.runner.advance(5_000_000)
    assert failing.steps == 2
    world.runner.advance(9_999_999)
    assert failing.steps == 2, "the delay grows"
    world.runner.advance(20_000_001)
    assert failing.steps == 4
    assert drive.failures() == {}
    drive.stop()


def test_what_failed_is_forgotten_with_the_thing() -> None:
    world, drive, thing = made()

    def fail() -> int | None:
        raise RuntimeError("a bug")

    thing.step = fail  # type: ignore[method-assign]
    drive = StepDriver("failing", world.runner, lambda one: one.step())
    drive.add(thing)
    world.runner.settle()
    drive.remove(thing)
    assert drive.failures() == {}
    drive.stop()


def test_of_a_thousand_partitions_only_those_that_ask_are_looked_at() -> None:
    world = World(0)
    drive: StepDriver[Thing] = StepDriver("drive", world.runner, Thing.step)
    things = [Thing(world) for _ in range(1000)]
    for thing in things:
        drive.add(thing)
    world.runner.settle()
    for thing in things[::100]:
        drive.add(thing)
    world.runner.settle()
    assert sum(thing.steps for thing in things) == 1010
    drive.stop()


def test_an_append_to_one_of_many_partitions_touches_no_other() -> None:
    world = World(0)
    topics = Topics("/store", disk=world.disk, runner=world.runner, config=small())
    topic = topics.create("orders", partitions=40)
    world.runner.settle()
    del world.trace[:]
    future = topic.append_batch([b"x"], partition=7)
    world.runner.settle()
    assert future.done()
    touched = [line for line in world.trace if "/topics/orders/" in line]
    assert touched
    assert all("/topics/orders/7" in line for line in touched)
    assert append(topic.partition(7), b"y") == 1
    topics.close()
