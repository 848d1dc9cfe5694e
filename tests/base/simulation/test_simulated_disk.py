"""The simulated disk loses what a real one may lose, and nothing that was synced."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from lakebed.base.errors import DiskError, NoSpace, NotFound, Poisoned, SyncFailed, WriteFailed
from lakebed.base.simulation.disk import Crash, SimulatedDisk
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.open_file import SealedFileChanged
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.world import World


def _disk(seed: int = 0) -> SimulatedDisk:
    return SimulatedDisk(Random(seed))


def _synced_file(disk: SimulatedDisk, path: str, content: bytes) -> None:
    with disk.create(path) as file:
        file.write_and_sync(0, [content])
    disk.sync_folder("/")


def _content(disk: SimulatedDisk, path: str) -> bytes:
    with disk.open(path) as file:
        return file.pread(0, 1 << 20)


@pytest.mark.parametrize("survivors", range(20))
def test_what_was_synced_survives_a_power_loss(survivors: int) -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"a" * 2000)
    disk.restart(Crash.POWER, survivors=survivors)
    assert _content(disk, "/f") == b"a" * 2000


def test_a_kill_loses_nothing_that_was_written() -> None:
    disk = _disk()
    disk.create("/f").pwrite(0, b"unsynced")
    disk.restart(Crash.KILL)
    assert _content(disk, "/f") == b"unsynced"


def test_what_a_kill_left_in_the_page_cache_can_still_be_lost() -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"old")
    disk.open("/f", writable=True).pwrite(0, b"new")
    disk.restart(Crash.KILL)
    assert _content(disk, "/f") == b"new"
    disk.restart(Crash.POWER, survivors=0)
    assert _content(disk, "/f") == b"old"


def test_a_synced_tree_survives_and_nothing_beside_it() -> None:
    disk = _disk()
    for path in ("/tree", "/tree/sub", "/beside"):
        disk.make_folder(path)
    disk.sync_folder("/")
    for path in ("/tree/f", "/tree/sub/g", "/beside/h"):
        disk.create(path).pwrite(0, path.encode())
    disk.sync_tree("/tree")
    disk.restart(Crash.POWER, survivors=0)
    assert _content(disk, "/tree/f") == b"/tree/f"
    assert _content(disk, "/tree/sub/g") == b"/tree/sub/g"
    assert disk.names("/beside") == []


def test_a_tree_whose_sync_fails_is_told() -> None:
    disk = _disk()
    disk.make_folder("/tree")
    disk.faults.fail("fsync")
    with pytest.raises(SyncFailed):
        disk.sync_tree("/tree")


def test_a_synced_file_in_an_unsynced_folder_is_gone() -> None:
    disk = _disk()
    with disk.create("/f") as file:
        file.write_and_sync(0, [b"synced"])
    disk.restart(Crash.POWER, survivors=0)
    with pytest.raises(NotFound):
        disk.open("/f")


def test_an_unsynced_unlink_may_come_back_and_a_synced_one_does_not() -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"data")
    disk.unlink("/f")
    twin = disk.copy(Random(1))
    disk.restart(Crash.POWER, survivors=0)
    assert _content(disk, "/f") == b"data"
    twin.sync_folder("/")
    twin.restart(Crash.POWER, survivors=0)
    assert not twin.exists("/f")


def test_unsynced_writes_are_lost_kept_and_torn_at_sectors_in_any_order() -> None:
    seen = set()
    for survivors in range(200):
        disk = _disk(survivors)
        _synced_file(disk, "/f", b"o" * 1536)
        disk.open("/f", writable=True).pwrite(0, b"n" * 1536)
        disk.restart(Crash.POWER, survivors=survivors)
        content = _content(disk, "/f")
        sectors = [content[i : i + 512] for i in range(0, 1536, 512)]
        assert all(len(set(sector)) == 1 for sector in sectors), "torn inside a sector"
        seen.add("".join(chr(sector[0]) for sector in sectors))
    assert seen == {a + b + c for a in "on" for b in "on" for c in "on"}


def test_an_older_version_of_a_sector_may_be_the_one_that_survives() -> None:
    seen = set()
    for survivors in range(100):
        disk = _disk(survivors)
        _synced_file(disk, "/f", b"0")
        with disk.open("/f", writable=True) as file:
            file.pwrite(0, b"1")
            file.pwrite(0, b"2")
        disk.restart(Crash.POWER, survivors=survivors)
        seen.add(_content(disk, "/f"))
    assert seen == {b"0", b"1", b"2"}


def test_an_appended_length_may_survive_without_its_bytes() -> None:
    seen = set()
    for survivors in range(100):
        disk = _disk(survivors)
        _synced_file(disk, "/f", b"a" * 512)
        disk.open("/f", writable=True).pwrite(512, b"b" * 512)
        disk.restart(Crash.POWER, survivors=survivors)
        seen.add(_content(disk, "/f")[512:])
    assert seen == {b"", b"b" * 512, bytes(512)}


def test_a_rename_is_atomic_whatever_survives() -> None:
    for survivors in range(100):
        disk = _disk(survivors)
        _synced_file(disk, "/old", b"old")
        _synced_file(disk, "/new", b"new")
        disk.rename("/new", "/old")
        disk.restart(Crash.POWER, survivors=survivors)
        content = _content(disk, "/old")
        assert content == (b"old" if disk.exists("/new") else b"new")


def test_a_rename_without_a_sync_of_the_file_may_name_an_empty_file() -> None:
    """The classic mistake: the simulated disk must be able to show it."""
    disk = _disk()
    with disk.create("/tmp") as file:
        file.pwrite(0, b"content")
    disk.rename("/tmp", "/target")
    disk.sync_folder("/")
    disk.restart(Crash.POWER, survivors=0)
    assert _content(disk, "/target") == b""


@pytest.mark.parametrize("after", AfterFailedSync)
def test_a_failed_sync_loses_its_pages_and_the_next_one_lies(after: AfterFailedSync) -> None:
    lost = set()
    for seed in range(20):
        disk = _disk(seed)
        _synced_file(disk, "/f", b"old")
        disk.faults.fail("fdatasync", after=after)
        with disk.open("/f", writable=True) as file, pytest.raises(SyncFailed):
            file.write_and_sync(0, [b"new"])
        shown = _content(disk, "/f")
        if after is AfterFailedSync.KEPT:
            assert shown == b"new"
        with disk.open("/f", writable=True) as file:
            file.sync()  # another handle: succeeds, and makes nothing durable
        disk.restart(Crash.POWER, survivors=1)
        lost.add(_content(disk, "/f"))
        if after is AfterFailedSync.REVERTED:
            assert shown == _content(disk, "/f")
    assert lost == {b"old", b"new"}


def test_a_handle_whose_sync_failed_takes_no_more() -> None:
    disk = _disk()
    with disk.create("/f") as file:
        disk.faults.fail("fdatasync")
        with pytest.raises(SyncFailed):
            file.sync()
        with pytest.raises(Poisoned):
            file.pwrite(0, b"x")
        with pytest.raises(Poisoned):
            file.sync()


@pytest.mark.parametrize(
    "operation", ["create", "rename", "unlink", "close", "pwrite", "pread", "truncate", "mkdir"]
)
def test_the_nth_operation_fails_and_the_one_after_it_does_not(operation: str) -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"x")
    disk.create("/g")
    acts: dict[str, Callable[[int], object]] = {
        "create": lambda n: disk.create(f"/new{n}"),
        "rename": lambda n: disk.rename("/f", "/f"),
        "unlink": lambda n: disk.unlink("/g"),
        "close": lambda n: disk.open("/f").close(),
        "pwrite": lambda n: disk.open("/f", writable=True).pwrite(0, b"x"),
        "pread": lambda n: disk.open("/f").pread(0, 1),
        "truncate": lambda n: disk.open("/f", writable=True).truncate(1),
        "mkdir": lambda n: disk.make_folder(f"/folder{n}"),
    }
    first = 1 if operation == "unlink" else 2
    disk.faults.fail(operation, nth=first)
    for n in range(1, 4 if first == 2 else 3):
        if n == first:
            with pytest.raises(DiskError, match="Input/output error"):
                acts[operation](n)
        else:
            acts[operation](n)


def test_a_full_disk_takes_what_fits_and_reuses_blocks_it_has() -> None:
    disk = _disk()
    disk.capacity_bytes = 2 * 4096
    with disk.create("/f") as file:
        with pytest.raises(NoSpace):
            file.write_and_sync(0, [b"x" * 10_000])
        assert file.size() == 8192
        assert disk.free_bytes("/") == 0
        file.write_and_sync(0, [b"y" * 8192])
        with disk.create("/g") as other, pytest.raises(NoSpace):
            other.pwrite(0, b"z")
    disk.unlink("/f")
    assert disk.free_bytes("/") == 8192


def test_a_write_that_fails_may_have_happened_in_part() -> None:
    sizes = set()
    for seed in range(30):
        disk = _disk(seed)
        disk.faults.fail("pwrite", code=errno.EIO)
        with disk.create("/f") as file:
            with pytest.raises(WriteFailed):
                file.pwrite(0, b"x" * 3)
            sizes.add(file.size())
    assert sizes == {0, 1, 2, 3}


def test_flipped_bits_stay_flipped() -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"\x00\x00")
    disk.flip_bit("/f", offset=1, bit=3)
    disk.restart(Crash.POWER, survivors=0)
    assert _content(disk, "/f") == b"\x00\x08"


def test_a_sealed_file_must_not_be_changed() -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"sealed")
    disk.open("/f").declare_sealed()
    with pytest.raises(SealedFileChanged):
        disk.open("/f", writable=True).truncate(3)
    with pytest.raises(SealedFileChanged):
        disk.open("/f", writable=True).pwrite(3, b"LED")
    with pytest.raises(SealedFileChanged):
        disk.open("/f", writable=True).pwrite(3, b"led and more")
    disk.open("/f", writable=True).write_and_sync(3, [b"l", b"ed"])  # what is there already
    assert _content(disk, "/f") == b"sealed"


def test_a_crash_at_a_step_stops_everything_until_the_restart() -> None:
    disk = _disk()
    file = disk.create("/f")
    disk.faults.crash_at_step = 2
    file.pwrite(0, b"first")
    with pytest.raises(SimulatedCrash):
        file.pwrite(0, b"SECOND")
    for use in (lambda: file.pwrite(0, b"x"), lambda: disk.unlink("/f"), lambda: disk.names("/")):
        with pytest.raises(SimulatedCrash):
            use()
    disk.restart(Crash.KILL)
    with pytest.raises(SimulatedCrash):
        file.pread(0, 1)  # a handle from before
    assert _content(disk, "/f").upper() in {b"SECOND"[:n] + b"FIRST"[n:] for n in range(7)}


def test_locks_end_with_their_process() -> None:
    disk = _disk()
    disk.lock("/lock")
    disk.restart(Crash.KILL)
    disk.lock("/lock")


def test_a_power_loss_changes_the_boot_id_and_a_kill_does_not() -> None:
    disk = _disk()
    before = disk.boot_id()
    disk.restart(Crash.KILL)
    assert disk.boot_id() == before
    disk.restart(Crash.POWER)
    assert disk.boot_id() != before


def test_a_copy_goes_its_own_way() -> None:
    disk = _disk()
    disk.make_folder("/d")
    with disk.create("/d/f") as file:
        file.pwrite(0, b"before")
        twin = disk.copy(Random(3))
        file.pwrite(0, b"after!")
    assert _content(twin, "/d/f") == b"before"
    twin.restart(Crash.POWER, survivors=0)
    assert twin.names("/") == []
    assert disk.names("/d") == ["f"]


def test_undisturbed_operations_are_steps_that_nobody_overtakes() -> None:
    world = World(3)
    ended: list[str] = []

    def work(name: str) -> None:
        with world.disk.undisturbed():
            file = world.disk.create(f"/{name}")
            for n in range(10):
                file.pwrite(n, b"x")
            ended.append(name)

    for name in "abc":
        world.runner.call(name, partial(work, name))
    world.runner.run()
    assert world.disk.steps == 33
    owners = [line.rsplit("/", 1)[1] for line in world.trace]
    assert owners == [name for name in ended for _ in range(11)]


def test_undisturbed_operations_end_with_their_process() -> None:
    world = World(3)
    world.runner.kill_all()
    with world.disk.undisturbed(), pytest.raises(SimulatedCrash):
        world.disk.create("/f")
    world.restart(Crash.KILL)
    assert world.disk.names("/") == []


def test_a_reopened_file_knows_nothing_of_a_failed_sync() -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"old")
    file = disk.open("/f", writable=True)
    disk.faults.fail("fdatasync")
    with pytest.raises(SyncFailed):
        file.write_and_sync(0, [b"bad"])
    with pytest.raises(Poisoned):
        file.pwrite(0, b"new")
    file.reopened().write_and_sync(0, [b"new"])
    disk.restart(Crash.POWER)
    assert _content(disk, "/f") == b"new"


@pytest.mark.parametrize("survivors", range(8))
def test_a_file_that_was_emptied_stays_so(survivors: int) -> None:
    disk = _disk()
    _synced_file(disk, "/f", b"a" * 2000)
    disk.open("/f", writable=True).empty()
    disk.restart(Crash.POWER, survivors=survivors)
    assert _content(disk, "/f") == b""


def test_a_copy_of_a_machine_has_its_time() -> None:
    world = World(0)
    world.clock.advance(50)
    world.clock.reboot()
    world.clock.advance(7)
    world.clock.skew(-1000)
    twin = world.copy()
    assert twin.clock.monotonic_ns() == world.clock.monotonic_ns() == 7
    assert twin.clock.wall_ns() == world.clock.wall_ns()
