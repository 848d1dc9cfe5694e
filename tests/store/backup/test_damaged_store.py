"""Backups of stores that are damaged: taken as far as they go, with everything missing named."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.base.errors import Busy, DiskError
from lakebed.base.files.protocol import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.base.simulation.world import World
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.seglake.meta.connection import connect_read_only
from lakebed.store.backup.create import create_backup
from lakebed.store.backup.pins import DURATION_MS, BackupPins
from lakebed.store.pins import Pins
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.stroma.paths import GroupName, GroupPaths
from tests.seglake.damaged_lakes import flip
from tests.store.backup.backups import (
    back_up,
    files_below,
    logs_of,
    objects_of,
    restored,
    topics_of,
    vault_at,
)
from tests.store.whole_stores import open_store, topic_segment

pytestmark = pytest.mark.thorough


# Ways to damage it; each gives what a problem must name.


def remove_segment(root: Path) -> str:
    topic_segment(root, 0).unlink()
    return "00000000000000000000.log: the file is missing"


def cut_segment(root: Path) -> str:
    os.truncate(topic_segment(root, 1), 500)
    return "00000000000000000020.log: is shorter than"


def remove_active_segment(root: Path) -> str:
    topic_segment(root, 2).unlink()
    return "00000000000000000040.log: the file is missing"


def cut_active_segment(root: Path) -> str:
    os.truncate(topic_segment(root, 2), 100)
    return "00000000000000000040.log: is shorter than"


def garble_identity(root: Path) -> str:
    (root / "topics" / "events" / "topic.json").write_text("{")
    return "not a valid topic.json file"


def spoil_identity(root: Path) -> str:
    path = root / "topics" / "events" / "topic.json"
    path.write_text(path.read_text().replace('"config": {}', '"config": {"no such setting": 1}'))
    return "no such setting"


TOPIC_DAMAGES = [
    remove_segment, cut_segment, remove_active_segment, cut_active_segment, garble_identity,
    spoil_identity,
]  # fmt: skip


@pytest.mark.parametrize("damage", TOPIC_DAMAGES)
def test_damage_in_a_topic_is_named_and_costs_only_itself(
    root: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    with open_store(root) as store:
        store.topic("other").append_batch([b"other"]).result()
    before = files_below(root / "topics" / "events") | files_below(root / "groups")
    named = damage(root)
    vault, taken = back_up(root, tmp_path / "vault")
    [problem] = taken.snapshot.problems
    assert named in problem
    new = restored(vault, taken.snapshot, tmp_path / "new")
    found = files_below(new / "topics" / "events") | files_below(new / "groups")
    changed = {Path(name).stem for name in before if found.get(name) != before[name]}
    # Of the newest segment indexes are not copied.
    assert changed <= {problem.rpartition("/")[2][:20], "topic", "00000000000000000040"}
    with open_store(new) as store:
        assert topics_of_other(store) == [[b"other"]]
        assert len(logs_of(store)) == 2
        assert "photos/big" in objects_of(store)


def topics_of_other(store: Store) -> list[list[bytes | None]]:
    partitions = store.topic("other").partitions
    return [[message.value for message in one.scan_from(0)] for one in partitions]


def test_what_is_whole_of_a_topic_can_be_read_when_it_is_restored(
    root: Path, tmp_path: Path
) -> None:
    with open_store(root) as store:
        before = topics_of(store)["events"]
    remove_segment(root)
    vault, taken = back_up(root, tmp_path / "vault")
    with ReadOnlyStore(restored(vault, taken.snapshot, tmp_path / "new")) as store:
        values = [message.value for message in store.topic("events").partition(0).scan_from(20)]
    assert values == before[0][20:]


# Metadata.


def garble_header(root: Path) -> None:
    flip(root / "meta.db", 3)


def garble_schema(root: Path) -> None:
    path = root / "meta.db"
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)


def cut_metadata(root: Path) -> None:
    os.truncate(root / "meta.db", 4096 + 77)


def remove_metadata(root: Path) -> None:
    for name in ("meta.db", "meta.db-wal", "meta.db-shm"):
        (root / name).unlink(missing_ok=True)


@pytest.mark.parametrize("damage", [garble_header, garble_schema, cut_metadata, remove_metadata])
def test_with_damaged_metadata_everything_is_copied_as_it_lies_there(
    root: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(root)
    before = files_below(root)
    vault, taken = back_up(root, tmp_path / "vault")
    assert taken.snapshot.problems
    assert all("meta.db: " in problem for problem in taken.snapshot.problems)
    new = restored(vault, taken.snapshot, tmp_path / "new")
    found = files_below(new)
    for name, data in before.items():
        if name.startswith("objects/") or name in ("meta.db", "secret.key"):
            assert found[name] == data, name
    assert any(name.startswith("objects/manifests/") for name in found)
    with ReadOnlyStore(new) as store:
        assert store.topics.names() == ["events"]
        assert store.logs() == ["orders", "other"]


class WatchedDisk(RealDisk):
    """Knows what was opened."""

    def __init__(self) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self.opened: set[str] = set()

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        self.opened.add(os.path.basename(path))
        return super().open(path, writable=writable)


def test_nobody_but_sqlite_opens_the_metadata_also_if_they_are_damaged(
    root: Path, tmp_path: Path
) -> None:
    """Its locks end when this process closes the file, and a writer may be in it."""
    garble_header(root)
    disk = WatchedDisk()
    with ReadOnlyStore(root, disk=disk, connector=connect_read_only) as store:
        taken = create_backup(store, vault_at(tmp_path / "vault"))
    assert "meta.db" in {file.path for file in taken.snapshot.files}
    assert "secret.key" in disk.opened
    assert "meta.db" not in disk.opened


# Groups, logs, and the disk itself.


def test_a_group_whose_names_are_lost_is_copied_and_told(root: Path, tmp_path: Path) -> None:
    name = "a long name " * 20
    with open_store(root) as store:
        store.topic("events").group(name).lease(max_messages=1)
    paths = GroupPaths(root, GroupName("events", 0, name))
    Path(paths.names).write_text("{")
    vault, taken = back_up(root, tmp_path / "vault")
    [problem] = taken.snapshot.problems
    assert problem == f"{paths.delta}: the group of this file is unknown"
    new = restored(vault, taken.snapshot, tmp_path / "new")
    delta = new / "groups" / Path(paths.delta).name
    assert delta.read_bytes() == Path(paths.delta).read_bytes()


def test_a_log_that_is_cut_short_is_copied_as_it_lies_there(root: Path, tmp_path: Path) -> None:
    segments = sorted((root / "aof" / "orders" / "segments").glob("*.seg"))
    [newest] = [path for path in segments if b"not sealed" in path.read_bytes()]
    os.truncate(newest, 70)
    vault, taken = back_up(root, tmp_path / "vault")
    [problem] = taken.snapshot.problems
    assert f"{newest.name}: is shorter than the " in problem
    new = restored(vault, taken.snapshot, tmp_path / "new")
    assert (new / newest.relative_to(root)).read_bytes() == newest.read_bytes()
    older = segments[0]
    assert (new / older.relative_to(root)).read_bytes() == older.read_bytes()


class BadFile(RealFile):
    """The disk does not give its bytes."""

    __slots__ = ()

    def pread(self, offset: int, length: int) -> bytes:
        raise DiskError("read", self.path, code=errno.EIO)


class BadDisk(RealDisk):
    """Some files cannot be read."""

    def __init__(self, *names: str) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._names = names

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        file = super().open(path, writable=writable)
        if any(name in os.fspath(path) for name in self._names):
            file.__class__ = BadFile
        return file


@pytest.mark.parametrize(
    "name",
    ["events/0/segments/00000000000000000020.log", "objects/segments/", "aof/other/segments/0000",
     "groups/events-0_readers.delta", "secret.key"],
)  # fmt: skip
def test_what_the_disk_does_not_give_is_named_and_all_else_is_copied(
    root: Path, tmp_path: Path, name: str
) -> None:
    vault = vault_at(tmp_path / "vault")
    with ReadOnlyStore(root, disk=BadDisk(name), connector=connect_read_only) as store:
        taken = create_backup(store, vault)
    assert all("Input/output error" in problem for problem in taken.snapshot.problems)
    found = {file.path for file in taken.snapshot.files}
    left = {file.path for file in back_up(root, tmp_path / "whole")[1].snapshot.files} - found
    assert left
    assert all(name in path for path in left), left


class RefusingDisk(RealDisk):
    """Some files cannot be opened, and some folders not listed."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._name, self._code = name, code

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        if self._name in os.fspath(path):
            raise DiskError("open", path, code=self._code)
        return super().open(path, writable=writable)

    def names(self, folder: PathLike) -> list[str]:
        if os.fspath(folder).endswith(self._name):
            raise DiskError("list", folder, code=self._code)
        return super().names(folder)


