"""Whose backups a place has, if they are of a root that only a bare log manager wrote to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.aof.manager import AofManager
from lakebed.base.errors import InputError
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from tests.aof.tiers.tiered_logs import contents, write_segments
from tests.store.backup.backups import back_up, check_whole, restored
from tests.store.lake_tiers import CONFIG


def write_bare(root: Path) -> list[bytes]:
    with AofManager(root, config=CONFIG) as manager:
        return write_segments(manager.open("orders"), 3)


def test_a_root_of_a_bare_manager_goes_on_in_its_place_when_it_is_a_store(tmp_path: Path) -> None:
    payloads = write_bare(tmp_path / "root")
    assert not (tmp_path / "root" / "store.json").exists()
    vault, taken = back_up(tmp_path / "root", tmp_path / "vault")
    assert vault.marker().store_created_ms == 0
    assert "store.json" not in {file.path for file in taken.snapshot.files}
    back_up(tmp_path / "root", tmp_path / "vault")
    new = restored(vault, taken.snapshot, tmp_path / "new")
    check_whole(new)
    with Store.open(new, config=CONFIG) as store:
        assert contents(store.log("orders")) == payloads
    back_up(new, tmp_path / "vault")
    with ReadOnlyStore(new) as restored_store:
        assert restored_store.version is not None
        assert vault.marker().store_created_ms == restored_store.version.created_ms > 0


def test_another_root_of_a_bare_manager_or_another_store_is_refused_there(tmp_path: Path) -> None:
    write_bare(tmp_path / "root")
    write_bare(tmp_path / "other")
    with Store.open(tmp_path / "store", config=CONFIG) as store:
        write_segments(store.log("orders"), 1)
    back_up(tmp_path / "root", tmp_path / "vault")
    for name in ("other", "store"):
        with pytest.raises(InputError, match="another store"):
            back_up(tmp_path / name, tmp_path / "vault")
    back_up(tmp_path / "root", tmp_path / "vault")
