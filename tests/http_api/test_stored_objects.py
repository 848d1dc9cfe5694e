"""All versions of a bucket through the API, with their manifests, and the parts of its uploads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakebed.api import media
from lakebed.api import stored_objects as wire
from lakebed.base.errors import InputError
from lakebed.seglake import stored_pages
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import NoSuchBucket
from lakebed.seglake.manifest import decode
from lakebed.seglake.model import State, Versioning
from lakebed.seglake.stored_pages import parts_after
from lakebed.seglake.stored_rows import KeySample, PartPage, StoredVersions
from lakebed.store.bucket import Bucket
from tests.http_api.live_api import LiveApi, open_api, target_of
from tests.http_api.test_guard import FIRST, basic, guarding

PHOTOS = {"bucket": "photos"}
PAGES_MAX = 100  # more would never end
KEYS = ["a", "a\0", "a/1", "b", "\ue000", "\U0010ffff"]


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    config = SeglakeConfig(reserve_bytes=0, part_bytes_min=1)
    with open_api(tmp_path, object_config=config) as live_api:
        yield live_api


@pytest.fixture
def bucket(live_api: LiveApi) -> Bucket:
    """Three versions of each key, one of them a delete marker."""
    bucket = live_api.store.bucket("photos", versioning=Versioning.ENABLED)
    for number in range(2):
        for key in KEYS:
            bucket.put(key, b"%d" % number, content_type="text/plain")
    for key in KEYS:
        bucket.delete(key)
    return bucket


@pytest.fixture
def uploads(bucket: Bucket) -> list[tuple[str, str, int]]:
    """The parts of all: key, upload and number, in order."""
    made = []
    for key, numbers in (("a", [1, 3]), ("a", []), ("a", [2]), ("b", [7, 9, 10]), ("c", [])):
        upload = bucket.upload(key)
        for number in numbers:
            upload.put(number, b"part %d" % number)
            made.append((key, upload.info.upload_id, number))
    return sorted(made)


def versions(live_api: LiveApi, **query: object) -> StoredVersions:
    return live_api.call(wire.LIST_STORED_VERSIONS, PHOTOS, query)


def version_pages(live_api: LiveApi, **query: object) -> list[StoredVersions]:
    pages = [versions(live_api, **query)]
    while pages[-1].has_more:
        assert len(pages) < PAGES_MAX
        last = pages[-1].versions[-1].row
        place = {"after": last.key, "hlc": last.hlc, "site_id": last.site_id}
        pages.append(versions(live_api, **{**query, **place}))
    return pages


def part_pages(live_api: LiveApi, **query: object) -> list[PartPage]:
    pages: list[PartPage] = []
    place: dict[str, Any] = {}
    while True:
        pages.append(live_api.call(wire.LIST_STORED_PARTS, PHOTOS, {**query, **place}))
        assert len(pages) < PAGES_MAX
        found = pages[-1].next
        if found is None:
            return pages
        place = {"after": found.key, "upload_id": found.upload_id, "part": found.number}


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_versions_are_those_of_the_engine(live_api: LiveApi, bucket: Bucket, accept: str) -> None:
    found = live_api.call(wire.LIST_STORED_VERSIONS, PHOTOS, {"manifests": True}, accept=accept)
    assert not found.has_more
    expected = list(bucket.versions())
    assert len(found.versions) == len(expected) == 3 * len(KEYS)
    for one, (row, is_latest) in zip(found.versions, expected, strict=True):
        assert (one.row, one.is_latest) == (row, is_latest)
        assert one.manifest is not None
        manifest = decode(one.manifest, path="")
        assert (manifest.version_id, manifest.key) == (row.version_id, row.key)
        assert one.file_state in (0, 1)
    assert {one.row.state for one in found.versions} == {State.ACTIVE, State.DELETED}


@pytest.mark.parametrize("query", [{}, {"manifests": True}])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 18, 1000])
def test_pages_of_any_size_have_every_version_once(
    live_api: LiveApi, bucket: Bucket, size: int, query: dict[str, object]
) -> None:
    pages = version_pages(live_api, max_versions=size, **query)
    found = [one for page in pages for one in page.versions]
    expected = list(bucket.versions())
    assert [(one.row.version_id, one.is_latest) for one in found] == [
        (one.row.version_id, one.is_latest) for one in expected
    ]
    assert len(pages) == -(-len(expected) // size)
    assert all((one.manifest is not None) is bool(query) for one in found)


def test_a_page_ends_when_its_manifests_are_large(
    live_api: LiveApi, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "MANIFEST_BYTES", 1)
    pages = version_pages(live_api, manifests=True)
    assert [len(page.versions) for page in pages] == [1] * len(list(bucket.versions()))
    assert len(version_pages(live_api)) == 1


def test_a_prefix_and_a_marker_leave_the_rest_out(live_api: LiveApi, bucket: Bucket) -> None:
    assert bucket.name == "photos"

    def keys(**query: object) -> list[str]:
        return [one.row.key for one in versions(live_api, **query).versions[::3]]

    assert keys(prefix="a") == ["a", "a\0", "a/1"]
    assert keys(after="a\0") == KEYS[2:]
    assert keys(prefix="a", after="a") == ["a\0", "a/1"]
    assert keys(prefix="b", after="a") == ["b"]
    assert keys(prefix="a", after="c") == keys(prefix="none") == keys(after="\U0010ffff") == []
    outside = versions(live_api, prefix="b", after="a", hlc="z", site_id="z").versions
    assert [one.row.key for one in outside[::3]] == ["b"], "the marker's key is not of the prefix"


def test_a_version_that_was_told_and_is_removed_hides_no_other(
    live_api: LiveApi, bucket: Bucket
) -> None:
    expected = [one.row.version_id for one in bucket.versions()]
    found = []
    place: dict[str, object] = {}
    while page := versions(live_api, max_versions=1, **place).versions:
        one = page[0].row
        found.append(one.version_id)
        bucket.delete(one.key, version_id=one.version_id)
        bucket.put(one.key, b"newer, and not told again")
        place = {"after": one.key, "hlc": one.hlc, "site_id": one.site_id}
    assert found == expected


def test_a_bucket_without_versioning_tells_its_null_versions(live_api: LiveApi) -> None:
    bucket = live_api.store.bucket("photos", versioning=Versioning.DISABLED)
    bucket.put("a", b"1")
    bucket.put("a", b"2")
    (one,) = versions(live_api).versions
    assert (one.row.is_null, one.is_latest) == (True, True)
    assert one.row.version_id == bucket.head("a").version_id


@pytest.mark.parametrize("size", [1, 2, 4, 6, 1000])
def test_parts_are_told_once_in_pages_of_any_size(
    live_api: LiveApi, uploads: list[tuple[str, str, int]], size: int
) -> None:
    pages = part_pages(live_api, max_parts=size)
    found = [one for page in pages for one in page.parts]
    assert [(one.key, one.row.upload_id, one.row.number) for one in found] == uploads
    assert all(len(page.parts) <= size for page in pages)
    for one in found:
        manifest = decode(one.row.chunks, path="")
        assert (manifest.size, manifest.etag) == (one.row.size, one.row.etag)
        assert one.row.size == len(b"part %d" % one.row.number)


def test_parts_of_some_keys_alone(live_api: LiveApi, uploads: list[tuple[str, str, int]]) -> None:
    def told(**query: object) -> list[tuple[str, str, int]]:
        parts = [one for page in part_pages(live_api, **query) for one in page.parts]
        return [(one.key, one.row.upload_id, one.row.number) for one in parts]

    assert told(prefix="b") == told(after="a") == [one for one in uploads if one[0] == "b"]
    assert told(after="b") == told(prefix="none") == []


def test_an_upload_that_ends_while_it_is_told_ends(
    live_api: LiveApi, bucket: Bucket, uploads: list[tuple[str, str, int]]
) -> None:
    (first,) = live_api.call(wire.LIST_STORED_PARTS, PHOTOS, {"max_parts": 1}).parts
    upload_id = first.row.upload_id
    live_api.store.lake.uploads.abort(bucket.name, first.key, upload_id)
    query = {"after": first.key, "upload_id": upload_id, "part": first.row.number}
    rest = live_api.call(wire.LIST_STORED_PARTS, PHOTOS, query).parts
    assert [(one.key, one.row.upload_id, one.row.number) for one in rest] == [
        one for one in uploads if one[1] > upload_id or one[0] > first.key
    ]
    other = uploads[-1][1]
    stolen = {"after": "a", "upload_id": other, "part": 0}
    found = live_api.call(wire.LIST_STORED_PARTS, PHOTOS, stolen).parts
    assert all(one.key != "a" or one.row.upload_id > other for one in found)


def test_many_uploads_without_parts_are_stepped_over_a_page_at_a_time(
    live_api: LiveApi, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        bucket.upload("a")
    bucket.upload("b").put(1, b"part")
    for count, told in ((1, [0, 0, 0, 0, 0, 1, 0]), (2, [0, 0, 1, 0]), (1000, [1])):
        few = partial(parts_after, uploads_max=count)
        monkeypatch.setattr(stored_pages, "parts_after", few)
        assert [len(page.parts) for page in part_pages(live_api)] == told


@pytest.mark.parametrize("operation", [wire.LIST_STORED_VERSIONS, wire.LIST_STORED_PARTS])
def test_what_is_wrong_is_told(live_api: LiveApi, bucket: Bucket, operation: Any) -> None:
    assert bucket.name == "photos"
    for name in ("none", "..", "a/b"):
        with pytest.raises(NoSuchBucket):
            live_api.call(operation, {"bucket": name})
    maximum = "max_versions" if operation is wire.LIST_STORED_VERSIONS else "max_parts"
    for wrong in ({maximum: 0}, {maximum: 1001}, {maximum: "x"}, {"key": "a"}, {"part": -1}):
        with pytest.raises(InputError):
            live_api.call(operation, PHOTOS, wrong)
    assert [one.name for one in live_api.store.buckets()] == ["photos"]


def test_a_sample_of_nothing_is_empty_and_of_something_in_order(live_api: LiveApi) -> None:
    assert live_api.call(wire.SAMPLE_KEYS) == KeySample([], 0)
    assert live_api.store.buckets() == []
    for name in ("photos", "others"):
        for key in KEYS:
            live_api.store.bucket(name).put(key, b"1")
    found = live_api.call(wire.SAMPLE_KEYS, query={"only_current": True})
    assert [(one.bucket, one.key) for one in found.keys] == [
        (name, key) for name in ("others", "photos") for key in KEYS
    ]
    assert len(KEYS) * 2 <= found.row_count <= len(KEYS) * 2 + 2
    for wrong in ({"only_current": "maybe"}, {"bucket": "photos"}):
        with pytest.raises(InputError):
            live_api.call(wire.SAMPLE_KEYS, query=wrong)


@pytest.mark.parametrize("operation", wire.OPERATIONS)
def test_without_a_key_nothing_is_told(tmp_path: Path, operation: Any) -> None:
    with open_api(tmp_path, make_guard=guarding()) as live_api:
        live_api.store.bucket("photos").put("a", b"1")
        target = target_of(operation, PHOTOS)
        assert live_api.ask("GET", target).status == 401
        assert live_api.ask("GET", target, headers=basic("root", "wrong")).status == 401
        assert live_api.ask("GET", target, headers=basic(*FIRST)).status == 200
