"""`lakebed s3`, each command and what it prints, in the tests' own process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lakebed.cli import s3_listing, s3_remove
from lakebed.host.store import Store
from tests.cli.in_process import Run

pytestmark = pytest.mark.thorough

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
BIG = bytes(range(256)) * (9 << 12)  # three chunks


@pytest.fixture
def photos(run: Run) -> str:
    """A bucket whose versioning is enabled."""
    run("s3", "buckets", "create", "photos")
    return "photos"


def put(run: Run, place: str, data: bytes) -> str:
    """The version's id."""
    done = run("s3", "put", place, "-", stdin=data, as_json=True)
    version_id: str = done.document()["version_id"]
    return version_id


# buckets


def test_buckets_are_created_listed_configured_and_deleted(run: Run) -> None:
    assert run("s3", "buckets", "create", "photos").lines() == [
        "photos: created, versioning is enabled"
    ]
    assert run("s3", "buckets", "create", "photos").lines() == [
        "photos: exists already, versioning is enabled"
    ]
    created = run("s3", "buckets", "create", "plain", "--versioning", "unversioned").lines()
    assert created == ["plain: created, versioning is unversioned"]
    listed = run("s3", "buckets").lines()
    assert listed == run("s3", "buckets", "list").lines()
    assert [line.split()[:2] for line in listed] == [
        ["bucket", "versioning"], ["photos", "enabled"], ["plain", "unversioned"],
    ]  # fmt: skip
    assert run("s3", "buckets", "versioning", "photos", "suspended").lines() == [
        "photos: versioning is suspended"
    ]
    assert run("s3", "buckets", "delete", "plain").lines() == ["plain: deleted"]
    [found] = run("s3", "buckets", as_json=True).document()["buckets"]
    assert (found["bucket"], found["versioning"]) == ("photos", "suspended")
    assert re.fullmatch(TIME, found["created"])


def test_a_new_bucket_is_as_the_settings_say(run: Run, root: Path) -> None:
    root.mkdir()
    (root / "lakebed.toml").write_text('[s3]\ndefault_versioning = "unversioned"\n')
    created = run("s3", "buckets", "create", "photos", as_json=True).document()
    assert (created["versioning"], created["created"]) == ("unversioned", True)


def test_in_a_root_without_objects_there_are_no_buckets_and_nothing_is_made(
    run: Run, root: Path
) -> None:
    root.mkdir()
    assert run("s3", "buckets").lines() == ["bucket  versioning  created"]
    assert run("s3", "verify").lines() == ["0 versions, 0 chunks, 0 segments, 0 bytes, all whole"]
    assert run("s3", "ls", "photos").exit_code == 66
    assert list(root.iterdir()) == []


# put, get and stat


@pytest.mark.parametrize("size", [0, 1, 10_000, len(BIG)])
def test_what_is_put_is_got_again(run: Run, photos: str, tmp_path: Path, size: int) -> None:
    source, target = tmp_path / "source.json", tmp_path / "target"
    source.write_bytes(BIG[:size])
    [line] = run("s3", "put", "photos/a/b", source).lines()
    assert line.startswith(f"photos/a/b: stored {size} bytes, version ")
    assert run("s3", "get", "photos/a/b").out == BIG[:size]
    assert run("s3", "get", "photos/a/b", "-").out == BIG[:size]
    assert run("s3", "get", "s3://photos/a/b", target).lines() == [
        f"photos/a/b: {size} bytes written to {target}"
    ]
    assert target.read_bytes() == BIG[:size]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "source.json", "target"]
    put(run, "photos/copy", BIG[:size])
    assert run("s3", "get", "photos/copy").out == BIG[:size]


def test_an_object_is_put_only_in_place_of_the_one_that_is_named(run: Run, root: Path) -> None:
    root.mkdir()
    (root / "lakebed.toml").write_text('[s3]\nrequire_if_match_buckets = "photos"\n')
    run("s3", "buckets", "create", "photos")
    (root / "file").write_bytes(b"hello")
    run("s3", "put", "photos/k", root / "file").lines()
    etag = "5d41402abc4b2a76b9719d911017c592"
    refused = run("s3", "put", "photos/k", root / "file")
    assert refused.exit_code == 64
    assert f"the object already exists, with ETag {etag}" in refused.err.decode()
    run("s3", "put", "photos/k", root / "file", "--if-match", etag).lines()


