"""The check for newer files, when another release opens a store, refuses no damaged file."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from lakebed.base.errors import Corrupt, DiskError, LakebedError, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, Writers
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.meta.schema import MIGRATIONS
from lakebed.store.store import Store
from tests.seglake.damaged_lakes import flip

OBJECTS = SeglakeConfig(reserve_bytes=0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that another release wrote last."""
    root = tmp_path / "store"
    with Store.open(root, object_config=OBJECTS) as store:
        store.topic("orders").append_batch([b"one"]).result()
        store.bucket("photos").put("city", b"bytes")
    recorded = json.loads((root / "store.json").read_text())
    (root / "store.json").write_text(json.dumps({**recorded, "program": "0.0.1"}))
    return root


def values(store: Store) -> list[bytes | None]:
    return [message.value for message in store.topic("orders").partition(0).read()]


def overwrite_header(database: Path) -> None:
    flip(database, 3)


def cut_short(database: Path) -> None:
    database.write_bytes(database.read_bytes()[: 4096 + 77])


def drop_migrations(database: Path) -> None:
    with apsw.Connection(str(database)) as connection:
        connection.execute("DROP TABLE schema_migrations")
    connection.close()


def replace_by_folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


@pytest.mark.parametrize(
    "damage", [overwrite_header, cut_short, drop_migrations, replace_by_folder]
)
def test_damaged_metadata_refuse_only_objects(root: Path, damage: Callable[[Path], None]) -> None:
    damage(root / "meta.db")
    with Store.open(root, object_config=OBJECTS) as store:
        assert values(store) == [b"one"]
        with pytest.raises(LakebedError, match=r"meta\.db"):
            store.buckets()


def test_metadata_of_a_newer_version_refuse_the_store(root: Path) -> None:
    connection = apsw.Connection(str(root / "meta.db"))
    connection.execute("INSERT INTO schema_migrations VALUES (?, 0)", (len(MIGRATIONS) + 1,))
    connection.close()
    with pytest.raises(UnknownVersion, match=r"meta\.db"):
        Store.open(root)


class UnreadableFolder(RealDisk):
    """The real disk, on which one folder cannot be listed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._folder = str(folder)

    def names(self, folder: PathLike) -> list[str]:
        if str(folder) == self._folder:
            raise DiskError("list", folder, code=errno.EIO)
        return super().names(folder)


def test_a_folder_that_cannot_be_listed_refuses_only_its_own_files(root: Path) -> None:
    with Store.open(root) as store:
        store.topic("other").append_batch([b"two"]).result()
    recorded = json.loads((root / "store.json").read_text())
    (root / "store.json").write_text(json.dumps({**recorded, "program": "0.0.1"}))
    disk = UnreadableFolder(root / "topics" / "other" / "0" / "segments")
    with Store.open(root, disk=disk) as store:
        assert values(store) == [b"one"]
        with pytest.raises(DiskError):
            store.topic("other").partition(0)


@pytest.mark.parametrize("version", ["Infinity", "1e400", "1.5", '"2"', "null", "[2]"])
def test_a_version_that_is_no_integer_is_damage(root: Path, version: str) -> None:
    path = root / "topics" / "orders" / "topic.json"
    path.write_text(f'{{"format": "lakebed topic", "version": {version}}}')
    with Store.open(root) as store:
        store.log("whole").append_record_with_timeout(b"payload", 10)
        with pytest.raises(Corrupt):
            store.topic("orders")
