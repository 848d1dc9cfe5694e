"""A crash at every step of replacing a file: the old bytes or the new ones, never a mix."""

from __future__ import annotations

import errno

import pytest

from lakebed.base.errors import LakebedError, NoSpace, SyncFailed
from lakebed.base.files import (
    make_folders,
    read_file,
    remove_temporaries,
    replace_atomically,
)
from lakebed.base.files.protocol import TEMPORARY_SUFFIX
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World

FOLDER = "/data/store"
PATH = f"{FOLDER}/pointer"
CONTENTS = [bytes([n]) * (700 * n) for n in range(1, 5)]  # several sectors, all of them different


class Replacements:
    """Replaces one file again and again; the ledger has what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged = -1
        self.folder_made = False

    def run(self, world: World) -> None:
        make_folders(world.disk, FOLDER)
        self.folder_made = True
        for number, content in enumerate(CONTENTS):
            replace_atomically(world.disk, PATH, content)
            self.acknowledged = number

    def check(self, world: World) -> None:
        if self.folder_made:
            assert world.disk.is_folder(FOLDER), "an acknowledged folder is gone"
        found = self._found(world)
        # The acknowledged one, or the one that was under way when the crash came.
        allowed = CONTENTS[max(self.acknowledged, 0) : self.acknowledged + 2]
        assert found in allowed or (found is None and self.acknowledged < 0)
        if world.disk.exists(FOLDER):
            remove_temporaries(world.disk, FOLDER)
            assert set(world.disk.names(FOLDER)) <= {"pointer"}

    def _found(self, world: World) -> bytes | None:
        if not world.disk.exists(PATH):
            return None
        return read_file(world.disk, PATH, size_max=10_000)


class ReplacementsCrashingTwice(Replacements):
    """After a kill the page cache may still be lost: the next replacement must not rely on it."""

    def check(self, world: World) -> None:
        super().check(world)
        make_folders(world.disk, FOLDER)
        replace_atomically(world.disk, PATH, b"after the restart")
        for survivors in range(4):
            twin = world.copy()
            twin.restart(Crash.POWER, survivors=survivors)
            assert self._found(twin) == b"after the restart"


@pytest.mark.parametrize("scenario", [Replacements, ReplacementsCrashingTwice])
def test_old_or_new_but_never_a_mix(scenario: type[Replacements]) -> None:
    tried = sweep(scenario, seeds=range(3), survivors=range(6))
    assert tried > 300


def test_short_writes_change_nothing() -> None:
    world = World(5)
    world.disk.faults.short_writes = True
    scenario = Replacements()
    scenario.run(world)
    world.restart(Crash.POWER)
    scenario.check(world)


@pytest.mark.parametrize("operation", ["create", "pwrite", "fdatasync", "rename", "fsync", "close"])
@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("survivors", range(4))
def test_a_failed_step_leaves_old_or_new_and_is_told(
    operation: str, after: AfterFailedSync, survivors: int
) -> None:
    world = World(11)
    make_folders(world.disk, FOLDER)
    replace_atomically(world.disk, PATH, CONTENTS[0])
    world.disk.faults.fail(operation, code=errno.EIO, after=after)
    with pytest.raises(LakebedError):
        replace_atomically(world.disk, PATH, CONTENTS[1])
    world.restart(Crash.POWER, survivors=survivors)
    assert read_file(world.disk, PATH, size_max=10_000) in CONTENTS[:2]


def test_a_full_disk_leaves_the_old_file_and_no_rubbish() -> None:
    world = World(1)
    make_folders(world.disk, FOLDER)
    replace_atomically(world.disk, PATH, CONTENTS[0])
    world.disk.capacity_bytes = world.disk.used_bytes()
    with pytest.raises(NoSpace, match="No space left"):
        replace_atomically(world.disk, PATH, CONTENTS[1])
    assert read_file(world.disk, PATH, size_max=10_000) == CONTENTS[0]
    assert not [name for name in world.disk.names(FOLDER) if name.endswith(TEMPORARY_SUFFIX)]


def test_a_failed_sync_of_the_temporary_file_never_replaces() -> None:
    world = World(2)
    make_folders(world.disk, FOLDER)
    replace_atomically(world.disk, PATH, CONTENTS[0])
    world.disk.faults.fail("fdatasync")
    with pytest.raises(SyncFailed):
        replace_atomically(world.disk, PATH, CONTENTS[1])
    assert read_file(world.disk, PATH, size_max=10_000) == CONTENTS[0]
