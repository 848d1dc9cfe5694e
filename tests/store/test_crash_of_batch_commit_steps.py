"""A crash at every single step of one commit, and of the completion of one that a crash left.

`test_crash_of_batch_commit` has others at work meanwhile, and takes samples; here is only one
partition, and no step is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.world import World
from lakebed.keratin.paths import TopicPaths
from lakebed.store.topics import StoreTopic
from tests.store.batch_commits import (
    APPLICATION,
    NAME,
    batch,
    committed_values,
    names_of,
    staged,
    topics_of,
)
from tests.store.queues import ROOT

pytestmark = pytest.mark.sweep

PATHS = TopicPaths(ROOT, NAME).partition(0)
CRASHES = [(Crash.KILL, 0), (Crash.POWER, 0), (Crash.POWER, 3)]
COUNTS = {1: 2, 2: 8, 3: 1}  # messages of each version
FILES = ["commits.json", "durable_end", "manifest.bin", "segments"]


@pytest.fixture(scope="module")
def written() -> World:
    """A machine with a topic that has one version."""
    world = World(1)
    with opened(world) as topic:
        commit(topic, 1, by="first")
    world.runner.close()
    return world


@contextlib.contextmanager
def opened(world: World) -> Iterator[StoreTopic]:
    with contextlib.closing(topics_of(world)) as topics:
        yield topics.ensure(NAME)


def commit(topic: StoreTopic, version: int, *, by: str) -> bool:
    names = names_of(version, 0, COUNTS[version], by=by)
    # Version 2 has several writes, with a new segment among them.
    batches = staged(names, at_once=2, padding=3000 if version == 2 else 0)
    [found] = topic.commit_batches(APPLICATION, version, {0: batches})
    return found.is_new


class Act:
    """Two versions, and messages of others before and between them."""

    def __init__(self) -> None:
        self.done = {1}

    def run(self, world: World) -> None:
        with opened(world) as topic:
            for version in (2, 3):
                topic.append_batch([b"plain %d" % version], partition=0).result()
                commit(topic, version, by="first")
                self.done.add(version)

    def check(self, world: World) -> None:
        with opened(world) as topic:
            found = versions(topic)
            assert self.done <= set(found)
            assert found == list(COUNTS)[: len(found)]
            for version in COUNTS:
                assert commit(topic, version, by="second") == (version not in found)
            assert versions(topic) == list(COUNTS)
            assert world.disk.names(PATHS.folder) == FILES
        with opened(world) as topic:
            assert versions(topic) == list(COUNTS)
            assert not any(commit(topic, version, by="third") for version in COUNTS)
            assert versions(topic) == list(COUNTS)


def versions(topic: StoreTopic) -> list[int]:
    """Those that are there: each as a whole, once, and of one caller."""
    ours = [v for v in committed_values(topic, 0) if not v.startswith(b"plain")]
    found = []
    while ours:
        version = int(ours[0].split()[1])
        by = ours[0].split()[0].decode()
        whole = names_of(version, 0, COUNTS[version], by=by)
        assert ours[: len(whole)] == whole
        ours = ours[len(whole) :]
        found.append(version)
    return found


def steps_of(world: World) -> int:
    probe = world.copy()
    before = probe.disk.steps
    Act().run(probe)
    return probe.disk.steps - before


def crashed(world: World, step: int, crash: Crash, survivors: int) -> tuple[World, Act]:
    """A machine that was restarted after a crash at that step, and what was answered before."""
    twin, act = world.copy(), Act()
    twin.disk.faults.crash_at_step = twin.disk.steps + step
    with contextlib.suppress(SimulatedCrash):
        act.run(twin)
    twin.restart(crash, survivors=survivors)
    return twin, act


def crashed_twice(
    written: World,
    firsts: Sequence[int],
    crashes: Sequence[tuple[Crash, int]],
    *,
    stride: int = 1,
) -> int:
    """How many second crashes there were; the `stride` is between their steps."""
    count = 0
    for first in firsts:
        for crash, survivors in crashes:
            world, act = crashed(written, first, crash, survivors)
            for second in range(first % stride, steps_of(world) + 1, stride):
                again, survivors_again = crashes[(second + first) % len(crashes)]
                twin, act_again = crashed(world, second, again, survivors_again)
                act_again.done |= act.done
                act_again.check(twin)
                count += 1
    return count


def test_a_crash_at_every_step_of_a_commit_leaves_all_or_nothing(written: World) -> None:
    for step in range(steps_of(written) + 1):
        for crash, survivors in CRASHES:
            world, act = crashed(written, step, crash, survivors)
            act.check(world)


def test_a_crash_at_every_step_of_a_completion_doubles_nothing(written: World) -> None:
    crashes = [(Crash.KILL, 0), (Crash.POWER, 2)]
    begun = interrupted_steps(written)
    assert crashed_twice(written, begun[1 :: len(begun) // 3], crashes, stride=5) > 40


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_crash_at_every_step_behind_a_crash_at_every_step(written: World) -> None:
    crashes = [*CRASHES, *((Crash.POWER, survivors) for survivors in range(4, 9))]
    assert crashed_twice(written, range(steps_of(written)), crashes) > 1000


def test_each_operation_that_fails_changes_nothing_or_is_completed(written: World) -> None:
    for operation in ("create", "pwrite", "fdatasync", "fsync", "rename", "unlink"):
        for nth in range(1, 10):
            world, act = written.copy(), Act()
            after = list(AfterFailedSync)[nth // 2 % 2]
            world.disk.faults.fail(operation, nth=nth, after=after)
            with contextlib.suppress(LakebedError):
                act.run(world)
            world.restart(Crash.POWER if nth % 2 else Crash.KILL, survivors=nth)
            act.check(world)


def interrupted_steps(written: World) -> list[int]:
    """The steps at which a kill leaves a `commit.bin`."""
    found = []
    for step in range(0, steps_of(written), 2):
        world, _ = crashed(written, step, Crash.KILL, 0)
        if world.disk.exists(PATHS.commit):
            found.append(step)
    assert len(found) > 10
    return found


def test_a_commit_that_is_not_published_is_nothing(written: World) -> None:
    world = written.copy()
    with world.disk.create(f"{PATHS.commit}.0.tmp") as file:
        file.pwrite(0, batch(b"half"))
    with opened(world) as topic:
        assert versions(topic) == [1]
        assert world.disk.names(PATHS.folder) == FILES
