"""`lakebed backup` and `lakebed restore`, each command and what it prints."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.host.store import Store
from lakebed.node.own_s3 import loopback_s3
from lakebed.seglake.key_ring import Credentials
from tests.cli.in_process import Run, runner
from tests.seglake.damaged_lakes import flip

SECRET = "not really a secret"  # noqa: S105


@pytest.fixture
def store(run: Run) -> None:
    """Something in each engine."""
    assert run("aof", "append", "orders", stdin=b"one\ntwo\n").exit_code == 0
    assert run("topic", "create", "events", "--partitions", "2").exit_code == 0
    assert run("topic", "produce", "events", stdin=b"a\nb\nc\n").exit_code == 0
    assert run("s3", "buckets", "create", "photos").exit_code == 0
    assert run("s3", "put", "photos/city", "-", stdin=b"bytes").exit_code == 0


@pytest.fixture
def other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """The command line with another root."""
    return runner(tmp_path / "new", monkeypatch, capsysbinary)


def check(run: Run) -> None:
    assert run("aof", "cat", "orders").out == b"one\ntwo\n"
    consumed = run("topic", "consume", "events", "--from-beginning", "--max", "3").out
    assert sorted(consumed.split()) == [b"a", b"b", b"c"]
    assert run("s3", "get", "photos/city", "-").out == b"bytes"
    assert run("verify").exit_code == 0


@pytest.mark.usefixtures("store")
def test_a_store_is_backed_up_listed_verified_and_restored(
    run: Run, other: Run, tmp_path: Path
) -> None:
    target = tmp_path / "backups" / "store"
    [line] = run("backup", target).lines()
    first = line.partition(":")[0]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in target.glob("pool/*/*")}
    assert modes == {0o600}
    second = run("backup", target, as_json=True).document()
    assert (second["copied_bytes"], second["problems"], second["external"]) == (0, [], [])
    heading, *rows = run("backup", target, "--list").lines()
    assert heading.split() == ["backup", "files", "bytes", "program"]
    assert [row.split()[0] for row in rows] == [first, second["snapshot"]]
    listed = run("backup", target, "--list", as_json=True).document()["backups"]
    assert [one["snapshot"] for one in listed] == [first, second["snapshot"]]
    assert run("backup", target, "--verify").lines()[-1].endswith(" parts, good")
    chosen = run("backup", target, "--verify", "--snapshot", first, as_json=True).document()
    assert (chosen["ok"], chosen["snapshot"], chosen["damaged"]) == (True, first, [])
    third = run("backup", target, "--keep", "2", as_json=True).document()
    assert third["removed"] == [first]
    [line] = other("restore", target, "--snapshot", second["snapshot"]).lines()
    assert f"new: {second['snapshot']}, " in line
    assert "lakebed verify" in line
    check(other)


@pytest.mark.usefixtures("store")
def test_mistakes_are_one_line_each_and_change_nothing(
    run: Run, other: Run, root: Path, tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    told = [
        (run("backup", target, "--keep", "0"), 2, "must be at least 1"),
        (run("backup", target, "--list", "--verify"), 2, "cannot be combined"),
        (run("backup", target, "--snapshot", "x"), 2, "can only be used with --verify"),
        (run("backup", target, "--list"), 66, "there is no backup"),
        (run("backup", target, "--verify"), 66, "there is no backup"),
        (run("backup", ""), 64, "give a folder"),
        (run("backup", "ftp://x"), 78, "use s3://bucket/prefix"),
        (run("backup", root / "inside"), 64, "is inside the store's root"),
        (other("backup", target), 66, "no such root"),
        (other("restore", target), 66, "there is no backup"),
    ]
    for done, exit_code, text in told:
        assert (done.exit_code, text in done.error_line()) == (exit_code, True), done
    assert not (tmp_path / "new").exists()
    assert not target.exists()
    assert not (root / "inside").exists()
    run("backup", target)
    assert "is not empty" in run("restore", target).error_line()
    assert "there is no such snapshot" in other("restore", target, "--snapshot", "x").error_line()
    (target / "backup.json").unlink()
    assert "contains files that are not backups" in run("backup", target).error_line()


@pytest.mark.usefixtures("store")
def test_older_backups_stay_if_the_newest_lacks_something(
    run: Run, root: Path, tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    run("backup", target)
    (root / "topics" / "events" / "topic.json").write_text("{")
    done = run("backup", target, "--keep", "1")
    assert done.exit_code == 65
    problem, kept = done.out.decode().splitlines()[1:]
    assert problem.startswith("problem: ")
    assert kept == "no older backups were removed, because they may have the missing data"
    assert len(run("backup", target, "--list").lines()) == 3
    document = run("backup", target, "--keep", "1", as_json=True)
    assert (document.exit_code, document.document()["removed"]) == (65, [])
    assert len(run("backup", target, "--list").lines()) == 4


@pytest.mark.usefixtures("store")
def test_damage_of_a_backup_is_named(run: Run, other: Run, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run("backup", target)
    part = max((target / "pool").glob("*/*"), key=lambda path: path.stat().st_size)
    flip(part, 5)
    done = run("backup", target, "--verify")
    assert done.exit_code == 65
    assert f"{part}: the part is damaged".encode() in done.out
    assert b"needed for meta.db" in done.out
    done = other("restore", target)
    assert (done.exit_code, "1 file is damaged" in done.error_line()) == (65, True)
    assert "not finished" in other("aof", "cat", "orders").error_line()
    done = other("restore", target, "--salvage")
    assert done.exit_code == 65
    assert b"not restored: meta.db: " in done.out
    assert other("aof", "cat", "orders").out == b"one\ntwo\n"


@pytest.fixture
def own_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Another store that serves S3, and the environment that reaches it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "backup")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    credentials = Credentials("backup", SECRET)
    with Store.open(tmp_path / "vault store") as store, loopback_s3(store, credentials) as served:
        store.bucket("backups")
        yield served.url


@pytest.mark.usefixtures("store")
def test_a_bucket_of_another_store_takes_backups(run: Run, other: Run, own_s3: str) -> None:
    address = ("s3://backups/a/store", "--endpoint", own_s3)
    first = run("backup", *address, as_json=True).document()
    assert first["copied_bytes"] > 0
    assert run("backup", *address, as_json=True).document()["copied_bytes"] == 0
    assert run("aof", "append", "orders", stdin=b"three\n").exit_code == 0
    run("backup", *address, "--keep", "1")
    assert run("backup", *address, "--verify").exit_code == 0
    assert len(run("backup", *address, "--list").lines()) == 2
    other("restore", *address)
    assert other("aof", "cat", "orders").out == b"one\ntwo\nthree\n"
    assert other("verify").exit_code == 0
    done = run("backup", "s3://missing/a", "--endpoint", own_s3)
    assert done.exit_code != 0
    assert done.error_line()
