"""A root that has lost its metadata is refused by all who open it, and left as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from lakebed.base.errors import DataError
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.seglake.errors import MetadataLost
from lakebed.seglake.lake import Lake
from lakebed.seglake.read_only import ReadOnlyLake
from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from tests.seglake.lakes import BUCKET, body, open_lake, stored
from tests.store.backup.backups import back_up

DATA = body(200_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With an object, closed as it should be."""
    path = tmp_path / "root"
    with open_lake(path) as lake:
        lake.buckets.create(BUCKET)
        lake.objects.put(BUCKET, "a", DATA)
    return path


def remove(root: Path) -> None:
    (root / "meta.db").unlink()


def empty(root: Path) -> None:
    (root / "meta.db").write_bytes(b"")


def replace_by_a_new_one(root: Path) -> None:
    with open_lake(root.parent / "new"):
        pass
    shutil.copy(root.parent / "new" / "meta.db", root / "meta.db")


def replace_by_one_that_knows_the_segments(root: Path) -> None:
    """As an earlier release left it that took the root for a new one."""
    replace_by_a_new_one(root)
    (path,) = (root / "objects" / "segments").iterdir()
    with apsw.Connection(str(root / "meta.db")) as connection:
        row = (path.stem, "SEALED", path.stat().st_size, b"", 0, 0)
        connection.execute("INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()


def keep_only_the_log(root: Path) -> None:
    """The write-ahead log holds what was committed last."""
    with open_lake(root) as lake:
        lake.objects.put(BUCKET, "b", DATA)
        shutil.copy(root / "meta.db-wal", root / "kept")
    (root / "kept").rename(root / "meta.db-wal")
    shutil.rmtree(root / "objects")
    (root / "meta.db").unlink()


def keep_the_log_of_an_empty_file(root: Path) -> None:
    keep_only_the_log(root)
    empty(root)


LOSSES = [
    remove,
    empty,
    replace_by_a_new_one,
    replace_by_one_that_knows_the_segments,
    keep_only_the_log,
    keep_the_log_of_an_empty_file,
]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
def test_lost_metadata_are_refused_by_all_who_open_the_root(
    root: Path, lose: Callable[[Path], None]
) -> None:
    whole = (root / "meta.db").read_bytes()
    lose(root)
    log = root / "meta.db-wal"
    before = log.read_bytes() if log.exists() else b""
    for _ in range(2):
        with pytest.raises(MetadataLost, match="lakebed restore"):
            open_lake(root)
    with (
        ReadOnlyLake(root, disk=real_disk(), runner=ThreadRunner()) as lake,
        pytest.raises(MetadataLost, match="lakebed restore"),
    ):
        lake.buckets.list()
    report = verify_store(root)
    assert not report.is_good
    assert any("lakebed restore" in str(problem) for problem in report.objects.problems)
    with Store.open(root) as store, pytest.raises(MetadataLost):
        store.buckets()
    _, taken = back_up(root, root.parent / "vault")
    assert any("lakebed restore" in problem for problem in taken.snapshot.problems)
    assert (log.read_bytes() if log.exists() else b"") == before, "nothing was changed"
    if lose not in (keep_only_the_log, keep_the_log_of_an_empty_file):
        (root / "meta.db").write_bytes(whole)
        with open_lake(root) as lake:
            assert stored(lake, "a") == DATA, "put back, it is the store it was"


@pytest.mark.parametrize("size", [1, 100, 4096, 5000, 40960])
def test_metadata_that_were_cut_are_damage_with_a_way_back(root: Path, size: int) -> None:
    whole = (root / "meta.db").read_bytes()
    assert size < len(whole)
    (root / "meta.db").write_bytes(whole[:size])
    with pytest.raises(DataError, match="lakebed restore"):
        open_lake(root)
    with (
        ReadOnlyLake(root, disk=real_disk(), runner=ThreadRunner()) as lake,
        pytest.raises(DataError, match="lakebed restore"),
    ):
        lake.buckets.list()
    assert not verify_store(root).is_good
    (root / "meta.db").write_bytes(whole)
    with open_lake(root) as lake:
        assert stored(lake, "a") == DATA


def test_a_store_with_access_keys_alone_does_not_forget_them(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        lake.keys.create()
    remove(tmp_path)
    with pytest.raises(MetadataLost):
        open_lake(tmp_path)


def test_a_crash_in_the_first_commit_of_a_root_is_no_loss(root: Path) -> None:
    """The first body is in a segment, and nothing was committed yet."""
    new = root.parent / "new"
    with open_lake(new):
        pass
    (segment,) = (root / "objects" / "segments").iterdir()
    shutil.copy(segment, new / "objects" / "segments" / segment.name)
    for _ in range(2):
        with open_lake(new) as lake:
            assert lake.buckets.list() == []


def test_folders_alone_are_a_new_root(tmp_path: Path) -> None:
    for name in ("segments", "manifests/ab"):
        (tmp_path / "objects" / name).mkdir(parents=True)
    with ReadOnlyLake(tmp_path, disk=real_disk(), runner=ThreadRunner()) as lake:
        assert lake.buckets.list() == []
    empty(tmp_path)
    with open_lake(tmp_path) as lake:
        assert lake.buckets.list() == []


def test_a_database_that_is_lost_while_it_is_open_is_not_made_anew(root: Path) -> None:
    with open_lake(root) as lake:
        remove(root)
        with pytest.raises(MetadataLost):
            lake.objects.put(BUCKET, "b", DATA)
        assert isinstance(lake.failure, MetadataLost)
        lake._database._drop_connections()  # as after an error of the disk
        with pytest.raises(MetadataLost):
            lake.objects.put(BUCKET, "b", DATA)
        assert not (root / "meta.db").exists()
        _close_anyway(lake)


def _close_anyway(lake: Lake) -> None:
    with pytest.raises(MetadataLost):
        lake.close()
