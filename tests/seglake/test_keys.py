"""Keys: any text of 1 to 1,024 bytes is a name like all others, and never one of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.errors import InputError
from lakebed.seglake.errors import BadKey, NoSuchKey, NoSuchUpload
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import Versioning
from lakebed.seglake.multipart import NamedPart
from tests.seglake.lakes import BUCKET, keys, open_lake, stored, told_versions

KEYS = [
    "a" * 1024,
    "ü" * 512,
    "\U0001f30a" * 256,
    "a" * 255,
    "a" * 256,
    "/" * 1024,
    "../" * 341,
    "key",
    "Key",
    " ",
    " key ",
    ".",
    "..",
    "...",
    "../..",
    "../../x",
    "../../../../../../tmp/x",
    "a/../../b",
    "/etc/passwd",
    "/",
    "//",
    "///",
    "a//b",
    "a/",
    "/a",
    "\\..\\x",
    "C:\\x",
    "\0",
    "a\0b",
    "a\0",
    "\n",
    "a\r\nb",
    "\t",
    "\x7f",
    "\x80",
    "".join(map(chr, range(1, 32))),
    "é",  # composed and not: two names
    "e\u0301",
    "\u202e",
    "\ufeff",
    "\uffff",
    "\U0010ffff",
    "%2e%2e%2f",
    "%",
    "_",
    "*",
    "'; DROP TABLE objects_current; --",
    '"',
    "null",
    "meta.db",
    "objects/segments/x.seg",
]

BAD_KEYS = ["", "a" * 1025, "ü" * 512 + "a", "\ud800", "a\udfffb", "/" * 5000]


def bytewise(texts: list[str]) -> list[str]:
    return sorted(texts, key=str.encode)


def data_of(key: str) -> bytes:
    return b"data of " + key.encode()


def test_every_key_goes_round(tmp_path: Path) -> None:
    assert len(set(KEYS)) == len(KEYS)
    with open_lake(tmp_path / "root") as lake:
        lake.buckets.create(BUCKET)
        for key in KEYS:
            assert lake.objects.put(BUCKET, key, data_of(key)).key == key
    with open_lake(tmp_path / "root") as lake:
        assert keys(lake) == bytewise(KEYS)
        assert [key for key, _, _ in told_versions(lake)] == bytewise(KEYS)
        for key in KEYS:
            assert stored(lake, key) == data_of(key)
            assert lake.objects.head(BUCKET, key).key == key
            assert lake.objects.list(BUCKET, prefix=key, max_keys=1).items[0].key == key
        for key in KEYS[::2]:
            lake.objects.delete(BUCKET, key)
            with pytest.raises(NoSuchKey):
                lake.objects.get(BUCKET, key)
    with open_lake(tmp_path / "root") as lake:
        assert keys(lake) == bytewise(KEYS[1::2])
        for key, version_id, _ in told_versions(lake):
            lake.objects.delete(BUCKET, key, version_id=version_id)
        lake.buckets.delete(BUCKET)


def test_every_key_can_be_copied_and_uploaded_in_parts(lake: Lake) -> None:
    lake.buckets.create("other", versioning=Versioning.DISABLED)
    for key in KEYS:
        upload_id = lake.uploads.create(BUCKET, key).upload_id
        part = lake.uploads.put_part(BUCKET, key, upload_id, 1, data_of(key))
        assert [row.key for row in lake.uploads.list(BUCKET).items] == [key]
        lake.uploads.complete(BUCKET, key, upload_id, [NamedPart(1, part.etag)])
        lake.objects.copy(BUCKET, key, "other", key)
        assert stored(lake, key, bucket="other") == data_of(key)
    assert keys(lake) == keys(lake, "other") == bytewise(KEYS)


def test_every_key_is_on_one_page_when_pages_are_small(lake: Lake) -> None:
    for key in KEYS:
        lake.objects.put(BUCKET, key, b"")
    found: list[str] = []
    after = ""
    while True:
        page = lake.objects.list(BUCKET, after=after, max_keys=3)
        found += [row.key for row in page.items]
        if page.next_marker is None:
            break
        after = page.next_marker
    assert found == bytewise(KEYS)


@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda key: f"{len(key)} characters")
def test_what_can_be_no_key_is_refused(lake: Lake, key: str) -> None:
    lake.objects.put(BUCKET, "key", b"data")
    with pytest.raises(BadKey):
        lake.objects.put(BUCKET, key, b"")
    with pytest.raises(BadKey):
        lake.objects.copy(BUCKET, "key", BUCKET, key)
    with pytest.raises(BadKey):
        lake.objects.delete(BUCKET, key)
    with pytest.raises(BadKey):
        lake.uploads.create(BUCKET, key)
    with pytest.raises(NoSuchKey):
        lake.objects.get(BUCKET, key)
    with pytest.raises(NoSuchKey):
        lake.objects.copy(BUCKET, key, BUCKET, "copy")
    assert keys(lake) == ["key"]


@pytest.mark.parametrize("text", ["\ud800", "\0", "x" * 100_000, "../../x"], ids=ascii)
def test_other_names_that_are_none_harm_nobody(lake: Lake, text: str) -> None:
    """Buckets, versions, uploads and markers: whatever a request says."""
    objects, uploads = lake.objects, lake.uploads
    objects.put(BUCKET, "key", b"data")
    for attempt in (
        lambda: objects.put(text, "key", b""),
        lambda: objects.get(text, "key"),
        lambda: objects.head(BUCKET, "key", version_id=text),
        lambda: objects.copy(text, "key", BUCKET, "copy"),
        lambda: objects.copy(BUCKET, "key", BUCKET, "copy", source_version_id=text),
        lambda: objects.list(text),
        lambda: lake.buckets.get(text),
        lambda: lake.buckets.create(text),
        lambda: lake.buckets.delete(text),
        lambda: lake.buckets.set_versioning(text, Versioning.SUSPENDED),
        lambda: uploads.create(text, "key"),
        lambda: uploads.put_part(BUCKET, "key", text, 1, b""),
        lambda: uploads.abort(BUCKET, "key", text),
        lambda: uploads.complete(BUCKET, "key", text, [NamedPart(1, text)]),
    ):
        with pytest.raises(InputError):
            attempt()
        objects.put(BUCKET, "key", b"data")  # the next request is not harmed
    assert keys(lake) == ["key"]


@pytest.mark.parametrize("text", ["\ud800", "a\udfff/", "\0", "\U0010ffff" * 300], ids=ascii)
def test_pages_can_be_asked_for_with_anything(lake: Lake, text: str) -> None:
    lake.objects.put(BUCKET, "a/b", b"")
    lake.objects.put(BUCKET, "\uffff", b"")
    for listing in (lake.objects.list, lake.objects.list_versions, lake.uploads.list):
        assert listing(BUCKET, prefix=text).items == []
        listing(BUCKET, delimiter=text)
    lake.objects.list(BUCKET, after=text)
    lake.objects.list_versions(BUCKET, key_marker=text, version_id_marker="null")
    lake.uploads.list(BUCKET, key_marker=text, upload_id_marker="x")
    with pytest.raises(NoSuchUpload):
        lake.uploads.parts(BUCKET, text, "x")


def files_below(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if not path.is_dir():
            yield path.relative_to(folder).as_posix()


def test_nothing_is_made_outside_of_the_store(tmp_path: Path) -> None:
    """Nor inside of it, but segments, manifests and the metadata, named by ids."""
    root = tmp_path / "deep" / "root"
    root.mkdir(parents=True)
    known = re.compile(
        r"deep/root/(meta\.db(-wal|-shm)?|objects/segments/[0-9a-f]{24}\.seg"
        r"|objects/manifests/[0-9a-f]{2}/[0-9a-f]{32}|quarantine/.*)"
    )
    for _ in range(2):
        with open_lake(root) as lake:
            lake.buckets.create(BUCKET)
            for key in KEYS:
                lake.objects.put(BUCKET, key, data_of(key))
                lake.uploads.create(BUCKET, key)
            for key in KEYS[:20]:
                lake.objects.delete(BUCKET, key)
    strange = [path for path in files_below(tmp_path) if not known.fullmatch(path)]
    assert strange == []
    assert len(list((root / "objects" / "manifests").rglob("?" * 32))) == 2 * len(KEYS) + 40
