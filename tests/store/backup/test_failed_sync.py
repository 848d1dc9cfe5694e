"""A restore whose disk fails to sync, once, and is run again: it relies on nothing that is lost."""

from __future__ import annotations

from itertools import count

import pytest

from lakebed.base.errors import LakebedError, SyncFailed
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync, Faults
from lakebed.base.simulation.world import World
from lakebed.store.backup.catalogue import Snapshot
from lakebed.store.backup.create import create_backup
from lakebed.store.backup.restore import restore
from lakebed.store.backup.vault import Vault, open_vault
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.version import UnfinishedRestore
from tests.store.queues import append, drained, opened

VALUES = [b"%d" % number * 2000 for number in range(8)]


def backed_up(world: World) -> Snapshot:
    with opened(world) as store:
        append(store.topic("events"), *VALUES)
        group = store.topic("events").group("readers")
        group.ack_all(group.lease(max_messages=5))
    with ReadOnlyStore("/store", disk=world.disk, runner=world.runner) as beside:
        return create_backup(beside, vault_of(world), new_token=lambda: "00000001").snapshot


def vault_of(world: World) -> Vault:
    return open_vault("/vault", disk=world.disk, runner=world.runner)


def restore_at(world: World, snapshot: Snapshot) -> None:
    restore(vault_of(world), snapshot, "/new", disk=world.disk)


def check_after_power_loss(world: World) -> None:
    world.restart(Crash.POWER, survivors=0)
    with Store.open("/new", disk=world.disk, runner=world.runner) as store:
        found = [message.value for message in store.topic("events").partition(0).read()]
        assert found == VALUES
        assert len(drained(store.topic("events").group("readers"))) == 3


@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("operation", ["fsync", "fdatasync"])
def test_whichever_sync_fails_the_next_restore_makes_all_durable(
    operation: str, after: AfterFailedSync
) -> None:
    original = World(1)
    snapshot = backed_up(original)
    for nth in count(1):
        world = original.copy()
        world.disk.faults.fail(operation, nth=nth, after=after)
        try:
            restore_at(world, snapshot)
            check_after_power_loss(world)
            assert nth > 2
            return
        except SyncFailed:
            world.disk.faults = Faults()
            assert not world.disk.exists("/new/store.json")
            restore_at(world, snapshot)
            assert world.disk.names("/new") == ["groups", "lakebed.lock", "store.json", "topics"]
            check_after_power_loss(world)


def test_until_then_it_is_no_store_also_if_the_second_one_is_killed() -> None:
    world = World(1)
    snapshot = backed_up(world)
    world.disk.faults.fail("fsync", nth=_sync_of_the_tree(world.copy(), snapshot))
    with pytest.raises(SyncFailed):
        restore_at(world, snapshot)
    with pytest.raises(UnfinishedRestore):
        Store.open("/new", disk=world.disk, runner=world.runner)
    assert world.disk.exists("/new/topics/events/topic.json")  # and looks whole
    world.disk.faults.fail("unlink", nth=2)
    with pytest.raises(LakebedError):
        restore_at(world, snapshot)
    restore_at(world, snapshot)
    check_after_power_loss(world)


def test_a_disk_that_takes_nothing_any_more_leaves_nothing_to_be_trusted() -> None:
    world = World(1)
    snapshot = backed_up(world)
    nth = _sync_of_the_tree(world.copy(), snapshot)
    creations = len([line for line in _trace(world.copy(), snapshot) if " create " in line])
    world.disk.faults.fail("fsync", nth=nth)
    world.disk.faults.fail("create", nth=creations)  # that of the mark
    with pytest.raises(SyncFailed):
        restore_at(world, snapshot)
    assert world.disk.names("/new") == ["lakebed.lock", "restoring.json"]
    restore_at(world, snapshot)
    check_after_power_loss(world)


def _trace(world: World, snapshot: Snapshot) -> list[str]:
    """What a restore does, in order."""
    start = len(world.trace)
    restore_at(world, snapshot)
    return world.trace[start:]


def _sync_of_the_tree(world: World, snapshot: Snapshot) -> int:
    """Which fsync it is."""
    syncs = [line for line in _trace(world, snapshot) if " fsync " in line]
    # Behind it come that of `store.json`'s folder, and that of the marker's removal.
    return len(syncs) - 2
