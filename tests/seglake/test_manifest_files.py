"""Manifest files: written and removed as the rows say, and durable before a row is told so."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.base.errors import BadName, NoSpace, Poisoned, SyncFailed
from lakebed.base.files import Disk, make_folders
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.seglake.manifest_files import (
    TO_BE_REMOVED,
    TO_BE_WRITTEN,
    WRITTEN,
    ManifestFiles,
)

FOLDER = "/store/objects/manifests"


def version(number: int) -> str:
    return f"{Random(number).getrandbits(128):032x}"


def manifest(number: int) -> bytes:
    return (b"manifest %d " % number) * (number * 7 % 200 + 1)


def writing(*numbers: int) -> list[tuple[str, int, bytes | None]]:
    return [(version(number), TO_BE_WRITTEN, manifest(number)) for number in numbers]


def removing(*numbers: int) -> list[tuple[str, int, bytes | None]]:
    return [(version(number), TO_BE_REMOVED, None) for number in numbers]


def open_files(world: World) -> ManifestFiles:
    make_folders(world.disk, FOLDER)
    return ManifestFiles(FOLDER, disk=world.disk)


def files_of(disk: Disk) -> dict[str, bytes]:
    found = {}
    for fan in disk.names(FOLDER):
        for name in disk.names(f"{FOLDER}/{fan}"):
            assert name.startswith(fan)
            with disk.open(f"{FOLDER}/{fan}/{name}") as file:
                found[name] = file.pread(0, file.size())
    return found


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.mark.parametrize("count", [1, 150])  # synced apart, and all at once
def test_what_is_told_to_be_written_survives_a_power_loss(world: World, count: int) -> None:
    files = open_files(world)
    numbers = range(count)
    written, removed = files.carry_out(writing(*numbers))
    assert (written, removed) == ([version(number) for number in numbers], [])
    world.restart(Crash.POWER)
    assert files_of(world.disk) == {version(number): manifest(number) for number in numbers}


def test_what_is_told_to_be_removed_stays_so_after_a_power_loss(world: World) -> None:
    files = open_files(world)
    files.carry_out(writing(1, 2, 3))
    told = files.carry_out([*removing(1, 3), *writing(4)])
    assert told == ([version(4)], [version(1), version(3)])
    world.restart(Crash.POWER)
    assert set(files_of(world.disk)) == {version(2), version(4)}


def test_removing_what_was_never_written_is_done_at_once(world: World) -> None:
    assert open_files(world).carry_out(removing(1)) == ([], [version(1)])


def test_rows_that_are_done_are_left_alone(world: World) -> None:
    assert open_files(world).carry_out([(version(1), WRITTEN, b"x")]) == ([], [])
    assert files_of(world.disk) == {}


def test_what_a_crash_left_half_written_is_made_anew(world: World) -> None:
    files = open_files(world)
    files.carry_out(writing(1))
    for rest in (b"", b"manif", manifest(1) + b"longer than it should be"):
        world.disk.unlink(files.path(version(1)))
        with world.disk.create(files.path(version(1))) as file:
            file.write_and_sync(0, [rest])
        files.carry_out(writing(1))
        assert files_of(world.disk) == {version(1): manifest(1)}


@pytest.mark.parametrize("name", ["null", "", "../" + "0" * 29, "0" * 31, "G" * 32, "0" * 33])
def test_no_version_id_leads_out_of_the_folder(world: World, name: str) -> None:
    with pytest.raises(BadName):
        open_files(world).carry_out([(name, TO_BE_WRITTEN, b"x")])


def test_a_full_disk_is_told_and_the_next_time_all_is_written(world: World) -> None:
    files = open_files(world)
    world.disk.capacity_bytes = world.disk.used_bytes() + 8192
    with pytest.raises(NoSpace):
        files.carry_out(writing(*range(10)))
    world.disk.capacity_bytes = 1 << 40
    files.carry_out(writing(*range(10)))
    world.restart(Crash.POWER)
    assert files_of(world.disk) == {version(number): manifest(number) for number in range(10)}


@pytest.mark.parametrize("after", AfterFailedSync)
def test_a_file_whose_sync_failed_is_written_anew(world: World, after: AfterFailedSync) -> None:
    files = open_files(world)
    world.disk.faults.fail("fdatasync", nth=2, after=after)
    with pytest.raises(SyncFailed):
        files.carry_out(writing(1, 2, 3))
    files.carry_out(writing(1, 2, 3))
    world.restart(Crash.POWER)
    assert files_of(world.disk) == {version(number): manifest(number) for number in (1, 2, 3)}


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_after_a_failed_sync_of_a_folder_nothing_is_told_to_be_done(world: World, nth: int) -> None:
    files = open_files(world)
    world.disk.faults.fail("fsync", nth=nth)
    with pytest.raises(SyncFailed):
        files.carry_out(writing(1, 2))
    with pytest.raises(Poisoned):
        files.carry_out(writing(1, 2))
    assert open_files(world).carry_out(writing(1, 2))[0] == [version(1), version(2)]


def test_after_a_failed_sync_of_them_all_nothing_is_told_to_be_done(world: World) -> None:
    files = open_files(world)
    files.carry_out(writing(*range(100)))
    world.disk.faults.fail("fsync")
    with pytest.raises(SyncFailed):
        files.carry_out(removing(*range(50)))
    with pytest.raises(Poisoned):
        files.carry_out(removing(*range(50)))


class Life:
    """`told` is what the rows say: durable, as they are."""

    def __init__(self) -> None:
        self.told: dict[str, bytes] = {}

    def run(self, world: World) -> None:
        files = open_files(world)
        self.note(files.carry_out(writing(1, 2, 3)))
        self.note(files.carry_out([*removing(2), *writing(4, 5)]))

    def note(self, done: tuple[list[str], list[str]]) -> None:
        manifests = {version(number): manifest(number) for number in range(1, 6)}
        self.told.update((one, manifests[one]) for one in done[0])
        for one in done[1]:
            del self.told[one]

    def check(self, world: World) -> None:
        files = open_files(world)
        found = files_of(world.disk)
        for one, data in self.told.items():
            if one != version(2):  # its removal may be under way
                assert found[one] == data
        self.told = {}
        self.note(files.carry_out(writing(1, 2, 3)))
        self.note(files.carry_out([*removing(2), *writing(4, 5)]))
        world.restart(Crash.POWER)
        assert files_of(world.disk) == self.told
        assert len(self.told) == 4


@pytest.mark.sweep
def test_a_crash_anywhere_leaves_what_was_told_to_be_written() -> None:
    assert sweep(Life, seeds=range(2), survivors=range(4), cases_max=500) > 200