def test_a_protected_bucket_that_cannot_exist_is_refused(run: Run, root: Path) -> None:
    root.mkdir()
    (root / "lakebed.toml").write_text('[s3]\nrequire_if_match_buckets = "Photos"\n')
    refused = run("s3", "buckets", "create", "photos")
    assert refused.exit_code == 78
    assert "require_if_match_buckets: 'Photos' is not a valid bucket name" in refused.err.decode()


def test_stat_tells_everything(run: Run, photos: str, tmp_path: Path) -> None:
    source = tmp_path / "city.jpg"
    source.write_bytes(b"hello")
    stored = run(
        "s3", "put", "photos/k", source, "--metadata", "Place=Rome é", "--metadata", "by=ada",
        as_json=True,
    ).document()  # fmt: skip
    found = run("s3", "stat", "photos/k", as_json=True).document()
    assert found == stored
    assert found["etag"] == "5d41402abc4b2a76b9719d911017c592"
    assert found["metadata"] == {"place": "Rome é", "by": "ada"}
    assert (found["content_type"], found["size"], found["is_latest"]) == ("image/jpeg", 5, True)
    assert list(found["checksums"]) == ["CRC64NVME"]
    lines = run("s3", "stat", "photos/k").lines()
    assert [line.split()[0] for line in lines] == [
        "bucket", "key", "version", "state", "size", "etag", "modified", "content-type",
        "checksum", "metadata", "metadata",
    ]  # fmt: skip
    put(run, "photos/k", b"newer")
    old = run("s3", "stat", "photos/k", "--version-id", stored["version_id"]).lines()
    assert old[2].split()[1:] == [stored["version_id"], "(not", "the", "newest)"]


@pytest.mark.parametrize(
    ("name", "key", "given", "expected"),
    [
        ("a.txt", "k", None, "text/plain"),
        ("a.tar.gz", "k", None, "application/gzip"),
        ("a", "k.html", None, "text/html"),
        ("a", "k", None, None),
        ("a.parquet.x.y", "dir.txt/k", None, None),
        ("a.txt", "k", "x/y; charset=utf-8", "x/y; charset=utf-8"),
    ],
)
def test_the_content_type_is_guessed_unless_it_is_given(
    run: Run, photos: str, tmp_path: Path, name: str, key: str, given: str | None,
    expected: str | None,
) -> None:  # fmt: skip
    (tmp_path / name).write_bytes(b"x")
    options = [] if given is None else ["--content-type", given]
    found = run("s3", "put", f"photos/{key}", tmp_path / name, *options, as_json=True).document()
    assert found["content_type"] == expected


def test_ranges_are_got(run: Run, photos: str) -> None:
    put(run, "photos/k", b"0123456789")
    for text, expected in [
        ("0-0", b"0"), ("3-5", b"345"), ("7-", b"789"), ("-2", b"89"), ("8-99", b"89"),
    ]:  # fmt: skip
        assert run("s3", "get", "photos/k", "--range", text).out == expected
        assert run("s3", "get", "photos/k", f"--range={text}").out == expected
    put(run, "photos/big", BIG)
    across = run("s3", "get", "photos/big", "--range", "4194300-8388610").out
    assert across == BIG[4194300:8388611]


def test_old_versions_are_got(run: Run, photos: str) -> None:
    first, second = put(run, "photos/k", b"one"), put(run, "photos/k", b"two")
    assert run("s3", "get", "photos/k", "--version-id", first).out == b"one"
    assert run("s3", "get", "photos/k", "--version-id", second).out == b"two"


def test_an_object_is_put_only_where_there_is_none(run: Run, photos: str) -> None:
    assert run("s3", "put", "photos/k", "-", "--if-none-match", stdin=b"one").exit_code == 0
    refused = run("s3", "put", "photos/k", "-", "--if-none-match", stdin=b"two")
    assert (refused.exit_code, refused.out) == (64, b"")
    etag = "f97c5d29941bfb1b2fdab0874906ab82"
    assert refused.error_line() == f"photos/'k': the object already exists, with ETag {etag}"
    assert run("s3", "get", "photos/k").out == b"one"
    assert len(run("s3", "ls", "photos", "--versions").lines()) == 1


