"""A crash at every I/O step of batch commits beside a producer, of their completion, and behind it.

After each crash every version is in each partition as a whole or not at all; whoever then repeats
all of them, with other bytes, finds each there exactly once: the first that was committed.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial
from random import Random

import pytest

from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.keratin.paths import TopicPaths
from lakebed.store.topics import StoreTopic
from tests.store.batch_commits import (
    APPLICATION,
    NAME,
    committed_values,
    names_of,
    staged,
    topics_of,
)
from tests.store.queues import ROOT

pytestmark = pytest.mark.sweep

PARTITIONS = 2
# Of each version: messages a partition, how many in one record batch, bytes of each.
SHAPES = {1: (5, 2, 0), 2: (12, 2, 1500), 3: (1, 1, 0), 4: (2, 2, 0)}


class Life:
    """One who commits version behind version, and one who produces."""

    produced_count = 6

    def __init__(self) -> None:
        self.committed: list[int] = []  # versions, answered
        self.begun: list[int] = []
        self.produced: list[tuple[int, bytes]] = []
        self.sent: list[tuple[int, bytes]] = []

    def run(self, world: World) -> None:
        topics = topics_of(world)
        with contextlib.closing(topics):
            topic = topics.ensure(NAME, partitions=PARTITIONS)
            calls = [
                world.runner.call("commit", partial(self.commit_all, topic)),
                world.runner.call("produce", partial(self.produce, topic, world)),
            ]
            world.runner.run()
            for call in calls:
                call.result()

    def commit_all(self, topic: StoreTopic) -> None:
        for version in SHAPES:
            self.begun.append(version)
            self.commit(topic, version, by="first")
            self.committed.append(version)

    def commit(self, topic: StoreTopic, version: int, *, by: str) -> list[bool]:
        count, at_once, padding = SHAPES[version]
        batches = {
            number: staged(
                names_of(version, number, count, by=by), at_once=at_once, padding=padding
            )
            for number in range(PARTITIONS)
        }
        return [one.is_new for one in topic.commit_batches(APPLICATION, version, batches)]

    def produce(self, topic: StoreTopic, world: World) -> None:
        random = Random(f"{world.seed}")
        for index in range(self.produced_count):
            number, value = random.randrange(PARTITIONS), b"plain %d" % index
            self.sent.append((number, value))
            topic.append_batch([value], partition=number).result()
            self.produced.append((number, value))
            world.runner.sleep_ns(random.randrange(3) * 1_000_000)

    # What must be true.

    def check(self, world: World) -> None:
        topics = topics_of(world)
        with contextlib.closing(topics):
            topic = topics.ensure(NAME, partitions=PARTITIONS)
            assert not any(partition.problems for partition in topic.partitions)
            found = [self.versions(topic, number) for number in range(PARTITIONS)]
            for versions in found:
                assert set(self.committed) <= set(versions) <= set(self.begun)
            self.check_produced(topic)
            self.repeat(topic, found)
            for number in range(PARTITIONS):
                assert self.versions(topic, number) == list(SHAPES)
            world.runner.run()
            before = [committed_values(topic, number) for number in range(PARTITIONS)]
            self.check_files(world)
        topics = topics_of(world)
        with contextlib.closing(topics):
            topic = topics.open(NAME)
            assert [committed_values(topic, number) for number in range(PARTITIONS)] == before
            for version in SHAPES:
                assert self.commit(topic, version, by="third") == [False] * PARTITIONS
            assert [committed_values(topic, number) for number in range(PARTITIONS)] == before

    def repeat(self, topic: StoreTopic, found: list[list[int]]) -> None:
        for version in SHAPES:
            is_new = self.commit(topic, version, by="second")
            assert is_new == [version not in found[number] for number in range(PARTITIONS)]

    def versions(self, topic: StoreTopic, number: int) -> list[int]:
        """Those that are there, in their order; each must be there as a whole, and once."""
        found = committed_values(topic, number)
        versions = []
        for value in found:
            if not value.startswith(b"plain"):
                version = int(value.split()[1])
                if version not in versions:
                    versions.append(version)
        for version in versions:
            mine = [v for v in found if not v.startswith(b"plain") and int(v.split()[1]) == version]
            whole = [
                names_of(version, number, SHAPES[version][0], by=by) for by in ("first", "second")
            ]
            assert mine in whole, f"version {version} of partition {number}: {mine}"
        return versions

    def check_produced(self, topic: StoreTopic) -> None:
        found = Counter(
            (number, value)
            for number in range(PARTITIONS)
            for value in committed_values(topic, number)
            if value.startswith(b"plain")
        )
        assert set(self.produced) <= set(found) <= set(self.sent)
        assert set(found.values()) <= {1}

    def check_files(self, world: World) -> None:
        for number in range(PARTITIONS):
            folder = TopicPaths(ROOT, NAME).partition(number).folder
            names = set(world.disk.names(folder))
            assert names == {"commits.json", "durable_end", "manifest.bin", "segments"}


class LifeThenAnother(Life):
    """What is completed at the opening is cut short, too, and then the power fails, or not."""

    produced_count = 2

    def check(self, world: World) -> None:
        probe = world.copy()
        before = probe.disk.steps
        self.copy().open_and_commit(probe)
        steps = probe.disk.steps - before
        for step in range(0, steps + 1, max(1, steps // 8)):
            for crash in Crash:
                twin = world.copy()
                twin.disk.faults.crash_at_step = twin.disk.steps + step
                life = self.copy()
                with contextlib.suppress(SimulatedCrash):
                    life.open_and_commit(twin)
                twin.restart(crash, survivors=step % 4)
                life.check(twin)

    def open_and_commit(self, world: World) -> None:
        """Open it, and commit the next version behind what is completed."""
        topics = topics_of(world)
        with contextlib.closing(topics):
            topic = topics.ensure(NAME, partitions=PARTITIONS)
            following = [version for version in SHAPES if version not in self.committed]
            for version in following[:1]:
                if version not in self.begun:
                    self.begun.append(version)
                self.commit(topic, version, by="first")
                self.committed.append(version)

    def copy(self) -> LifeThenAnother:
        twin = _Twin()
        twin.committed, twin.begun = list(self.committed), list(self.begun)
        twin.produced, twin.sent = list(self.produced), list(self.sent)
        return twin


class _Twin(LifeThenAnother):
    def check(self, world: World) -> None:
        Life.check(self, world)


def test_a_crash_anywhere_leaves_every_version_whole_or_not_at_all() -> None:
    assert sweep(Life, seeds=range(3), survivors=range(3), cases_max=70) > 60


def test_a_crash_of_the_completion_and_of_the_commit_behind_it_doubles_nothing() -> None:
    assert sweep(LifeThenAnother, seeds=[5], survivors=[0, 2], cases_max=3) > 2


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    sweep(Life, seeds=range(100, 110), survivors=range(4), cases_max=6000)
    sweep(LifeThenAnother, seeds=range(4), survivors=range(3), cases_max=400)


@pytest.mark.parametrize("operation", ["fdatasync", "fsync", "pwrite", "rename", "unlink"])
@pytest.mark.parametrize("crash", Crash)
def test_a_failed_write_or_sync_keeps_every_promise(operation: str, crash: Crash) -> None:
    for nth in (1, 2, 3, 5, 8, 13, 21):
        after = list(AfterFailedSync)[nth % 2]
        world, life = World(nth), Life()
        with contextlib.closing(topics_of(world)) as topics:
            topics.ensure(NAME, partitions=PARTITIONS)
        world.disk.faults.fail(operation, nth=nth, after=after)
        with contextlib.suppress(LakebedError):
            life.run(world)
        world.restart(crash, survivors=nth)
        life.check(world)
