"""A log's Tier 2 moves to another address: all of it, or it stays where it is."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.aof.identity import OWN_FOLDER, load_identity
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.errors import Unavailable
from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.aof.tiers.migration import Migration, MigrationReport
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.base.errors import BadConfig, Busy, Closed, Corrupt, InputError, NotFound
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from tests.aof.tiers.tiered_logs import (
    CONFIG,
    PATHS,
    check_artefacts,
    contents,
    write_segments,
)
from tests.fakes.object_store import FakeObjectStore, Trouble

NEW = "/elsewhere"
SHARED = SharedTierConfig(retry_ms_first=1)


def open_manager(world: World) -> AofManager:
    return AofManager(
        "/store", config=CONFIG, tier_config=SHARED, disk=world.disk, runner=world.runner
    )


def archive(log: Aof) -> None:
    """Everything to Tier 2: segments, and the sealed chunk of the manifest log."""
    log.tiers.upload()
    log.tiers.evict(warm=True)
    assert log.manifest is not None
    log.manifest.rotate()
    log.manifest.commit()
    log.tiers.chunks(log.manifest).step(log.manifest)


def write_log(world: World) -> list[bytes]:
    with open_manager(world) as manager:
        log = manager.open("orders")
        written = write_segments(log, 3)
        archive(log)
    return written


def keys(world: World, folder: str) -> list[str]:
    return sorted(info.key for info in FolderStore(world.disk, folder).list(""))


def read_log(world: World, folder: str) -> list[bytes]:
    with open_manager(world) as manager:
        log = manager.open("orders")
        check_artefacts(world, log, FolderStore(world.disk, folder))
        return contents(log)


def test_every_object_is_copied_and_the_log_goes_on_at_the_new_address() -> None:
    world = World(1)
    written = write_log(world)
    before = keys(world, "/store/tier2")
    assert sum(key.endswith(".zst") for key in before) == 3
    assert any(key.endswith(".mlog") for key in before)
    with open_manager(world) as manager:
        done = manager.migrate_tier2("orders", NEW)
    assert (done.before, done.after, done.left_at) == (OWN_FOLDER, NEW, OWN_FOLDER)
    assert (done.copied_count, done.present_count, done.missing) == (len(before), 0, [])
    assert keys(world, NEW) == keys(world, "/store/tier2") == before
    assert load_identity(world.disk, PATHS).tier2 == NEW
    assert read_log(world, NEW) == written
    with open_manager(world) as manager:
        log = manager.open("orders")
        write_segments(log, 1)
        log.tiers.upload()
    assert len(keys(world, NEW)) == len(before) + 1
    assert keys(world, "/store/tier2") == before, "nothing is added there any more"


@pytest.mark.parametrize("is_later", [False, True])
def test_the_old_objects_are_deleted_on_request_then_or_later(is_later: bool) -> None:
    world = World(2)
    written = write_log(world)
    before = keys(world, "/store/tier2")
    with open_manager(world) as manager:
        if is_later:
            manager.migrate_tier2("orders", NEW)
        done = manager.migrate_tier2("orders", NEW, delete=True)
    assert (done.deleted_count, done.left_at) == (len(before), "")
    assert (keys(world, "/store/tier2"), keys(world, NEW)) == ([], before)
    assert load_identity(world.disk, PATHS).tier2_before == ""
    assert read_log(world, NEW) == written
    with open_manager(world) as manager:
        again = manager.migrate_tier2("orders", NEW, delete=True)
    assert (again.copied_count, again.deleted_count) == (0, 0)


def test_an_old_object_that_the_new_address_has_lost_is_kept() -> None:
    world = World(3)
    write_log(world)
    with open_manager(world) as manager:
        manager.migrate_tier2("orders", NEW)
        lost = next(key for key in keys(world, NEW) if key.endswith(".zst"))
        FolderStore(world.disk, NEW).delete(lost)
        done = manager.migrate_tier2("orders", NEW, delete=True)
    assert (done.missing, done.left_at) == ([lost], OWN_FOLDER)
    assert keys(world, "/store/tier2") == [lost]


@pytest.mark.parametrize("address", ["/store/tier2", "file:///store/tier2"])
def test_another_name_of_the_same_place_is_found_out(address: str) -> None:
    world = World(4)
    written = write_log(world)
    before = keys(world, "/store/tier2")
    with open_manager(world) as manager, pytest.raises(InputError, match="another name"):
        manager.migrate_tier2("orders", address, delete=True)
    assert keys(world, "/store/tier2") == before
    assert load_identity(world.disk, PATHS).tier2 == OWN_FOLDER
    assert read_log(world, "/store/tier2") == written


def test_a_log_that_is_open_or_is_not_there_does_not_move() -> None:
    world = World(5)
    write_log(world)
    manager = open_manager(world)
    manager.open("orders")
    with pytest.raises(Busy, match="is open"):
        manager.migrate_tier2("orders", NEW)
    with pytest.raises(NotFound):
        manager.migrate_tier2("others", NEW)
    manager.close_log("orders")
    for address in ("relative/folder", "memory://", "ftp://x/y", ""):
        with pytest.raises(BadConfig):
            manager.migrate_tier2("orders", address)
    manager.close()
    with pytest.raises(Closed):
        manager.migrate_tier2("orders", NEW)
    assert not world.disk.exists(NEW)


class Places:
    """A log, and fakes for the address it is at and the one it moves to."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.old = FakeObjectStore(self.world.runner, Random(f"old {seed}"))
        self.new = FakeObjectStore(self.world.runner, Random(f"new {seed}"))
        with self.manager(self.old) as manager:
            log = manager.open("orders")
            self.written = write_segments(log, 3)
            archive(log)

    def manager(self, store: ObjectStore) -> AofManager:
        world = self.world
        return AofManager(
            "/store", config=CONFIG, disk=world.disk, runner=world.runner, object_store=store
        )

    def migrate(self, *, delete: bool = False) -> MigrationReport:
        stores: dict[str, ObjectStore] = {OWN_FOLDER: self.old, NEW: self.new}
        migration = Migration(
            self.world.disk, PATHS, open_store=stores.__getitem__, prefix="aof2", random=Random(1)
        )
        return migration.run(NEW, delete=delete)

    def address(self) -> str:
        return load_identity(self.world.disk, PATHS).tier2

    def contents(self) -> list[bytes]:
        with self.manager(self.new if self.address() == NEW else self.old) as manager:
            return contents(manager.open("orders"))


