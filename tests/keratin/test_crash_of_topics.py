"""A crash at every I/O step of creating, configuring and deleting a topic: old or new, never half.

What is listed can be opened and has all of its partitions and messages; what is not listed can be
created, and nothing is left of what had its name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import pytest

from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.world import World
from lakebed.keratin.topics import Topics
from tests.keratin.partitions import append, small, values

CRASHES = [(Crash.KILL, 0), (Crash.POWER, 0), (Crash.POWER, 3)]
MANY_CRASHES = [*CRASHES, *((Crash.POWER, survivors) for survivors in range(5, 15, 2))]
Action = Callable[[Topics], object]


def topics_of(world: World) -> Topics:
    return Topics("/store", disk=world.disk, runner=world.runner, config=small())


@pytest.fixture(scope="module")
def written() -> World:
    """A machine with the topic `old`, which has a message in each of its partitions."""
    world = World(1)
    topics = topics_of(world)
    topic = topics.create("old", partitions=2, settings={"retention_ms": 5})
    for partition in topic.partitions:
        append(partition, b"message %d" % partition.number)
    topics.close()
    world.runner.close()
    return world


def crashed_everywhere(
    written: World,
    action: Action,
    check: Callable[[Topics], None],
    crashes: Sequence[tuple[Crash, int]] = CRASHES,
) -> int:
    """How many crashes were tried."""
    probe = written.copy()
    topics = topics_of(probe)
    before = probe.disk.steps
    action(topics)
    steps = probe.disk.steps - before
    for step in range(steps + 1):
        for crash, survivors in crashes:
            world = written.copy()
            topics = topics_of(world)
            world.disk.faults.crash_at_step = world.disk.steps + step
            with contextlib.suppress(SimulatedCrash):
                action(topics)
            world.restart(crash, survivors=survivors)
            topics = topics_of(world)
            check(topics)
            topics.close()
    return steps * len(crashes)


def check_old(topics: Topics) -> None:
    topic = topics.open("old")
    assert [values(one) for one in topic.partitions] == [[b"message 0"], [b"message 1"]]
    assert not any(one.problems for one in topic.partitions)


@pytest.mark.sweep
def test_a_topic_that_was_being_created_is_there_or_not(written: World) -> None:
    seen = set()

    def check(topics: Topics) -> None:
        check_old(topics)
        is_there = "new" in topics.names()
        seen.add(is_there)
        topic = topics.open("new") if is_there else topics.create("new", partitions=2)
        assert len(topic.partitions) == 2
        assert [values(one) for one in topic.partitions] == [[], []]
        assert append(topic.partition(1), b"goes on") == 0
        assert topics.names() == ["new", "old"]

    assert crashed_everywhere(written, lambda topics: topics.create("new", partitions=2), check)
    assert seen == {True, False}


@pytest.mark.sweep
def test_a_topic_that_was_being_deleted_is_whole_or_gone(written: World) -> None:
    seen = set()

    def check(topics: Topics) -> None:
        is_there = "old" in topics.names()
        seen.add(is_there)
        if is_there:
            check_old(topics)
            topics.delete("old")
        assert topics.names() == []
        fresh = topics.create("old", partitions=3)
        assert [values(one) for one in fresh.partitions] == [[], [], []]

    assert crashed_everywhere(
        written, lambda topics: topics.delete("old"), check, crashes=MANY_CRASHES
    )
    assert seen == {True, False}


def test_what_was_deleted_stays_so(written: World) -> None:
    for survivors in range(4):
        world = written.copy()
        topics_of(world).delete("old")
        world.restart(Crash.POWER, survivors=survivors)
        assert topics_of(world).names() == []


def test_settings_that_were_being_changed_are_the_old_or_the_new(written: World) -> None:
    seen = set()

    def check(topics: Topics) -> None:
        check_old(topics)
        seen.add(topics.open("old").config.retention_ms)

    def action(topics: Topics) -> None:
        topics.configure("old", {"retention_ms": 6})

    assert crashed_everywhere(written, action, check)
    assert seen == {5, 6}