@pytest.mark.parametrize(
    "name",
    ["aof/orders/log.json", "aof/other/segments/0000", ".mlog", "events/topic.json",
     "events/0/segments/00000000000000000020.log", "events/0/segments/00000000000000000020.idx",
     "objects/segments/", "lakebed.toml", "/aof/orders/warm", "/topics/events/0/segments",
     "/topics", "/aof", "/groups"],
)  # fmt: skip
def test_what_cannot_be_opened_or_listed_is_named_and_all_else_is_copied(
    root: Path, tmp_path: Path, name: str
) -> None:
    code = errno.EACCES if name.startswith("/") else errno.EIO
    vault = vault_at(tmp_path / "vault")
    disk = RefusingDisk(name, code)
    with ReadOnlyStore(root, disk=disk, connector=connect_read_only) as store:
        taken = create_backup(store, vault)
    assert taken.snapshot.problems
    assert all(os.strerror(code) in problem for problem in taken.snapshot.problems)
    found = {file.path for file in taken.snapshot.files}
    left = {file.path for file in back_up(root, tmp_path / "whole")[1].snapshot.files} - found
    assert left
    assert all(name in f"/{path}" for path in left), left


def test_pins_that_cannot_be_read_end_a_backup(root: Path, tmp_path: Path) -> None:
    """Without them, what is copied may be removed meanwhile."""
    disk = RefusingDisk("/pins", errno.EIO)
    with (
        ReadOnlyStore(root, disk=disk, connector=connect_read_only) as store,
        pytest.raises(DiskError, match="pins: list"),
    ):
        create_backup(store, vault_at(tmp_path / "vault"))


def test_a_backup_that_was_held_up_is_to_be_tried_again_and_finds_no_damage() -> None:
    """A machine that slept: pins have expired, and what they held may be gone."""
    world = World(1)
    pins = Pins(world.disk, "/store", clock=world.clock, is_writer=False)
    with BackupPins(pins, clock=world.clock) as holding:
        holding.log("orders")
        world.clock.advance((DURATION_MS + 1) * 1_000_000)
        with pytest.raises(Busy, match="stalled for so long that a pin expired"):
            holding.renew()