def test_what_a_listing_does_not_show_yet_is_copied_too() -> None:
    places = Places(6)
    places.old.list_lag_ns = 3600 * 10**9
    done = places.migrate(delete=True)
    assert done.copied_count == len(places.new.objects) == 4
    assert places.old.objects == {}
    assert places.contents() == places.written


@pytest.mark.parametrize("operation", ["get", "head", "put", "list"])
@pytest.mark.parametrize("at", ["old", "new"])
def test_a_store_that_fails_leaves_the_log_where_it_is_and_the_next_run_goes_on(
    operation: str, at: str
) -> None:
    places = Places(7)
    store = places.old if at == "old" else places.new
    store.plan(operation, None, None, Trouble.UNAVAILABLE)
    is_met = True
    try:
        places.migrate()
        is_met = False  # so many calls of that kind are not made there
    except Unavailable:
        assert places.address() == OWN_FOLDER
    store._planned.clear()
    assert places.contents() == places.written
    sent = {key for key in places.new.objects if "segment" in key}
    done = places.migrate()
    assert places.address() == NEW
    assert done.present_count >= (len(sent) if is_met else 0)
    assert all(places.new.calls["put", key] <= 2 for key in places.new.objects)
    assert places.contents() == places.written


@pytest.mark.parametrize("trouble", [Trouble.CORRUPTED, Trouble.TRUNCATED])
def test_bytes_that_arrive_damaged_are_sent_again(trouble: Trouble) -> None:
    places = Places(8)
    places.old.plan("get", trouble)
    places.migrate()
    assert {key: one.data for key, one in places.new.objects.items()} == {
        key: one.data for key, one in places.old.objects.items()
    }
    assert places.contents() == places.written


def test_an_object_that_is_damaged_where_it_is_stops_the_migration() -> None:
    places = Places(9)
    key = min(key for key in places.old.objects if key.endswith(".zst"))
    places.old.flip_bit(key, offset=20)
    with pytest.raises(Corrupt, match=key):
        places.migrate(delete=True)
    assert places.address() == OWN_FOLDER
    assert len(places.old.objects) == 4
    assert key not in places.new.objects


def test_an_object_that_is_missing_is_told_and_the_others_move() -> None:
    places = Places(10)
    key = min(key for key in places.old.objects if key.endswith(".zst"))
    places.old.lose(key)
    done = places.migrate()
    assert done.missing == [key]
    assert (places.address(), len(places.new.objects)) == (NEW, 3)


def test_the_etags_of_the_new_address_are_learned_once() -> None:
    places = Places(11)
    places.new._puts = 100  # so that they are others
    places.migrate()
    with places.manager(places.new) as manager:
        log = manager.open("orders")
        assert len(log.tiers.doubtful(log.tiers.states())) == 3
        assert log.tiers.repair() == []
        assert log.tiers.doubtful(log.tiers.states()) == []


class Move:
    """A log moves, and what it leaves behind is deleted."""

    checked_count = 0  # crashes while it moved

    def run(self, world: World) -> None:
        self.written = []
        written = write_log(world)
        self.written = written
        with open_manager(world) as manager:
            manager.migrate_tier2("orders", NEW, delete=True)

    def check(self, world: World) -> None:
        if not self.written:
            return  # it was about to be written still
        Move.checked_count += 1
        is_moved = load_identity(world.disk, PATHS).tier2 == NEW
        assert read_log(world, NEW if is_moved else "/store/tier2") == self.written
        with open_manager(world) as manager:
            done = manager.migrate_tier2("orders", NEW, delete=True)
        assert (done.missing, done.left_at) == ([], "")
        assert keys(world, "/store/tier2") == []
        assert read_log(world, NEW) == self.written


@pytest.mark.sweep
def test_a_crash_at_any_step_leaves_one_good_address() -> None:
    sweep(Move, seeds=[1], survivors=[0, 1], cases_max=400)
    assert Move.checked_count > 100