def test_a_file_that_is_got_replaces_the_one_before_it(
    run: Run, photos: str, tmp_path: Path
) -> None:
    put(run, "photos/k", b"new")
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old and longer")
    link.symlink_to(target)
    done = run("s3", "get", "photos/k", link, as_json=True).document()
    assert (done["start"], done["end"], done["file"]) == (0, 3, str(link))
    assert target.read_bytes() == b"new"
    assert link.is_symlink()


# ls


def test_a_listing_is_like_that_of_aws(run: Run, photos: str) -> None:
    for key in ("2025/a", "2025/b", "2026/c/d", "top"):
        put(run, f"photos/{key}", b"x" * len(key))

    def shown(*arguments: str) -> list[str]:
        lines = run("s3", "ls", *arguments).lines()
        return [re.sub(TIME, "TIME", line).strip() for line in lines]

    assert shown("photos") == ["PRE  2025/", "PRE  2026/", "TIME              3  top"]
    assert shown("photos/20") == ["PRE  2025/", "PRE  2026/"]
    assert shown("photos/2025/") == ["TIME              6  a", "TIME              6  b"]
    assert shown("photos/2026/c") == ["PRE  c/"]
    assert [line.split()[-1] for line in shown("photos", "--recursive")] == [
        "2025/a", "2025/b", "2026/c/d", "top",
    ]  # fmt: skip
    assert shown("photos", "--max", "2") == ["PRE  2025/", "PRE  2026/"]
    assert shown("photos", "--max", "0") == []
    assert shown("photos/nothing") == []


def test_the_document_of_a_listing_has_whole_keys(run: Run, photos: str) -> None:
    put(run, "photos/a/b", b"one")
    put(run, "photos/a/c/d", b"two")
    found = run("s3", "ls", "photos/a/", as_json=True).document()
    assert (found["bucket"], found["prefix"], found["prefixes"]) == ("photos", "a/", ["a/c/"])
    [item] = found["objects"]
    assert (item["key"], item["size"], item["state"]) == ("a/b", 3, "ACTIVE")
    assert found["is_truncated"] is False
    cut = run("s3", "ls", "photos", "--recursive", "--max", "1", as_json=True).document()
    assert (len(cut["objects"]), cut["is_truncated"]) == (1, True)


def test_versions_and_delete_markers_are_listed(run: Run, photos: str) -> None:
    first = put(run, "photos/k", b"one")
    second = put(run, "photos/k", b"three")
    marker = run("s3", "rm", "photos/k", as_json=True).document()["version_id"]
    lines = [line.split() for line in run("s3", "ls", "photos", "--versions").lines()]
    assert [line[1:] for line in lines] == [
        ["-", marker, "deleted", "k"], ["5", second, "old", "k"], ["3", first, "old", "k"],
    ]  # fmt: skip
    found = run("s3", "ls", "photos", "--versions", as_json=True).document()["versions"]
    assert [(one["version_id"], one["is_latest"], one["state"]) for one in found] == [
        (marker, True, "DELETED"), (second, False, "ACTIVE"), (first, False, "ACTIVE"),
    ]  # fmt: skip
    assert run("s3", "ls", "photos").lines() == []


def test_where_no_versions_are_kept_the_null_version_is_listed_and_removed(run: Run) -> None:
    run("s3", "buckets", "create", "plain", "--versioning", "unversioned")
    put(run, "plain/k", b"one")
    [line] = run("s3", "ls", "plain", "--versions").lines()
    assert line.split()[2:] == ["null", "newest", "k"]
    run("s3", "rm", "plain", "--recursive", "--versions", "--yes").lines()
    assert run("s3", "ls", "plain").lines() == []
    run("s3", "buckets", "delete", "plain").lines()


