"""A restore that is cut, at any file, and goes on; and one that has no space."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lakebed.base.errors import AlreadyExists, Corrupt, InputError, NoSpace
from lakebed.base.simulation.faults import Faults
from lakebed.base.simulation.world import World
from lakebed.kernels.disk import real_disk
from lakebed.store.backup.catalogue import BackedFile, Snapshot
from lakebed.store.backup.create import CreatedBackup, create_backup
from lakebed.store.backup.restore import restore
from lakebed.store.backup.vault import Vault, open_vault
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.stroma.errors import StaleLease
from tests.store.backup.backups import (
    back_up,
    check_whole,
    everything,
    vault_at,
    write_everything,
)
from tests.store.batch_commits import batch
from tests.store.queues import append, drained, opened

pytestmark = pytest.mark.thorough


class Cut(Exception):
    """The process ends here."""


class FragileVault(Vault):
    """The one who reads from it is cut at the n-th part."""

    def __init__(self, vault: Vault, parts_left: int) -> None:
        super().__init__(vault.store, address=vault.address)
        self.parts_left = parts_left

    def part(self, digest: str, *, size: int) -> bytes:
        if not self.parts_left:
            raise Cut
        self.parts_left -= 1
        return super().part(digest, size=size)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Vault, CreatedBackup]:
    folder = tmp_path_factory.mktemp("taken")
    write_everything(folder / "root")
    return folder / "root", *back_up(folder / "root", folder / "vault")


def test_a_restore_cut_at_any_part_is_no_store_and_goes_on(
    taken: tuple[Path, Vault, CreatedBackup], tmp_path: Path
) -> None:
    _, vault, (snapshot, _, _) = taken
    new = tmp_path / "new"
    cut_count = 0
    while True:
        # Each goes on with what the one before it left, and comes some parts further. A file
        # that was cut begins anew, so the number of parts grows with the tries.
        try:
            restore(FragileVault(vault, 1 + cut_count), snapshot, str(new), disk=real_disk())
            break
        except Cut:
            cut_count += 1
        for read_only in (True, False):
            with pytest.raises(InputError, match="a restore into this folder was not finished"):
                Store.open(new, read_only=read_only)
    assert cut_count > 5
    check_whole(new)
    with pytest.raises(AlreadyExists):
        restore(vault, snapshot, str(new), disk=real_disk())


def test_what_is_there_already_is_not_fetched_again(
    taken: tuple[Path, Vault, CreatedBackup], tmp_path: Path
) -> None:
    root, vault, (snapshot, _, _) = taken
    part_count = sum(len(file.parts) for file in snapshot.files)
    fragile = FragileVault(vault, part_count - 1)
    with pytest.raises(Cut):
        restore(fragile, snapshot, str(tmp_path / "new"), disk=real_disk())
    fragile.parts_left = 2  # that of `store.json`, and the one at which it was cut
    restore(fragile, snapshot, str(tmp_path / "new"), disk=real_disk())
    assert everything(tmp_path / "new") == everything(root)


def test_another_snapshot_does_not_go_on_with_it(
    taken: tuple[Path, Vault, CreatedBackup], tmp_path: Path
) -> None:
    root, vault, (snapshot, _, _) = taken
    with pytest.raises(Cut):
        restore(FragileVault(vault, 3), snapshot, str(tmp_path / "new"), disk=real_disk())
    with ReadOnlyStore(root) as store:
        other = create_backup(store, vault).snapshot
    with pytest.raises(AlreadyExists, match=f"another snapshot .{snapshot.snapshot_id}"):
        restore(vault, other, str(tmp_path / "new"), disk=real_disk())


def simulated_backup(world: World) -> tuple[Vault, Snapshot]:
    with opened(world) as store:
        append(store.topic("events"), *(b"%d" % number * 5000 for number in range(20)))
        group = store.topic("events").group("readers")
        group.ack_all(group.lease(max_messages=5))
    vault = open_vault("/vault", disk=world.disk, runner=world.runner)
    with ReadOnlyStore("/store", disk=world.disk, runner=world.runner) as beside:
        return vault, create_backup(beside, vault, new_token=lambda: "00000001").snapshot


def test_a_disk_that_is_too_small_is_told_before_anything_is_written() -> None:
    world = World(1)
    vault, snapshot = simulated_backup(world)
    world.disk.capacity_bytes = world.disk.used_bytes() + snapshot.size - 1
    with pytest.raises(NoSpace, match="the backup needs"):
        restore(vault, snapshot, "/new", disk=world.disk)
    assert world.disk.names("/new") == ["lakebed.lock"]


def test_a_disk_that_fills_up_meanwhile_leaves_something_to_go_on_with() -> None:
    world = World(1)
    vault, snapshot = simulated_backup(world)
    world.disk.capacity_bytes = world.disk.used_bytes() + snapshot.size + 5000

    def fill(done_bytes: int, _total: int) -> None:
        if done_bytes > snapshot.size // 2:
            world.disk.capacity_bytes = world.disk.used_bytes()

    with pytest.raises(NoSpace):
        restore(vault, snapshot, "/new", disk=world.disk, progress=fill)
    world.disk.capacity_bytes = 1 << 40
    restore(vault, snapshot, "/new", disk=world.disk)
    with Store.open("/new", disk=world.disk, runner=world.runner) as store:
        assert len(drained(store.topic("events").group("readers"))) == 15


def test_a_disk_that_is_full_ends_a_backup_and_the_next_one_goes_on() -> None:
    world = World(1)
    vault, first = simulated_backup(world)
    with opened(world) as store:
        append(store.topic("events"), *(b"%d" % number * 3000 for number in range(20)))
    world.disk.capacity_bytes = world.disk.used_bytes() + 5000
    with (
        ReadOnlyStore("/store", disk=world.disk, runner=world.runner) as beside,
        pytest.raises(Exception, match=r"(?i)no space|full|unavailable"),
    ):
        create_backup(beside, vault)
    assert vault.snapshot_ids() == [first.snapshot_id]
    world.disk.capacity_bytes = 1 << 40
    with ReadOnlyStore("/store", disk=world.disk, runner=world.runner) as beside:
        second = create_backup(beside, vault).snapshot
    assert vault.snapshot_ids() == [first.snapshot_id, second.snapshot_id]


def test_hostile_names_in_a_catalogue_touch_nothing(tmp_path: Path) -> None:
    """`decode_snapshot` refuses them; what is put in by hand is refused as well."""
    hostile = BackedFile(path="../escaped", size=0, stored_bytes=0, parts=())
    snapshot = Snapshot(
        snapshot_id="20260102T030405678Z-00c0ffee", created_ms=0, finished_ms=0, program="",
        part_bytes=8, files=(hostile,),
    )  # fmt: skip
    vault = vault_at(tmp_path / "vault")
    vault.begin(store_created_ms=0)
    vault.put_snapshot(snapshot)
    with pytest.raises(Corrupt, match="unsafe path"):
        vault.snapshot(snapshot.snapshot_id)
    with pytest.raises(Corrupt, match="unsafe path"):
        restore(vault, snapshot, str(tmp_path / "new"), disk=real_disk())
    assert not (tmp_path / "escaped").exists()


def test_a_commit_that_was_interrupted_is_completed_in_the_restored_store() -> None:
    world = World(1)
    values = [b"%d" % number * 3000 for number in range(12)]
    pieces = [batch(*values[start : start + 3]) for start in range(0, 12, 3)]
    with opened(world) as store:
        topic = store.topic("events")
        world.disk.faults.fail("pwrite", nth=9, code=errno.ENOSPC)
        with pytest.raises(NoSpace):
            topic.commit_batches("query", 1, {0: pieces})
        world.disk.faults = Faults()
        assert world.disk.exists("/store/topics/events/0/commit.bin")
        begun = [message.value for message in topic.partition(0).read()]
        assert 0 < len(begun) < 12
        vault = open_vault("/vault", disk=world.disk, runner=world.runner)
        with ReadOnlyStore("/store", disk=world.disk, runner=world.runner) as beside:
            snapshot = create_backup(beside, vault).snapshot
    restore(vault, snapshot, "/new", disk=world.disk)
    with Store.open("/new", disk=world.disk, runner=world.runner) as store:
        topic = store.topic("events")
        assert [message.value for message in topic.partition(0).read()] == values
        assert not topic.commit_batches("query", 1, {0: pieces})[0].is_new


def test_a_lease_from_before_a_restore_is_stale_in_the_restored_store(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.topic("orders").append_batch([b"one", b"two"]).result()
        store.topic("orders").group("billing")
    vault, taken = back_up(root, tmp_path / "vault")
    with Store.open(root) as store:
        (before,) = store.topic("orders").group("billing").lease(max_messages=1)
    snapshot = taken.snapshot
    restore(vault, snapshot, str(tmp_path / "new"), disk=real_disk())
    with Store.open(tmp_path / "new") as store:
        group = store.topic("orders").group("billing")
        (leased,) = group.lease(max_messages=1)
        assert (leased.offset, leased.epoch) == (before.offset, before.epoch), "it comes again"
        with pytest.raises(StaleLease, match="restored"):
            group.ack(before)
        group.ack(leased)
