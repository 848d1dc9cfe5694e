"""A whole store is backed up and restored: what is in it, what is copied, what is refused."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from lakebed.aof.identity import OWN_FOLDER
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.base.errors import AlreadyExists, Corrupt, InputError, Locked, NotFound, UnknownVersion
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.store.backup.check import check_snapshot
from lakebed.store.backup.create import check_apart, create_backup
from lakebed.store.backup.restore import DamagedBackup, restore
from lakebed.store.backup.retention import keep_snapshots
from lakebed.store.backup.vault import Marker, open_vault
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from tests.aof.tiers.tiered_logs import contents, write_segments
from tests.seglake.damaged_lakes import flip
from tests.store.backup.backups import (
    back_up,
    check_whole,
    everything,
    files_below,
    restored,
    vault_at,
)
from tests.store.lake_tiers import CONFIG
from tests.store.whole_stores import open_store


def test_a_restored_store_is_whole_and_has_everything(root: Path, tmp_path: Path) -> None:
    before = files_below(root)
    vault, taken = back_up(root, tmp_path / "vault")
    assert (taken.snapshot.problems, taken.snapshot.external) == ((), ())
    assert files_below(root) == before  # nothing was written there, and no pin is left
    new = restored(vault, taken.snapshot, tmp_path / "new")
    check_whole(new)
    assert everything(new) == everything(root)
    assert (new / "lakebed.toml").read_bytes() == (root / "lakebed.toml").read_bytes()
    for name in ("secret.key", "lakebed.toml"):
        assert stat.S_IMODE((new / name).stat().st_mode) & 0o077 == 0
    assert not (new / "restoring.json").exists()
    manifests = {name for name in before if name.startswith("objects/manifests/")}
    assert manifests
    assert {name: files_below(new)[name] for name in manifests} == {
        name: before[name] for name in manifests
    }


def test_a_second_backup_copies_nothing_and_later_ones_what_is_new(
    root: Path, tmp_path: Path
) -> None:
    vault, first = back_up(root, tmp_path / "vault")
    assert first.put_bytes > 9_000_000
    _, again = back_up(root, tmp_path / "vault")
    assert (again.put_count, again.put_bytes) == (0, 0)
    assert again.snapshot.files == first.snapshot.files
    with open_store(root) as store:
        store.bucket("photos").put("new", b"n" * 50_000)
        store.topic("events").partition(0).append_batch([b"new"]).result()
    _, later = back_up(root, tmp_path / "vault")
    assert 50_000 < later.put_bytes < 1_500_000
    assert vault.snapshot_ids() == sorted(
        taken.snapshot.snapshot_id for taken in (first, again, later)
    )
    check_whole(restored(vault, later.snapshot, tmp_path / "new"))
    assert everything(tmp_path / "new") == everything(root)


def test_a_restored_store_goes_on_and_is_backed_up_in_the_same_place(
    root: Path, tmp_path: Path
) -> None:
    vault, first = back_up(root, tmp_path / "vault")
    new = restored(vault, first.snapshot, tmp_path / "new")
    with open_store(new) as store:
        store.log("orders").append_record_with_timeout(b"more", 10)
        store.log("orders").flush()
        store.bucket("plain").put("more", b"more")
    _, later = back_up(new, tmp_path / "vault")
    check_whole(restored(vault, later.snapshot, tmp_path / "newer"))
    assert everything(tmp_path / "newer") == everything(new)


def test_only_the_last_backups_are_kept_and_what_they_need(root: Path, tmp_path: Path) -> None:
    vault, first = back_up(root, tmp_path / "vault")
    with open_store(root) as store:
        for number in range(5):
            store.bucket("plain").put(f"more/{number}", b"%d" % number * 30_000)
    _, second = back_up(root, tmp_path / "vault")
    vault.put_part("ab" * 32, b"left behind by one that was cut")
    removed = keep_snapshots(vault, 1)
    assert removed.snapshot_ids == (first.snapshot.snapshot_id,)
    assert removed.part_count >= 2
    assert vault.snapshot_ids() == [second.snapshot.snapshot_id]
    assert vault.pool() == second.snapshot.parts()
    assert check_snapshot(vault, second.snapshot).damaged == ()
    with pytest.raises(InputError, match="must be 1 or more"):
        keep_snapshots(vault, 0)


def test_parts_stay_while_a_catalogue_cannot_be_read(root: Path, tmp_path: Path) -> None:
    vault, first = back_up(root, tmp_path / "vault")
    _, second = back_up(root, tmp_path / "vault")
    flip(tmp_path / "vault" / "snapshots" / f"{second.snapshot.snapshot_id}.json", 300)
    pool = vault.pool()
    with pytest.raises(Corrupt, match=second.snapshot.snapshot_id):
        keep_snapshots(vault, 1)
    assert vault.snapshot_ids() == [first.snapshot.snapshot_id, second.snapshot.snapshot_id]
    assert vault.pool() == pool


def test_a_damaged_part_is_named_and_costs_only_its_files(root: Path, tmp_path: Path) -> None:
    vault, taken = back_up(root, tmp_path / "vault")
    [segment] = [file for file in taken.snapshot.files if file.path.startswith("objects/")]
    [log] = [file for file in taken.snapshot.files if file.path.endswith("events/topic.json")]
    pool = tmp_path / "vault" / "pool"
    flip(pool / segment.parts[1][:2] / segment.parts[1], 77)
    (pool / log.parts[0][:2] / log.parts[0]).unlink()
    damaged = check_snapshot(vault, taken.snapshot).damaged
    assert {one.paths for one in damaged} == {(segment.path,), (log.path,)}
    with pytest.raises(DamagedBackup, match="2 files are damaged in the backup"):
        restored(vault, taken.snapshot, tmp_path / "new")
    others = {file.path for file in taken.snapshot.files} - {segment.path, log.path, "store.json"}
    assert others <= set(files_below(tmp_path / "new"))
    with pytest.raises(InputError, match="not finished"):
        Store.open(tmp_path / "new")
    done = restore(
        vault, taken.snapshot, str(tmp_path / "new"), disk=real_disk(), salvage=True
    )  # goes on where it stopped
    assert len(done.damaged) == 2
    with open_store(tmp_path / "new") as store:
        assert [name for name, _ in store.lake.damage] == [Path(segment.path).stem]
        assert len(store.logs()) == 2
        assert store.topic_names() == ["events"]
        with pytest.raises(Corrupt, match="lakebed topic repair events"):
            store.topic("events")


def test_what_says_that_it_is_a_store_is_made_anew_if_it_is_damaged_in_the_backup(
    root: Path, tmp_path: Path
) -> None:
    vault, taken = back_up(root, tmp_path / "vault")
    [file] = [file for file in taken.snapshot.files if file.path == "store.json"]
    flip(tmp_path / "vault" / "pool" / file.parts[0][:2] / file.parts[0], 7)
    with pytest.raises(DamagedBackup, match=r"1 file is damaged in the backup \(store.json: "):
        restored(vault, taken.snapshot, tmp_path / "new")
    done = restore(vault, taken.snapshot, str(tmp_path / "new"), disk=real_disk(), salvage=True)
    assert len(done.damaged) == 1
    check_whole(tmp_path / "new")
    with ReadOnlyStore(tmp_path / "new") as new, ReadOnlyStore(root) as old:
        assert new.version is not None
        assert old.version is not None
        assert new.version.created_ms == old.version.created_ms
    back_up(tmp_path / "new", tmp_path / "vault")  # it is the same store
    assert everything(tmp_path / "new") == everything(root)


def test_what_a_restore_would_overwrite_is_left_alone(root: Path, tmp_path: Path) -> None:
    vault, taken = back_up(root, tmp_path / "vault")
    before = files_below(root)
    with pytest.raises(AlreadyExists, match="not empty"):
        restored(vault, taken.snapshot, root)
    assert files_below(root) == before
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        restored(vault, taken.snapshot, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    restored(vault, taken.snapshot, tmp_path / "empty")


def test_the_progress_of_a_check_and_of_a_restore_ends_at_the_total(tmp_path: Path) -> None:
    with Store.open(tmp_path / "small") as store:
        store.topic("orders").append_batch([b"one"]).result()
    vault, taken = back_up(tmp_path / "small", tmp_path / "vault")
    checked: list[tuple[int, int]] = []
    checked_report = check_snapshot(vault, taken.snapshot, progress=lambda *at: checked.append(at))
    count = checked_report.part_count
    assert checked == [(number, count) for number in range(1, count + 1)]
    restored_bytes: list[tuple[int, int]] = []
    restored_report = restore(
        vault,
        taken.snapshot,
        str(tmp_path / "new"),
        disk=real_disk(),
        progress=lambda *at: restored_bytes.append(at),
    )
    assert restored_bytes[-1] == (taken.snapshot.size, taken.snapshot.size)
    assert restored_report.byte_count == taken.snapshot.size


def test_a_percent_encoded_address_inside_the_root_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "my store"
    with Store.open(root):
        pass
    address = f"{root.as_uri()}/backups"
    assert "my%20store" in address
    vault = open_vault(address, disk=real_disk(), runner=ThreadRunner())
    before = files_below(root)
    with ReadOnlyStore(root) as store, pytest.raises(InputError, match="inside the store's root"):
        create_backup(store, vault)
    assert files_below(root) == before
    check_apart(str(root), str(tmp_path / "my%20store" / "backups"))  # a path is not decoded


def test_what_is_no_backup_or_of_another_store_is_refused(root: Path, tmp_path: Path) -> None:
    vault = vault_at(tmp_path / "nothing")
    with pytest.raises(NotFound, match="there is no backup"):
        vault.snapshot_ids()
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="contains files that are not backups"):
        back_up(root, tmp_path / "other")
    assert files_below(tmp_path / "other").keys() <= {"letter.txt", "backup.lock"}
    with pytest.raises(InputError, match="is inside the store's root"):
        back_up(root, root / "backups")
    _, taken = back_up(root, tmp_path / "vault")
    with Store.open(tmp_path / "another"):
        pass
    (tmp_path / "another" / "store.json").write_text(
        '{"format": "lakebed store", "version": 1, "created_ms": 5}'
    )
    with pytest.raises(InputError, match="another store"):
        back_up(tmp_path / "another", tmp_path / "vault")
    with pytest.raises(NotFound, match="no snapshot"):
        vault_at(tmp_path / "vault").snapshot("20000101T000000000Z-00000000")
    with pytest.raises(NotFound, match="there is no such snapshot"):
        vault_at(tmp_path / "vault").snapshot(f"../{taken.snapshot.snapshot_id}")


def test_a_newer_or_damaged_place_of_backups_is_refused(root: Path, tmp_path: Path) -> None:
    vault, _ = back_up(root, tmp_path / "vault")
    for data, kind in (
        (b'{"format":"lakebed backup","version":2}', UnknownVersion),
        (b'{"format":"something","version":1}', Corrupt),
        (b"\0\xff", Corrupt),
        (b"", Corrupt),
    ):
        vault._put("backup.json", data)
        with pytest.raises(kind):
            vault.snapshot_ids()
        with pytest.raises(kind):
            back_up(root, tmp_path / "vault")


def test_the_bytes_of_the_first_file_of_a_backup_do_not_change(tmp_path: Path) -> None:
    golden = Path(__file__).parents[2] / "golden" / "backup" / "v1" / "backup.json"
    vault = vault_at(tmp_path / "vault")
    vault.begin(store_created_ms=1_700_000_000_000)
    written = (tmp_path / "vault" / "backup.json").read_bytes()
    assert written.startswith(golden.read_bytes())  # behind it the trailer of an object in a folder
    assert vault.marker() == Marker(store_created_ms=1_700_000_000_000)


def test_one_backup_at_a_time_is_written_to_a_folder(root: Path, tmp_path: Path) -> None:
    vault = vault_at(tmp_path / "vault")
    with vault.lock(), pytest.raises(Locked):
        back_up(root, tmp_path / "vault")


def test_a_store_that_is_damaged_is_backed_up_as_far_as_it_is_there(
    root: Path, tmp_path: Path
) -> None:
    [segment] = (root / "objects" / "segments").iterdir()
    segment.unlink()
    [hot] = (root / "aof" / "other" / "segments").glob("00000000000000000000_*.seg")
    hot.unlink()
    vault, taken = back_up(root, tmp_path / "vault")
    lost, missing = sorted(taken.snapshot.problems)
    assert "objects: " in lost
    assert missing == "the log other: segments are missing: 0"
    restored(vault, taken.snapshot, tmp_path / "new")
    with ReadOnlyStore(tmp_path / "new") as store:
        assert store.topics.names() == ["events"]


def test_all_missing_segments_of_a_log_are_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Store.open(root, config=CONFIG) as store:
        write_segments(store.log("orders"), 15)
    segments = sorted((root / "aof" / "orders" / "segments").glob("*.seg"))
    for segment in (*segments[:12], segments[13]):
        segment.unlink()
    _, taken = back_up(root, tmp_path / "vault")
    assert taken.snapshot.problems == ("the log orders: segments are missing: 0 to 11, 13",)


def test_an_empty_store_is_backed_up(tmp_path: Path) -> None:
    with Store.open(tmp_path / "root"):
        pass
    vault, taken = back_up(tmp_path / "root", tmp_path / "vault")
    assert [file.path for file in taken.snapshot.files] == ["store.json"]
    with Store.open(restored(vault, taken.snapshot, tmp_path / "new")) as store:
        assert store.logs() == []


def test_a_tier_2_elsewhere_is_named_and_not_copied(tmp_path: Path) -> None:
    elsewhere = (tmp_path / "elsewhere").as_uri()
    shared = SharedTierConfig(retry_ms_first=1, url=elsewhere)
    with Store.open(tmp_path / "root", config=CONFIG, tier_config=shared) as store:
        log = store.log("orders")
        payloads = write_segments(log, 3)
        log.tiers.upload()
        log.tiers.evict(warm=True)
    (tmp_path / "root" / "notes.txt").write_text("not the store's")
    vault, taken = back_up(tmp_path / "root", tmp_path / "vault")
    assert taken.snapshot.external == (f"log orders: {elsewhere}",)
    assert taken.snapshot.left_out == ("notes.txt",)
    assert taken.snapshot.problems == ()
    new = restored(vault, taken.snapshot, tmp_path / "new")
    with Store.open(new, config=CONFIG) as store:
        assert contents(store.log("orders")) == payloads
    shutil.rmtree(tmp_path / "elsewhere")
    with Store.open(new, config=CONFIG) as store, pytest.raises(Tier2Error):
        contents(store.log("orders"))


def test_a_tier_2_in_the_folder_of_the_root_is_copied(tmp_path: Path) -> None:
    shared = SharedTierConfig(retry_ms_first=1, url=OWN_FOLDER)
    with Store.open(tmp_path / "root", config=CONFIG, tier_config=shared) as store:
        payloads = write_segments(store.log("orders"), 3)
        store.log("orders").tiers.upload()
        store.log("orders").tiers.evict(warm=True)
    vault, taken = back_up(tmp_path / "root", tmp_path / "vault")
    assert taken.snapshot.external == ()
    shutil.rmtree(tmp_path / "root")
    with Store.open(restored(vault, taken.snapshot, tmp_path / "new"), config=CONFIG) as store:
        assert contents(store.log("orders")) == payloads


def test_names_that_are_no_text_are_told_and_do_no_harm(root: Path, tmp_path: Path) -> None:
    (root / os.fsdecode(b"odd \xff name")).touch()
    (root / "tier2").mkdir()
    (root / "tier2" / os.fsdecode(b"\xfe")).touch()
    (root / "tier2" / "two\nlines").touch()
    vault, taken = back_up(root, tmp_path / "vault")
    assert taken.snapshot.left_out == ("odd \\udcff name",)
    assert len(taken.snapshot.problems) == 2
    check_whole(restored(vault, vault.snapshot(taken.snapshot.snapshot_id), tmp_path / "new"))


def test_what_is_missing_in_the_pool_is_copied_anew(root: Path, tmp_path: Path) -> None:
    vault, first = back_up(root, tmp_path / "vault")
    [segment] = [file for file in first.snapshot.files if file.path.startswith("objects/")]
    vault.delete_part(segment.parts[3])
    assert check_snapshot(vault, first.snapshot).damaged
    _, again = back_up(root, tmp_path / "vault")
    assert again.put_count == 1
    assert check_snapshot(vault, first.snapshot).damaged == ()