def test_more_than_a_page_is_listed_and_removed(
    run: Run, root: Path, photos: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (s3_listing, s3_remove):
        monkeypatch.setattr(module, "_PAGE_MAX", 3)
    keys = [f"d/{number:02}" for number in range(20)]
    with Store.open(root) as store:
        puts = [store.lake.objects.begin_put("photos", key).submit() for key in [*keys, "other"]]
        for one in puts:
            one.wait()

    def listed(*arguments: str) -> list[str]:
        return [line.split()[-1] for line in run("s3", "ls", *arguments).lines()]

    assert listed("photos", "--recursive") == [*keys, "other"]
    assert listed("photos", "--recursive", "--versions") == [*keys, "other"]
    assert listed("photos", "--recursive", "--max", "10") == keys[:10]
    assert listed("photos", "--recursive", "--versions", "--max", "10") == keys[:10]
    assert run("s3", "rm", "photos/d/", "--recursive").lines() == ["photos/d/: removed 20 objects"]
    assert listed("photos") == ["other"]
    done = run("s3", "rm", "photos", "--recursive", "--versions", "--yes", as_json=True)
    assert done.document()["removed"] == 2 * 20 + 1
    assert run("s3", "buckets", "delete", "photos").exit_code == 0


# rm


def test_a_removed_object_comes_back_with_its_marker_gone(run: Run, photos: str) -> None:
    put(run, "photos/k", b"one")
    marker = run("s3", "rm", "photos/k", as_json=True).document()
    assert marker["is_delete_marker"] is True
    assert run("s3", "get", "photos/k").exit_code == 66
    done = run("s3", "rm", "photos/k", "--version-id", marker["version_id"])
    assert done.lines() == [f"photos/k: removed version {marker['version_id']}"]
    assert run("s3", "get", "photos/k").out == b"one"


def test_where_no_versions_are_kept_a_removed_object_is_gone(run: Run) -> None:
    run("s3", "buckets", "create", "plain", "--versioning", "unversioned")
    put(run, "plain/k", b"one")
    assert run("s3", "rm", "plain/k").lines() == ["plain/k: removed"]
    put(run, "plain/a", b"one")
    done = run("s3", "rm", "plain", "--recursive", "--versions", "--yes")
    assert done.lines() == ["plain: removed 1 version"]
    assert run("s3", "buckets", "delete", "plain").exit_code == 0


def test_a_bucket_with_old_versions_is_not_empty_and_it_is_told_how_to_empty_it(
    run: Run, photos: str
) -> None:
    put(run, "photos/k", b"one")
    run("s3", "rm", "photos/k")
    refused = run("s3", "buckets", "delete", "photos")
    assert refused.exit_code == 64
    assert "lakebed s3 rm photos --recursive --versions --yes" in refused.error_line()
    assert run("s3", "rm", "photos", "--recursive", "--versions").exit_code == 64
    run("s3", "rm", "photos", "--recursive", "--versions", "--yes")
    assert run("s3", "buckets", "delete", "photos").lines() == ["photos: deleted"]


# verify


def test_what_is_whole_is_told_to_be(run: Run, photos: str) -> None:
    put(run, "photos/a/k", BIG)
    put(run, "photos/b", b"x")
    size = len(BIG) + 1
    [line] = run("s3", "verify").lines()
    assert re.fullmatch(rf"2 versions, 4 chunks, \d segments?, {size} bytes, all whole", line)
    assert run("s3", "verify", "photos/a/").lines() == [
        f"photos/a/: 1 version, 3 chunks, {len(BIG)} bytes, all whole"
    ]
    found = run("s3", "verify", as_json=True).document()
    assert (found["ok"], found["versions"], found["problems"]) == (True, 2, [])


# Everybody's names


@pytest.mark.parametrize("key", ["../../x", "..", "/", "a//b", "a\nb\x1b[31m", "\x00", "é\u2028"])
def test_keys_of_any_kind_are_taken_and_shown_on_one_line(
    run: Run, root: Path, photos: str, key: str
) -> None:
    put(run, f"photos/{key}", b"data")
    assert run("s3", "get", f"photos/{key}").out == b"data"
    for arguments in (("ls", "photos", "--recursive"), ("ls", "photos", "--versions"), ("verify",)):
        done = run("s3", *arguments)
        assert done.exit_code == 0
        assert done.out.decode().count("\n") == 1
        assert done.out.decode().rstrip("\n").isprintable()
    listed = json.loads(run("s3", "ls", "photos", "--recursive", as_json=True).out)
    assert [one["key"] for one in listed["objects"]] == [key]
    assert run("s3", "stat", f"photos/{key}", as_json=True).document()["key"] == key
    assert all(line.isprintable() for line in run("s3", "stat", f"photos/{key}").lines())
    [line] = run("s3", "rm", f"photos/{key}").lines()
    assert line.isprintable()
    assert {path.name for path in root.parent.iterdir()} == {"root"}
