"""`lakebed s3` given what is wrong: one clear line, the right exit code, and nothing changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakebed.host.store import Store
from tests.cli.in_process import Run

pytestmark = pytest.mark.thorough


@pytest.fixture
def photos(run: Run) -> str:
    """A bucket with one object."""
    run("s3", "buckets", "create", "photos")
    run("s3", "put", "photos/k", "-", stdin=b"0123456789")
    return "photos"


def refused(run: Run, *arguments: str | Path, code: int, stdin: bytes = b"") -> str:
    done = run("s3", *arguments, stdin=stdin)
    assert (done.exit_code, done.out) == (code, b""), done
    return done.error_line()


BAD_NAMES = [
    "",
    "ab",
    "Photos",
    "a" * 64,
    "../x",
    "ph_otos",
    "1.2.3.4",
    "a..b",
    "-ab",
    "p\n",
    "\udc80xx",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_no_bucket_can_have_is_refused_and_creates_nothing(
    run: Run, root: Path, name: str
) -> None:
    for command in (["create"], ["delete"], ["versioning"]):
        more = ["enabled"] if command == ["versioning"] else []
        refused(run, "buckets", *command, "--", name, *more, code=64)
    for command in (["ls"], ["stat"], ["get"], ["rm"], ["verify"]):
        refused(run, *command, "--", f"{name}/k", code=64)
    refused(run, "put", "--", f"{name}/k", "-", code=64)
    assert not root.exists()


@pytest.mark.parametrize("place", ["photos", "photos/", "s3://photos", "s3://photos/"])
def test_a_place_without_a_key_is_refused(run: Run, photos: str, place: str) -> None:
    for command in (["get"], ["stat"], ["rm"]):
        assert "give BUCKET/KEY" in refused(run, *command, place, code=64)
    assert "give BUCKET/KEY" in refused(run, "put", place, "-", code=64)


@pytest.mark.parametrize("key", ["k" * 1025, "\udc80"])
def test_a_key_that_cannot_be_is_refused(run: Run, photos: str, key: str) -> None:
    for command in (["get"], ["stat"], ["rm"]):
        refused(run, *command, f"photos/{key}", code=64)
    refused(run, "put", f"photos/{key}", "-", code=64)


def test_a_root_that_is_missing_is_not_created(run: Run, root: Path) -> None:
    for arguments in (
        ["buckets"], ["buckets", "list"], ["buckets", "delete", "photos"], ["ls", "photos"],
        ["put", "photos/k", "-"], ["get", "photos/k"], ["rm", "photos/k"], ["stat", "photos/k"],
        ["verify"], ["buckets", "versioning", "photos", "enabled"],
    ):  # fmt: skip
        assert "no such root" in refused(run, *arguments, code=66)
    assert not root.exists()


def test_a_bucket_that_is_missing_is_told_and_not_created(run: Run, root: Path) -> None:
    root.mkdir()
    for arguments in (
        ["put", "photos/k", "-"], ["rm", "photos/k"], ["rm", "photos", "--recursive"],
        ["buckets", "delete", "photos"], ["buckets", "versioning", "photos", "enabled"],
    ):  # fmt: skip
        line = refused(run, *arguments, code=66)
        advice = "create it with lakebed s3 buckets create photos"
        assert line == f"bucket 'photos' does not exist; {advice}"
    for arguments in (["ls", "photos"], ["get", "photos/k"], ["stat", "photos/k"]):
        refused(run, *arguments, code=66)
    refused(run, "verify", "photos", code=66)
    assert list(root.iterdir()) == []


def test_an_object_that_is_missing_is_told_and_no_marker_is_made(run: Run, photos: str) -> None:
    for command in (["get"], ["stat"], ["rm"]):
        refused(run, *command, "photos/missing", code=66)
    for version_id in ("0" * 32, "null", "x", "../x", "\udc80"):
        for command in (["get"], ["stat"], ["rm"]):
            refused(run, *command, "photos/k", "--version-id", version_id, code=66)
    assert len(run("s3", "ls", "photos", "--versions").lines()) == 1
    run("s3", "rm", "photos/k")
    refused(run, "rm", "photos/k", code=66)
    assert len(run("s3", "ls", "photos", "--versions").lines()) == 2


def test_a_delete_marker_has_no_bytes(run: Run, photos: str) -> None:
    marker = run("s3", "rm", "photos/k", as_json=True).document()["version_id"]
    for command in (["get"], ["stat"]):
        assert "delete marker" in refused(
            run, *command, "photos/k", "--version-id", marker, code=64
        )


def test_options_that_exclude_each_other_are_refused(run: Run, photos: str) -> None:
    refused(run, "rm", "photos/k", "--recursive", "--version-id", "x", code=64)
    refused(run, "rm", "photos/k", "--versions", code=64)
    assert "--yes" in refused(run, "rm", "photos", "--recursive", "--versions", code=64)
    assert run("s3", "get", "photos/k").out == b"0123456789"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "x",
        "1",
        "5-3",
        "1-2-3",
        "1-2,4-5",
        " 1-2",
        "0x1-2",
        "\u0663-\u0665",
        "9" * 30 + "-",
    ],
)
def test_a_range_that_is_none_is_refused(run: Run, photos: str, text: str) -> None:
    assert "--range" in refused(run, "get", "photos/k", f"--range={text}", code=64)


@pytest.mark.parametrize("text", ["10-", "10-20", "-0", "9999999999999999999-"])
def test_a_range_without_a_byte_in_the_object_is_refused(
    run: Run, photos: str, tmp_path: Path, text: str
) -> None:
    refused(run, "get", "photos/k", tmp_path / "target", f"--range={text}", code=64)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    "text", ["", "a", "=b", "a b=c", "é=c", "a=b\nc", "a=\x00", "a=\udc80", f"a={'x' * 2048}"]
)
def test_metadata_that_no_header_can_carry_are_refused(run: Run, photos: str, text: str) -> None:
    refused(run, "put", "photos/new", "-", "--metadata", text, code=64)
    refused(run, "stat", "photos/new", code=66)


def test_metadata_of_one_name_are_given_once(run: Run, photos: str) -> None:
    line = refused(run, "put", "photos/k", "-", "--metadata", "a=1", "--metadata", "A=2", code=64)
    assert line == "--metadata a is given twice"


@pytest.mark.parametrize("text", ["a\nb", "\udc80"])
def test_a_content_type_that_no_header_can_carry_is_refused(
    run: Run, photos: str, text: str
) -> None:
    refused(run, "put", "photos/k", "-", "--content-type", text, code=64)


def test_a_file_to_put_must_be_one(run: Run, photos: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no such file" in refused(run, "put", "photos/new", tmp_path / "missing", code=66)
    assert "not a regular file" in refused(run, "put", "photos/new", tmp_path, code=64)
    assert "standard input and give -" in refused(
        run, "put", "photos/new", tmp_path / "pipe", code=64
    )
    refused(run, "put", "photos/new", "a\x00b", code=66)
    refused(run, "stat", "photos/new", code=66)


def test_nothing_but_a_file_is_replaced_by_what_is_got(
    run: Run, photos: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert "is a folder" in refused(run, "get", "photos/k", folder, code=64)
    assert "not a regular file" in refused(run, "get", "photos/k", tmp_path / "pipe", code=64)
    assert "its folder does not exist" in refused(
        run, "get", "photos/k", tmp_path / "x" / "y", code=66
    )
    refused(run, "get", "photos/k", "a\x00b", code=64)
    assert list(folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe", "root"]


def test_what_is_missing_leaves_the_file_that_was_there(
    run: Run, photos: str, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"before")
    refused(run, "get", "photos/missing", target, code=66)
    assert target.read_bytes() == b"before"


def test_bytes_and_a_document_do_not_share_standard_output(run: Run, photos: str) -> None:
    done = run("s3", "get", "photos/k", as_json=True)
    assert (done.exit_code, done.out) == (64, b"")


def test_a_bucket_of_another_kind_is_refused(run: Run, photos: str) -> None:
    refused(run, "buckets", "create", "photos", "--versioning", "unversioned", code=73)
    for arguments in (
        ["buckets", "create", "new", "--versioning", "suspended"],
        ["buckets", "versioning", "photos", "unversioned"],
        ["buckets", "versioning", "photos"],
        ["ls", "photos", "--max", "-1"],
        ["ls"],
        ["nothing"],
    ):
        refused(run, *arguments, code=2)


def test_a_store_that_is_open_elsewhere_is_read_and_written(
    run: Run, root: Path, photos: str
) -> None:
    with Store.open(root) as store:
        for arguments in (
            ["put", "photos/new", "-"],
            ["rm", "photos/new"],
            ["buckets", "create", "new"],
        ):
            done = run("s3", *arguments)
            assert (done.exit_code, done.err) == (0, b"")
        assert [bucket.name for bucket in store.buckets()] == ["new", "photos"]
        assert run("s3", "get", "photos/k").out == b"0123456789"
        assert run("s3", "verify").exit_code == 0


def test_a_newer_store_is_refused(run: Run, root: Path, photos: str) -> None:
    (root / "store.json").write_text('{"format": "lakebed store", "version": 99, "created_ms": 0}')
    for arguments in (["buckets"], ["put", "photos/k", "-"], ["get", "photos/k"]):
        refused(run, *arguments, code=65)


def test_metadata_that_are_no_database_are_told(run: Run, root: Path, photos: str) -> None:
    (root / "meta.db").write_bytes(b"no database at all" * 500)
    for arguments in (["buckets"], ["ls", "photos"], ["get", "photos/k"], ["put", "photos/k", "-"]):
        assert "meta.db" in refused(run, *arguments, code=65)


def test_an_object_larger_than_the_limit_is_refused(
    run: Run, photos: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_S3_MAX_OBJECT_SIZE", "5")
    assert "maximum is 5" in refused(run, "put", "photos/new", "-", code=64, stdin=b"123456")
    refused(run, "stat", "photos/new", code=66)
