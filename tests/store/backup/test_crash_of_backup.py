"""A crash at any step of taking a backup, letting one go, or restoring one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from lakebed.base.errors import NotFound
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.store.backup.check import check_snapshot
from lakebed.store.backup.create import create_backup
from lakebed.store.backup.restore import restore
from lakebed.store.backup.retention import keep_snapshots
from lakebed.store.backup.vault import Vault, open_vault
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.version import UnfinishedRestore
from tests.aof.tiers.tiered_logs import contents
from tests.store.lake_tiers import CONFIG, OBJECTS, SHARED, simulated_store
from tests.store.queues import append, drained

OBJECT = b"some bytes" * 500


@contextlib.contextmanager
def calm(world: World) -> Iterator[None]:
    """What is done here is not what is swept."""
    faults, steps = world.disk.faults, world.disk.steps
    at_step, faults.crash_at_step = faults.crash_at_step, None
    yield
    faults.crash_at_step, world.disk.steps = at_step, steps


def write(world: World, number: int) -> None:
    with calm(world), simulated_store(world) as store:
        log = store.log("orders")
        log.append_record_with_timeout(b"record %d" % number, 10)
        log.seal_current_segment()
        log.tiers.upload()
        log.tiers.evict(warm=True)
        append(store.topic("events"), b"event %d" % number)
        group = store.topic("events").group("readers")
        group.ack_all(group.lease())
        store.bucket("photos").put(f"{number}", OBJECT)


def vault_of(world: World) -> Vault:
    return open_vault("/vault", disk=world.disk, runner=world.runner)


def back_up(world: World, number: int) -> str:
    with (
        contextlib.closing(SimulatedDatabases(world.disk)) as databases,
        ReadOnlyStore(
            "/store", disk=world.disk, runner=world.runner, connector=databases.connect
        ) as store,
    ):
        taken = create_backup(
            store,
            vault_of(world),
            part_bytes=50_000,
            connector=databases.connect,
            new_token=lambda: f"{number:08x}",
        )
    assert taken.snapshot.problems == ()
    world.clock.advance(2_000_000_000)  # the next one has a later name
    return taken.snapshot.snapshot_id


def restore_at(world: World, snapshot_id: str, root: str) -> None:
    vault = vault_of(world)
    with contextlib.closing(SimulatedDatabases(world.disk)) as databases:
        restore(
            vault,
            vault.snapshot(snapshot_id),
            root,
            disk=world.disk,
            connector=databases.connect,
        )


def check_restored(world: World, root: str, count: int) -> None:
    with (
        contextlib.closing(SimulatedDatabases(world.disk)) as databases,
        Store.open(
            root, config=CONFIG, tier_config=SHARED, object_config=OBJECTS, disk=world.disk,
            runner=world.runner, connector=databases.connect,
        ) as store,
    ):  # fmt: skip
        assert contents(store.log("orders")) == [b"record %d" % number for number in range(count)]
        [partition] = store.topic("events").partitions
        assert [message.value for message in partition.read()] == [
            b"event %d" % number for number in range(count)
        ]
        assert drained(store.topic("events").group("readers")) == []
        found = {row.key: b"".join(store.bucket("photos").get(row.key))
                 for row in store.bucket("photos").list()}  # fmt: skip
        assert found == {f"{number}": OBJECT for number in range(count)}
        assert store.lake.damage == []


class Backups:
    """Two backups, of which the first is let go of."""

    checked_count = 0  # crashes that left a backup

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.is_letting_go = False

    def run(self, world: World) -> None:
        write(world, 0)
        self.finished.append(back_up(world, 0))
        write(world, 1)
        self.finished.append(back_up(world, 1))
        self.is_letting_go = True
        keep_snapshots(vault_of(world), 1)

    def check(self, world: World) -> None:
        vault = vault_of(world)
        try:
            ids = vault.snapshot_ids()
        except NotFound:
            ids = []
        assert set(self.finished if not self.is_letting_go else self.finished[1:]) <= set(ids)
        for snapshot_id in ids:
            assert check_snapshot(vault, vault.snapshot(snapshot_id)).damaged == ()
        Backups.checked_count += bool(ids)
        if ids:
            index = int(ids[-1].rpartition("-")[2], 16)
            restore_at(world, ids[-1], "/new")
            check_restored(world, "/new", index + 1)
        if world.disk.exists("/store/store.json"):
            world.clock.advance(2_000_000_000)
            last = back_up(world, 2)
            assert vault.snapshot_ids()[-1] == last
            keep_snapshots(vault, 1)
            assert vault.pool() == vault.snapshot(last).parts()


@pytest.mark.sweep
def test_a_backup_cut_at_any_step_is_none_and_harms_no_other() -> None:
    sweep(Backups, seeds=[1], survivors=[0], cases_max=24)
    assert Backups.checked_count > 6


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_so_it_is_at_every_step() -> None:
    sweep(Backups, seeds=[1, 2], survivors=[0, 1], cases_max=4000)


class Restore:
    """A restore, again and again until it is done."""

    unfinished_count = 0

    def __init__(self) -> None:
        self.snapshot_id = ""
        self.is_done = False

    def run(self, world: World) -> None:
        write(world, 0)
        write(world, 1)
        with calm(world):
            self.snapshot_id = back_up(world, 1)
        restore_at(world, self.snapshot_id, "/new")
        self.is_done = True

    def check(self, world: World) -> None:
        if not self.is_done and not world.disk.exists("/new/store.json"):
            if world.disk.exists("/new/restoring.json"):
                Restore.unfinished_count += 1
                with pytest.raises(UnfinishedRestore):
                    Store.open("/new", disk=world.disk, runner=world.runner)
            restore_at(world, self.snapshot_id, "/new")
        check_restored(world, "/new", 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_so_it_is_with_a_restore() -> None:
    sweep(Restore, seeds=[1], survivors=[0, 1], cases_max=1000)


@pytest.mark.sweep
def test_a_restore_cut_at_any_step_is_no_store_and_goes_on() -> None:
    sweep(Restore, seeds=[1], survivors=[0], cases_max=25)
    assert Restore.unfinished_count > 8
