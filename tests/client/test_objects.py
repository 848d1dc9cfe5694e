"""Buckets, objects and keys: the same embedded, over the socket and over TCP."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.base.errors import InputError, LakebedError
from lakebed.base.units import MIB
from lakebed.client.store import RemoteStore
from lakebed.seglake.errors import (
    BadRange,
    BucketExists,
    BucketNotEmpty,
    NoSuchAccessKey,
    NoSuchBucket,
    NoSuchKey,
    NoSuchVersion,
    PreconditionFailed,
)
from lakebed.seglake.model import Algorithm, Content, ObjectToDelete, State, Versioning
from lakebed.seglake.ranges import ByteRange
from lakebed.store.store import Store
from tests.http_api.live_api import LiveApi

KEY = "/2025//ä ?#%.jpg"


def test_objects_are_stored_and_read_with_all_that_is_kept_with_them(store: Any) -> None:
    bucket = store.bucket("photos")
    content = Content(
        content_type="image/jpeg", cache_control="no-store", metadata={"who": "ä", "b": "2"}
    )
    put = bucket.put(KEY, b"0123456789", content=content, algorithm=Algorithm.SHA256)
    assert (put.key, put.size, put.is_latest) == (KEY, 10, True)
    assert put.content == content
    assert put.checksums[0].algorithm is Algorithm.SHA256
    assert bucket.head(KEY) == put
    assert bucket.read(KEY) == b"0123456789"
    reader = bucket.get(KEY)
    assert (reader.info, len(reader), reader.read()) == (put, 10, b"0123456789")
    assert bucket.get(KEY, byte_range=ByteRange(2, 4)).read() == b"234"
    assert bucket.get(KEY, byte_range=ByteRange(None, 3)).read() == b"789"
    assert reader.between(1, 2).read() == b"1"
    with pytest.raises(BadRange):
        bucket.get(KEY, byte_range=ByteRange(10))
    assert bucket.put("empty", b"").size == 0
    assert (bucket.read("empty"), bucket.get("empty").read()) == (b"", b"")
    for missing in (bucket.read, bucket.head, bucket.get):
        with pytest.raises(NoSuchKey):
            missing("missing")


@pytest.mark.parametrize("size", [10, 3 * MIB])
def test_bodies_come_as_bytes_files_and_pieces(store: Any, size: int) -> None:
    bucket, data = store.bucket("photos"), bytes(range(256)) * (size // 256 + 1)

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(data), 100_000):
            yield data[start : start + 100_000]

    for source in (data, bytearray(data), memoryview(data), io.BytesIO(data), pieces()):
        assert bucket.put("x", source).size == len(data)
        assert bucket.read("x") == data
    with pytest.raises(InputError, match="it contains str"):
        bucket.put("x", ["text"])
    with pytest.raises(OSError, match="the caller's disk"):
        bucket.put("x", broken())
    assert bucket.read("x") == data


def broken() -> Iterator[bytes]:
    yield b"x" * (2 * MIB)
    raise OSError("the caller's disk")


def test_conditions_are_kept(store: Any) -> None:
    bucket = store.bucket("photos")
    first = bucket.put("x", b"1", if_none_match="*")
    with pytest.raises(PreconditionFailed):
        bucket.put("x", b"2", if_none_match="*")
    with pytest.raises(PreconditionFailed):
        bucket.put("x", b"2", if_match="0" * 32)
    bucket.put("x", b"2", if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        bucket.delete("x", if_match=first.etag)
    assert bucket.read("x") == b"2"


def test_versions_and_deletes(store: Any) -> None:
    bucket = store.bucket("photos", versioning=Versioning.ENABLED)
    with pytest.raises(BucketExists):
        store.bucket("photos", versioning=Versioning.DISABLED)
    old, new = bucket.put("x", b"old"), bucket.put("x", b"new")
    assert bucket.read("x", version_id=old.version_id) == b"old"
    assert bucket.get("x", version_id=old.version_id).read() == b"old"
    marker = bucket.delete("x")
    assert (marker.key, marker.is_marker) == ("x", True)
    with pytest.raises(NoSuchKey):
        bucket.read("x")
    bucket.delete("x", version_id=marker.version_id)
    assert bucket.head("x").version_id == new.version_id
    outcomes = bucket.delete_many(["x", ObjectToDelete("x", old.version_id), "", "never there"])
    assert [getattr(one, "key", None) for one in outcomes] == ["x", "x", None, "never there"]
    assert isinstance(outcomes[2], LakebedError)
    assert bucket.set_versioning(Versioning.SUSPENDED).versioning is Versioning.SUSPENDED
    assert bucket.info.versioning is Versioning.SUSPENDED


def test_listings_go_page_by_page(store: Any) -> None:
    bucket = store.bucket("photos")
    for name in ("a/1", "a/2", "b/1", "c"):
        bucket.put(name, b"x")
    assert [one.key for one in bucket.list()] == ["a/1", "a/2", "b/1", "c"]
    assert [one.key for one in bucket.list("a/", after="a/1")] == ["a/2"]
    page = bucket.list_page(delimiter="/", max_keys=2)
    assert (page.prefixes, [one.key for one in page.items]) == (["a/", "b/"], [])
    assert page.next_marker is not None
    rest = bucket.list_page(delimiter="/", after=page.next_marker)
    assert ([one.key for one in rest.items], rest.next_marker) == (["c"], None)
    row = next(iter(bucket.list()))
    assert (row.bucket, row.size, row.etag) == ("photos", 1, bucket.head("a/1").etag)


def test_copies_and_versions_are_as_embedded(store: Any) -> None:
    bucket, other = store.bucket("photos"), store.bucket("others")
    old, new = bucket.put("x", b"old", content_type="text/plain"), bucket.put("x", b"new")
    copied = bucket.copy("x", "y", version_id=old.version_id, if_none_match="*")
    assert (copied.key, copied.etag, copied.content) == ("y", old.etag, old.content)
    assert bucket.read("y") == b"old"
    with pytest.raises(PreconditionFailed):
        bucket.copy("x", "y", if_none_match="*")
    described = bucket.copy("x", "z", bucket="others", content=Content(metadata={"owner": "me"}))
    assert (described.bucket, described.content.metadata) == ("others", {"owner": "me"})
    assert other.read("z") == b"new"
    bucket.delete("y")
    found = [(one.row.key, one.row.state, one.is_latest) for one in bucket.versions()]
    assert found == [
        ("x", State.ACTIVE, True),
        ("x", State.ACTIVE, False),
        ("y", State.DELETED, True),
        ("y", State.ACTIVE, False),
    ]
    ids = [one.row.version_id for one in bucket.versions("x")]
    assert ids == [new.version_id, old.version_id]
    with pytest.raises(InputError):
        bucket.copy("x", "y", content=Content(metadata={"a": "\n"}))


def test_buckets_are_listed_and_deleted(store: Any) -> None:
    bucket = store.bucket("photos")
    assert [one.name for one in store.buckets()] == ["photos"]
    bucket.put("x", b"1")
    with pytest.raises(BucketNotEmpty):
        store.delete_bucket("photos")
    with pytest.raises(NoSuchBucket):
        store.delete_bucket("others")
    with pytest.raises(InputError):
        store.bucket("NO")


def test_keys_are_created_listed_and_disabled(store: Any) -> None:
    keys = store.lake.keys if isinstance(store, Store) else store.keys
    created = keys.create(label="backup", inflight_max=3)
    assert created.secret not in repr(created)
    assert (created.info.label, created.info.inflight_max) == ("backup", 3)
    name = created.info.access_key
    assert keys.get(name) == created.info
    assert keys.disable(name).is_enabled is False
    assert keys.enable(name).is_enabled is True
    assert [one.access_key for one in keys.list()] == [name]
    for call in (keys.get, keys.disable):
        with pytest.raises(NoSuchAccessKey):
            call("LAKENOBODY")


@pytest.mark.parametrize("content", [b"new", b"n", b"", None])
def test_an_object_that_was_replaced_before_it_is_read_no_longer_exists(
    remote: RemoteStore, content: bytes | None
) -> None:
    """`content` is that of the new object; None: the object was removed."""
    bucket = remote.bucket("photos", versioning=Versioning.DISABLED)
    bucket.put("x", b"old")
    reader = bucket.get("x", byte_range=ByteRange(1, 2))
    if content is None:
        bucket.delete("x")
    else:
        bucket.put("x", content)
        assert bucket.get("x").read() == content
    for _ in range(2):
        with pytest.raises(NoSuchVersion):
            reader.read()


def test_an_object_that_a_delete_marker_replaced_no_longer_exists(remote: RemoteStore) -> None:
    bucket = remote.bucket("photos")
    bucket.set_versioning(Versioning.SUSPENDED)
    bucket.put("x", b"old")
    reader = bucket.get("x")
    assert bucket.delete("x").is_marker
    with pytest.raises(NoSuchVersion, match="photos/'x': this version was replaced"):
        reader.read()


def test_an_embedded_object_is_still_read_after_it_was_replaced(live_api: LiveApi) -> None:
    bucket = live_api.store.bucket("photos", versioning=Versioning.DISABLED)
    bucket.put("x", b"old")
    reader = bucket.get("x")
    bucket.put("x", b"new")
    assert reader.read() == b"old"
    bucket.delete("x")
    assert reader.read() == b"old"


def test_a_range_is_cut_at_the_end_of_the_object(store: Any) -> None:
    bucket = store.bucket("photos")
    bucket.put("x", b"0123456789")
    reader = bucket.get("x", byte_range=ByteRange(0, 1))
    assert (reader.between(8, 20).read(), reader.between(10, 20).read()) == (b"89", b"")


def test_memory_stays_bounded_whatever_the_size(live_api: LiveApi, remote: RemoteStore) -> None:
    size = 64 * MIB

    def pieces() -> Iterator[bytes]:
        piece = bytes(MIB)
        for _ in range(size // MIB):
            yield piece

    bucket = remote.bucket("photos")
    assert bucket.put("large", pieces()).size == size
    tracemalloc.start()
    try:
        assert sum(map(len, bucket.get("large"))) == size
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size // 2, "the server's share is in this process, too"
