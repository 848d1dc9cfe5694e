"""`lakebed manifest verify` of a log with tiers: what is recorded must be there, in every tier."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakebed.aof.manifest.records import CustomEvent
from lakebed.host.store import Store
from tests.cli.in_process import Run, runner
from tests.cli.tiered_stores import SEALED, make_root, objects, warm_files, write_segments

pytestmark = pytest.mark.thorough


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_root(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    run = runner(root, monkeypatch, capsysbinary)
    write_segments(run)
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "0")
    run("aof", "evict", "orders", "1", "--warm")
    return run


def problems(run: Run) -> list[str]:
    done = run("manifest", "verify", "orders")
    assert (done.exit_code, done.err) == (65, b"")
    return done.out.decode().splitlines()


def test_all_copies_are_looked_at(run: Run) -> None:
    (line,) = run("manifest", "verify", "orders").lines()
    counts = f"{SEALED - 2} segments, {SEALED - 1} warm files, {SEALED} objects, all whole"
    assert line.endswith(counts)
    document = run("manifest", "verify", "orders", as_json=True).document()
    assert (document["ok"], document["warm_files"], document["objects"]) == (
        True,
        SEALED - 1,
        SEALED,
    )


def test_an_object_that_is_missing_is_damage(run: Run, root: Path) -> None:
    path = objects(root)[1]
    path.unlink()
    assert problems(run) == [f"{path}: corrupt: the copy of segment 1 is missing"]


def test_an_object_of_another_segment_is_damage(run: Run, root: Path) -> None:
    path, other = objects(root)[:2]
    shutil.copyfile(other, path)
    (line,) = problems(run)
    assert line.startswith(f"{path}: corrupt: the compressed copy has the wrong size, expected ")
    assert run("manifest", "verify", "orders", as_json=True).document()["ok"] is False


def test_a_warm_file_that_is_missing_or_cut_is_damage(run: Run, root: Path) -> None:
    first, second = warm_files(root)[:2]
    first.unlink()
    second.write_bytes(second.read_bytes()[:-8])
    lost, cut = problems(run)
    assert lost == f"{first.parent}: corrupt: the copy of segment 0 is missing"
    assert cut.startswith(f"{second}: corrupt: the compressed copy has the wrong size, expected ")


def test_a_file_that_a_crash_left_of_an_evicted_segment_is_only_noted(run: Run, root: Path) -> None:
    path = sorted((root / "aof" / "orders" / "segments").glob("*.seg"))[1]
    shutil.copyfile(path, root / "saved")
    run("aof", "evict", "orders", "3", "--warm")
    shutil.copyfile(root / "saved", path)
    note, total = run("manifest", "verify", "orders").lines()
    assert note == (
        "note: segment 3: is evicted or being hydrated according to the manifest log, "
        "but its file exists"
    )
    assert total.endswith("all whole")


def upload_chunks(root: Path) -> list[Path]:
    """Have the coordinator's archive upload a few chunks; their objects."""
    with Store.open(root) as store:
        log = store.log("orders")
        journal = log.manifest
        assert journal is not None
        for number in range(4):
            journal.append(CustomEvent(1, b"%d" % number), segment_id=0, logical_offset=0)
            journal.rotate()
        journal.commit()
        log.tiers.chunks(journal).step(journal)
    return sorted((root / "tier2").rglob("*.mlog"))


def test_uploaded_chunks_are_looked_at_too(run: Run, root: Path) -> None:
    first, second, *_, last = upload_chunks(root)
    (line,) = run("manifest", "verify", "orders").lines()
    assert line.endswith(f" {SEALED} objects, 4 uploaded chunks, all whole")
    first.unlink()
    shutil.copyfile(last, second)
    lost, other = problems(run)
    assert lost == f"{first}: corrupt: chunk 0 is marked as uploaded, but Tier 2 does not have it"
    assert other.startswith(
        f"{second}: corrupt: the object does not hold chunk 1: expected checksum "
    )


def test_chunks_that_are_nowhere_any_more_are_noted(run: Run, root: Path) -> None:
    objects = upload_chunks(root)
    with Store.open(root) as store:
        log = store.log("orders")
        assert log.manifest is not None
        log.manifest.take_snapshot()
        log.manifest.take_snapshot()
        log.tiers.chunks(log.manifest).step(log.manifest)
    assert run("manifest", "verify", "orders").lines()[-1].endswith(" all whole")
    objects[0].unlink()
    note, _ = run("manifest", "verify", "orders").lines()
    assert note == "note: 1 of the first 2 chunks are neither on disk nor in Tier 2: 0"
