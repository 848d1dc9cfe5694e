"""A crash at every I/O step of staging in a folder: what was decided is what is committed.

After each: batches of a task that finished are there, byte by byte; what was decided stays so,
whatever the next attempt stages; and what that one finds to be decided survives a loss of power,
for a partition may have it then.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import Any

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import DiskError
from lakebed.base.files import read_file
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.spark.staging import KEPT_MS, Batches, Run
from lakebed.spark.staging_folder import FolderStaging
from lakebed.store.staged_batch import StagedFile

FOLDER = "/data/root/staging"
RUN = Run("orders", "query 7", 41)
PARTITIONS = (0, 1)


class WholeOperations:
    """A world's disk for those who do things at once: they overtake one another before an operation
    on it, and not within, as when a folder is removed while a file is put in it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._world.disk, name)

        def whole(*arguments: Any, **settings: Any) -> Any:
            self._world.runner.pause(name)
            with self._world.disk.undisturbed():
                return operation(*arguments, **settings)

        return whole


def staging_of(world: World, disk: Any = None) -> FolderStaging:
    return FolderStaging(FOLDER, disk=disk or world.disk, runner=world.runner)


def text_of(word: str, partition: int) -> bytes:
    return f"{word} {partition}".encode() * 300


def stage(world: World, word: str, disk: Any = None) -> Batches:
    """As a task does."""
    writer = staging_of(world, disk).writer(RUN)
    for partition in PARTITIONS:
        writer.append(partition, text_of(word, partition))
    return writer.finish()


def words(world: World, batches: Batches) -> set[str]:
    """Whose the batches are; each is there and whole."""
    found = set()
    for partition, staged in batches.items():
        for one in staged:
            assert isinstance(one, StagedFile)
            data = read_file(world.disk, one.path, size_max=10_000)
            word = data.split(b" ")[0].decode()
            assert data == text_of(word, partition)
            found.add(word)
    return found


class Attempts:
    """Two attempts of one commit; the ledger has what they may rely on."""

    def __init__(self) -> None:
        self.staged: Batches = {}
        self.decided: Batches | None = None
        self.is_committed = False

    def run(self, world: World) -> None:
        staging = staging_of(world)
        first = self.staged = stage(world, "first")
        self.decided = staging.decide(RUN, first)
        second = stage(world, "second")
        assert staging.decide(RUN, second) == first
        staging.discard(RUN, second)
        self.is_committed = True  # the store has all of it
        staging.remove(RUN)

    def check(self, world: World) -> None:
        if not self.is_committed:
            assert words(world, self.staged) <= {"first"}
        self.check_staging(world.copy())
        self.check_deciding(world.copy())

    def check_staging(self, world: World) -> None:
        """In folders that somebody made before the crash, perhaps not durably."""
        again = stage(world, "again")
        for survivors in range(3):
            twin = world.copy()
            twin.restart(Crash.POWER, survivors=survivors)
            assert words(twin, again) == {"again"}

    def check_deciding(self, world: World) -> None:
        """By one that has nothing to stage, and so syncs nothing but what it decides."""
        found = staging_of(world).decide(RUN, {})
        if self.decided is not None and not self.is_committed:
            assert found == self.decided
        for survivors in range(3):
            twin = world.copy()
            twin.restart(Crash.POWER, survivors=survivors)
            assert staging_of(twin).decide(RUN, stage(twin, "third")) == found
            if not self.is_committed:
                assert words(twin, found) <= {"first"}


@pytest.mark.sweep
def test_what_is_staged_and_decided_survives_crashes() -> None:
    assert sweep(Attempts, seeds=range(2), survivors=range(3)) > 300


@pytest.mark.parametrize("seed", range(20))
def test_of_two_who_decide_at_once_one_takes_what_the_other_did(seed: int) -> None:
    world = World(seed)
    disk = WholeOperations(world)

    def attempt(word: str) -> Batches:
        return staging_of(world, disk).decide(RUN, stage(world, word, disk))

    calls = [world.runner.call(word, partial(attempt, word)) for word in ("one", "two")]
    world.runner.run()
    assert calls[0].result() == calls[1].result()


@pytest.mark.parametrize("seed", range(40))
def test_a_folder_that_others_remove_while_it_is_empty_is_made_again(seed: int) -> None:
    world = World(seed)
    disk = WholeOperations(world)

    def attempt() -> set[str]:
        return words(world, staging_of(world, disk).decide(RUN, stage(world, "mine", disk)))

    def remove() -> None:
        for _ in range(10):
            staging_of(world, disk).discard(RUN, {})

    calls = (world.runner.call("attempt", attempt), world.runner.call("remove", remove))
    world.runner.run()
    assert calls[0].result() == {"mine"}
    calls[1].result()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_old_one(nth: int) -> None:
    world = World(1)
    staging = staging_of(world)
    staged = stage(world, "new")
    world.disk.faults.fail("list", nth=nth, code=errno.EIO)
    if nth < 3:
        with pytest.raises(DiskError, match="list"):
            staging.remove_leftovers()
    else:
        assert staging.remove_leftovers() == 0
    assert words(world, staged) == {"new"}


def test_who_comes_back_to_an_old_run_keeps_what_is_staged_meanwhile() -> None:
    world = World(1)
    stage(world, "old")
    world.clock.advance(2 * KEPT_MS * NS_PER_MS)
    staged = stage(world, "new")
    assert staging_of(world).remove_leftovers() == 0
    assert words(world, staged) == {"new"}
