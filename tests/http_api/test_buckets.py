"""Buckets through the API: created, listed, versioned, deleted; and their objects in pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lakebed.api import media, objects
from lakebed.api.objects import NewBucket, SetVersioning
from lakebed.base.errors import InputError
from lakebed.seglake.errors import (
    BadBucketName,
    BadState,
    BucketExists,
    BucketNotEmpty,
    NoSuchBucket,
)
from lakebed.seglake.model import State, Versioning
from tests.http_api.live_api import LiveApi, open_api

PHOTOS = {"bucket": "photos"}


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as live_api:
        yield live_api


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_a_bucket_is_ensured_listed_described_and_deleted(live_api: LiveApi, accept: str) -> None:
    made = live_api.call(objects.ENSURE_BUCKET, PHOTOS, accept=accept)
    assert (made.name, made.versioning) == ("photos", Versioning.ENABLED), "as the store says"
    assert live_api.call(objects.ENSURE_BUCKET, PHOTOS, accept=accept) == made
    assert live_api.call(objects.DESCRIBE_BUCKET, PHOTOS, accept=accept) == made
    assert live_api.call(objects.LIST_BUCKETS, accept=accept).buckets == [made]
    assert [bucket.name for bucket in live_api.store.buckets()] == ["photos"]
    live_api.call(objects.DELETE_BUCKET, PHOTOS, accept=accept)
    assert live_api.call(objects.LIST_BUCKETS, accept=accept).buckets == []
    for operation in (objects.DESCRIBE_BUCKET, objects.DELETE_BUCKET, objects.LIST_OBJECTS):
        with pytest.raises(NoSuchBucket):
            live_api.call(operation, PHOTOS)


def test_versioning_is_chosen_and_changed(live_api: LiveApi) -> None:
    for word in ("unversioned", "disabled"):
        made = live_api.call(objects.ENSURE_BUCKET, PHOTOS, body={"versioning": word})
        assert made.versioning is Versioning.DISABLED
    with pytest.raises(BucketExists):
        live_api.call(objects.ENSURE_BUCKET, PHOTOS, body=NewBucket(Versioning.ENABLED))
    for word in ("enabled", "suspended", "enabled"):
        changed = live_api.call(objects.SET_VERSIONING, PHOTOS, body={"versioning": word})
        assert changed.versioning.value == word
    with pytest.raises(BadState):
        live_api.call(objects.SET_VERSIONING, PHOTOS, body={"versioning": "unversioned"})
    with pytest.raises(BadState):
        live_api.call(objects.ENSURE_BUCKET, {"bucket": "other"}, body={"versioning": "suspended"})
    for wrong in ("Enabled", "", "x" * 500):
        with pytest.raises(InputError, match="versioning"):
            live_api.call(objects.SET_VERSIONING, PHOTOS, body={"versioning": wrong})
    with pytest.raises(NoSuchBucket):
        live_api.call(
            objects.SET_VERSIONING, {"bucket": "none"}, body=SetVersioning(Versioning.ENABLED)
        )


@pytest.mark.parametrize("name", ["a", "UPPER", "..", "a..b", "a/b", "ü" * 5, "\0\0\0", "1.2.3.4"])
def test_a_name_that_is_none_is_refused(live_api: LiveApi, name: str) -> None:
    with pytest.raises(BadBucketName):
        live_api.call(objects.ENSURE_BUCKET, {"bucket": name})
    with pytest.raises(NoSuchBucket):
        live_api.call(objects.DESCRIBE_BUCKET, {"bucket": name})
    assert live_api.store.buckets() == []


def test_a_bucket_with_objects_is_not_deleted(live_api: LiveApi) -> None:
    live_api.store.bucket("photos").put("a", b"1")
    with pytest.raises(BucketNotEmpty):
        live_api.call(objects.DELETE_BUCKET, PHOTOS)
    assert live_api.ask("DELETE", "/v1/buckets/photos").status == 409


def test_objects_are_listed_in_pages_and_by_prefixes(live_api: LiveApi) -> None:
    bucket = live_api.store.bucket("photos")
    keys = [f"{year}/{number}" for year in (2024, 2025) for number in range(5)] + ["top"]
    for key in keys:
        bucket.put(key, key.encode(), content_type="text/plain")
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = live_api.call(objects.LIST_OBJECTS, PHOTOS, {"after": after, "max_keys": 4})
        found += [one.key for one in page.items]
        after = page.next_marker
    assert found == keys
    page = live_api.call(objects.LIST_OBJECTS, PHOTOS, {"delimiter": "/"})
    assert (page.prefixes, [one.key for one in page.items]) == (["2024/", "2025/"], ["top"])
    (one,) = live_api.call(objects.LIST_OBJECTS, PHOTOS, {"prefix": "2025/3"}).items
    info = bucket.head("2025/3")
    assert (one.version_id, one.etag, one.size) == (info.version_id, info.etag, 6)
    assert (one.content_type, one.state, one.is_null) == ("text/plain", State.ACTIVE, False)
    for wrong in ({"max_keys": 0}, {"max_keys": 1001}, {"max_keys": "x"}, {"marker": "a"}):
        with pytest.raises(InputError):
            live_api.call(objects.LIST_OBJECTS, PHOTOS, wrong)


@pytest.mark.parametrize("body", [b"[]", b'{"versioning": 1}', b'{"other": 1}', b"{", b"\xff"])
def test_a_wrong_document_changes_nothing(live_api: LiveApi, body: bytes) -> None:
    for method in ("PUT", "PATCH"):
        assert live_api.ask(method, "/v1/buckets/photos", body).status == 400
    packed = msgspec.msgpack.encode({"versioning": b"enabled"})
    headers = {"Content-Type": media.MSGPACK}
    assert live_api.ask("PUT", "/v1/buckets/photos", packed, headers).status == 400
    assert live_api.store.buckets() == []
