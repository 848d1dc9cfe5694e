"""The commands about tiers where Tier 2 is the store's own object store, as it is by default."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from lakebed.store.lake_object_store import BUCKET
from tests.cli.conftest import Lakebed
from tests.cli.in_process import Run, runner
from tests.cli.tiered_stores import LINES, SEALED, objects, tiers_of, write_segments
from tests.store.lake_tiers import damage_object, keys, open_store, tier2

pytestmark = pytest.mark.thorough

ALL = range(SEALED)
SETTINGS = '[aof]\nsegment_bytes = "64KiB"\n'
OWN = f"store://{BUCKET}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "lakebed.toml").write_text(SETTINGS)
    return folder


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """With a log whose segments are in all tiers."""
    run = runner(root, monkeypatch, capsysbinary)
    write_segments(run)
    assert not (root / "meta.db").exists()
    assert run("aof", "upload", "orders").exit_code == 0
    assert tiers_of(run) == dict.fromkeys(ALL, "0+1+2")
    return run


def test_a_cold_log_is_read_verified_and_brought_back(run: Run, root: Path) -> None:
    assert run("aof", "evict", "orders", "--warm").exit_code == 0
    assert tiers_of(run) == dict.fromkeys(ALL, "2")
    assert run("aof", "tiers", "orders").lines()[0].endswith(f", Tier 2 is {OWN}")
    assert run("aof", "cat", "orders").out == LINES
    (line,) = run("aof", "verify", "orders", "--tier2").lines()
    assert line.endswith(f"{SEALED} objects, all whole")
    (line,) = run("manifest", "verify", "orders").lines()
    assert line.endswith(f"{SEALED} objects, all whole")
    assert run("aof", "repair", "orders", "--tier2").lines() == [
        "orders: nothing to repair in Tier 2"
    ]
    assert run("aof", "hydrate", "orders").exit_code == 0
    assert run("aof", "cat", "orders").out == LINES
    assert not (root / "tier2").exists()


def test_the_log_moves_to_the_folder_and_back(run: Run, root: Path) -> None:
    run("aof", "evict", "orders", "--warm")
    first, second = run("aof", "migrate-tier2", "orders", "tier2").lines()
    assert first.startswith(f"orders: {SEALED} objects copied, ")
    assert second == f"orders: objects are left at {OWN}; delete them with --delete"
    assert len(objects(root)) == SEALED
    assert run("aof", "tiers", "orders").lines()[0].endswith(f", Tier 2 is {root}/tier2")
    assert run("aof", "migrate-tier2", "orders", "tier2", "--delete").exit_code == 0
    assert run("s3", "ls", BUCKET).out == b""
    assert run("aof", "cat", "orders").out == LINES
    done = run("aof", "migrate-tier2", "orders", "--delete", as_json=True).document()
    assert (done["before"], done["tier2"], done["left_at"]) == ("tier2", OWN, None)
    assert (done["copied_objects"], done["deleted_objects"]) == (SEALED, SEALED)
    assert objects(root) == []
    assert run("aof", "cat", "orders").out == LINES


def test_the_bucket_of_the_logs_is_not_changed_by_commands(run: Run, root: Path) -> None:
    with open_store(root) as store:
        key, *_ = found = keys(store)
    place = f"{BUCKET}/{key}"
    for command in (
        ("s3", "rm", place),
        ("s3", "rm", place, "--version-id", "null"),
        ("s3", "rm", BUCKET, "--recursive"),
        ("s3", "rm", BUCKET, "--recursive", "--versions", "--yes"),
        ("s3", "put", place, root / "lakebed.toml"),
        ("s3", "buckets", "delete", BUCKET),
        ("s3", "buckets", "versioning", BUCKET, "enabled"),
    ):
        done = run(*command)
        assert done.exit_code == 77, command
        assert b"is read-only: it holds cold log segments of this store" in done.err
    with open_store(root) as store:
        assert keys(store) == found


def test_a_missing_object_is_told_and_made_anew(run: Run, root: Path) -> None:
    with open_store(root) as store:
        key = keys(store)[1]
        tier2(store).delete(key)
    problem = f"{OWN}/{key}: corrupt: the copy of segment 1 is missing"
    for command in (("manifest", "verify", "orders"), ("aof", "verify", "orders", "--tier2")):
        done = run(*command)
        assert done.exit_code == 65
        assert done.out.decode().splitlines()[0] == problem
    assert run("aof", "repair", "orders", "--tier2").lines() == [
        f"orders: segment 1: uploaded again: {key}"
    ]
    assert run("manifest", "verify", "orders").exit_code == 0
    assert run("aof", "verify", "orders", "--tier2").exit_code == 0


def test_a_damaged_object_is_told_by_all_who_meet_it(run: Run, root: Path) -> None:
    run("aof", "evict", "orders", "0", "--warm")
    with open_store(root) as store:
        key = keys(store)[0]
        damage_object(root, store, key)
    done = run("aof", "verify", "orders", "--tier2")
    (line,) = done.out.decode().splitlines()
    assert line.startswith(f"{OWN}/{key}: corrupt: ")
    assert "the chunk is damaged" in line
    assert done.exit_code == 65
    read = run("aof", "cat", "orders")
    assert (read.exit_code, read.out) == (65, b"")
    assert key in read.error_line()
    assert run("s3", "verify").exit_code == 65
    assert run("aof", "hydrate", "orders", "0").exit_code == 65  # and the store notes it
    looked = run("manifest", "verify", "orders")
    assert looked.exit_code == 65
    assert key in looked.out.decode().splitlines()[0]
    repaired = run("aof", "repair", "orders", "--tier2")
    assert repaired.exit_code == 65
    assert key in repaired.error_line()


WRITER = """
import sys
from itertools import count
from pathlib import Path
from random import Random
from lakebed.host.store import Store

with Store.open(Path("root")) as store:
    log = store.log("orders")
    for number in count(int(sys.argv[1])):
        log.append_record_with_timeout(Random(number).randbytes(12_000), 60)
        log.flush()
        print("written", flush=True)
"""
TIERED = """
[aof_tiers]
tiering_enabled = true
tier0_bytes_max = "256KiB"
pause_ms = 0

[aof_tier2]
tier1_bytes_max = "64KiB"
"""


@pytest.mark.process
def test_a_writer_that_is_killed_loses_nothing_it_acknowledged(
    lakebed: Lakebed, root: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    (root / "lakebed.toml").write_text(SETTINGS + TIERED)
    found: list[bytes] = []
    for count in (100, 60):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(len(found))],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert writer.stdout is not None
        for _ in range(count):
            assert writer.stdout.readline() == b"written\n"
        writer.kill()
        acknowledged = len(found) + count + len(writer.communicate()[0].splitlines())
        with open_store(root) as store:
            found = [bytes(record.payload) for record in store.log("orders").read()]
            cold = [one for one in store.log("orders").tiers.residency() if one.tiers == (2,)]
        assert cold, "some of it is in Tier 2 alone"
        assert len(found) >= acknowledged
        assert found == [Random(number).randbytes(12_000) for number in range(len(found))]
        assert lakebed("--root", "root", "aof", "verify", "orders", "--tier2").exit_code == 0
    assert json.loads((root / "aof" / "orders" / "log.json").read_text())["tier2"] == OWN
