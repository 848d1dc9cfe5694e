"""Buckets: their three states of versioning, and when they may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.seglake import buckets
from lakebed.seglake.errors import (
    BadBucketName,
    BadState,
    BucketExists,
    BucketNotEmpty,
    NoSuchBucket,
    NoSuchKey,
    NoSuchUpload,
)
from lakebed.seglake.lake import Lake
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import State, Versioning
from tests.seglake.lakes import BUCKET, add_bucket, open_lake, told_versions


def test_buckets_are_listed_by_name(lake: Lake) -> None:
    for name in ("zebra", "ant", "cat.dog", "cat-dog"):
        lake.buckets.create(name)
    assert [found.name for found in lake.buckets.list()] == [
        "ant",
        "cat-dog",
        "cat.dog",
        BUCKET,
        "zebra",
    ]


def test_a_new_bucket_is_versioned_unless_asked_for_otherwise(lake: Lake) -> None:
    assert lake.buckets.create("ant").versioning is Versioning.ENABLED
    other = lake.buckets.create("bee", versioning=Versioning.DISABLED)
    assert other.versioning is Versioning.DISABLED
    assert lake.buckets.get("bee") == other


def test_the_configuration_says_what_a_new_bucket_is(tmp_path: Path) -> None:
    with open_lake(tmp_path, default_versioning="unversioned") as lake:
        assert lake.buckets.create("ant").versioning is Versioning.DISABLED
        asked = lake.buckets.create("bee", versioning=Versioning.ENABLED)
        assert asked.versioning is Versioning.ENABLED


@pytest.mark.parametrize("versioning", list(Versioning))
def test_creating_it_again_changes_nothing(lake: Lake, versioning: Versioning) -> None:
    add_bucket(lake, versioning, "ant")
    lake.objects.put("ant", "key", b"data")
    before = lake.buckets.get("ant")
    assert lake.buckets.create("ant") == before
    if versioning is not Versioning.SUSPENDED:
        assert lake.buckets.create("ant", versioning=versioning) == before
    assert lake.objects.get("ant", "key").read() == b"data"


def test_creating_it_again_as_another_is_refused(lake: Lake) -> None:
    with pytest.raises(BucketExists):
        lake.buckets.create(BUCKET, versioning=Versioning.DISABLED)
    lake.buckets.set_versioning(BUCKET, Versioning.SUSPENDED)
    with pytest.raises(BucketExists):
        lake.buckets.create(BUCKET, versioning=Versioning.ENABLED)
    assert lake.buckets.get(BUCKET).versioning is Versioning.SUSPENDED


@pytest.mark.parametrize(
    ("versioning", "word"),
    [
        (Versioning.ENABLED, "enabled"),
        (Versioning.SUSPENDED, "suspended"),
        (Versioning.DISABLED, "unversioned"),
    ],
)
def test_the_versioning_of_an_existing_bucket_is_named_as_in_settings(
    lake: Lake, versioning: Versioning, word: str
) -> None:
    add_bucket(lake, versioning, "ant")
    is_enabled = versioning is Versioning.ENABLED
    other = Versioning.DISABLED if is_enabled else Versioning.ENABLED
    with pytest.raises(BucketExists, match=f"bucket ant already exists with versioning {word}$"):
        lake.buckets.create("ant", versioning=other)


def test_a_bucket_is_not_born_suspended(lake: Lake) -> None:
    with pytest.raises(BadState):
        lake.buckets.create("ant", versioning=Versioning.SUSPENDED)
    with pytest.raises(NoSuchBucket):
        lake.buckets.get("ant")


@pytest.mark.parametrize("first", list(Versioning))
def test_versioning_goes_to_and_fro_but_never_back_to_disabled(
    lake: Lake, first: Versioning
) -> None:
    add_bucket(lake, first, "ant")
    for state in (Versioning.ENABLED, Versioning.SUSPENDED, Versioning.SUSPENDED) * 2:
        assert lake.buckets.set_versioning("ant", state).versioning is state
        assert lake.buckets.get("ant").versioning is state
        with pytest.raises(BadState):
            lake.buckets.set_versioning("ant", Versioning.DISABLED)
        assert lake.buckets.get("ant").versioning is state


def test_a_state_keeps_the_time_of_creation(lake: Lake) -> None:
    before = lake.buckets.get(BUCKET).created_ms
    assert lake.buckets.set_versioning(BUCKET, Versioning.SUSPENDED).created_ms == before
    assert lake.buckets.get(BUCKET).created_ms == before


@pytest.mark.parametrize("name", ["", "ab", "UPPER", "a..b", "192.168.0.1", "../ant", "a\0b"])
def test_names_that_s3_refuses_are_refused(lake: Lake, name: str) -> None:
    with pytest.raises(BadBucketName):
        lake.buckets.create(name)
    with pytest.raises(NoSuchBucket):
        lake.buckets.get(name)


def test_what_is_not_there_can_neither_be_changed_nor_used(lake: Lake) -> None:
    with pytest.raises(NoSuchBucket):
        lake.buckets.delete("ant")
    with pytest.raises(NoSuchBucket):
        lake.buckets.set_versioning("ant", Versioning.ENABLED)
    with pytest.raises(NoSuchBucket):
        lake.objects.put("ant", "key", b"")
    with pytest.raises(NoSuchBucket):
        lake.objects.get("ant", "key")
    with pytest.raises(NoSuchBucket):
        lake.objects.head("ant", "key", version_id="null")
    with pytest.raises(NoSuchBucket):
        lake.objects.delete("ant", "key")
    with pytest.raises(NoSuchBucket):
        lake.objects.delete("ant", "key", version_id="null")
    with pytest.raises(NoSuchBucket):
        lake.objects.delete_many("ant", [])
    with pytest.raises(NoSuchBucket):
        lake.objects.list("ant")
    with pytest.raises(NoSuchBucket):
        lake.objects.list_versions("ant")
    with pytest.raises(NoSuchBucket):
        lake.uploads.create("ant", "key")
    with pytest.raises(NoSuchBucket):
        lake.uploads.list("ant")


@pytest.mark.parametrize("versioning", list(Versioning))
def test_a_bucket_with_an_object_is_not_empty(lake: Lake, versioning: Versioning) -> None:
    add_bucket(lake, versioning, "ant")
    lake.objects.put("ant", "key", b"")
    with pytest.raises(BucketNotEmpty):
        lake.buckets.delete("ant")
    assert lake.objects.head("ant", "key").size == 0


def test_old_versions_behind_a_marker_still_count(lake: Lake) -> None:
    first = lake.objects.put(BUCKET, "key", b"1").version_id
    lake.objects.delete(BUCKET, "key")
    with pytest.raises(BucketNotEmpty):
        lake.buckets.delete(BUCKET)
    lake.objects.delete(BUCKET, "key", version_id=first)
    lake.buckets.delete(BUCKET)


def test_uploads_under_way_are_aborted_with_their_bucket(lake: Lake) -> None:
    upload = lake.uploads.create(BUCKET, "key")
    lake.uploads.put_part(BUCKET, "key", upload.upload_id, 1, b"part")
    lake.buckets.delete(BUCKET)
    lake.buckets.create(BUCKET)
    assert lake.uploads.list(BUCKET).items == []
    with pytest.raises(NoSuchUpload):
        lake.uploads.put_part(BUCKET, "key", upload.upload_id, 2, b"part")
    with lake.metadata.snapshot() as reader:
        assert reader.parts_by_id() == []


def test_many_delete_markers_are_removed_in_bounded_transactions(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "ROWS_AT_ONCE", 4)
    for number in range(10):
        lake.objects.delete(BUCKET, f"key {number % 5}")
    steps = [lake.buckets.deletion(BUCKET).run() for _ in range(2)]
    assert steps == [False, False]
    left = lake.objects.list_versions(BUCKET).items
    assert len(left) == 2, "four at a time"
    lake.buckets.delete(BUCKET)
    lake.buckets.create(BUCKET)
    assert lake.objects.list_versions(BUCKET).items == []


def test_many_uploads_are_aborted_in_bounded_transactions(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "ROWS_AT_ONCE", 4)
    for key in "abcdef":
        upload = lake.uploads.create(BUCKET, key)
        lake.uploads.put_part(BUCKET, key, upload.upload_id, 1, b"part")
    left = []
    while not lake.buckets.deletion(BUCKET).run():
        left.append([upload.key for upload in lake.uploads.list(BUCKET).items])
    assert left == [["c", "d", "e", "f"], ["e", "f"], []]
    with lake.metadata.snapshot() as reader:
        assert reader.parts_by_id() == []


def test_delete_markers_are_counted_once_however_many_transactions_remove_them(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "ROWS_AT_ONCE", 4)
    for number in range(40):
        lake.objects.delete(BUCKET, f"key {number}")
    monkeypatch.setattr(Writer, "is_empty", _not_in_a_transaction)
    lake.buckets.delete(BUCKET)
    assert lake.buckets.list() == []


def _not_in_a_transaction(*_: object) -> bool:
    raise AssertionError("it reads all delete markers")


@pytest.mark.parametrize("markers", range(3, 10))
def test_a_version_that_comes_while_a_bucket_is_deleted_keeps_its_marker(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, markers: int
) -> None:
    monkeypatch.setattr(buckets, "ROWS_AT_ONCE", 4)
    for number in range(markers):
        lake.objects.delete(BUCKET, f"key {number}")
    lake.buckets.check_deletable(BUCKET)
    lake.objects.put(BUCKET, "late", b"1")
    lake.objects.delete(BUCKET, "late")
    with pytest.raises(BucketNotEmpty):
        _go_on_deleting(lake)
    page = lake.objects.list_versions(BUCKET, prefix="late")
    assert [row.state for row, _ in page.items] == [State.DELETED, State.ACTIVE]


def _go_on_deleting(lake: Lake) -> None:
    while not lake.buckets.deletion(BUCKET).run():
        pass


def test_a_bucket_that_gets_an_object_while_it_is_deleted_stays(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "ROWS_AT_ONCE", 4)
    upload = lake.uploads.create(BUCKET, "key")
    for number in range(5):
        lake.objects.delete(BUCKET, f"key {number}")
    assert not lake.buckets.deletion(BUCKET).run()
    lake.objects.put(BUCKET, "new", b"")
    with pytest.raises(BucketNotEmpty):
        lake.buckets.delete(BUCKET)
    assert lake.uploads.parts(BUCKET, "key", upload.upload_id).parts == [], "it goes on"


def test_delete_markers_go_with_their_bucket(lake: Lake) -> None:
    lake.objects.delete(BUCKET, "never there")
    lake.objects.delete(BUCKET, "never there")
    lake.buckets.set_versioning(BUCKET, Versioning.SUSPENDED)
    lake.objects.delete(BUCKET, "never there")
    lake.buckets.delete(BUCKET)
    with pytest.raises(NoSuchBucket):
        lake.buckets.get(BUCKET)
    assert lake.buckets.list() == []
    lake.buckets.create(BUCKET)
    assert told_versions(lake) == []
    with pytest.raises(NoSuchKey):
        lake.objects.get(BUCKET, "never there")


def test_a_name_can_be_used_again_in_another_state(lake: Lake) -> None:
    lake.buckets.delete(BUCKET)
    lake.buckets.create(BUCKET, versioning=Versioning.DISABLED)
    assert lake.buckets.get(BUCKET).versioning is Versioning.DISABLED


def test_objects_of_other_buckets_do_not_count(lake: Lake) -> None:
    lake.buckets.create("photo")
    lake.buckets.create("photos2")
    lake.objects.put("photo", "s/key", b"")
    lake.objects.put("photos2", "key", b"")
    lake.buckets.delete(BUCKET)
    assert [found.name for found in lake.buckets.list()] == ["photo", "photos2"]


def test_buckets_are_there_after_reopening(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        for state in Versioning:
            add_bucket(lake, state, f"bucket-{state.value}")
        lake.buckets.create("gone")
        lake.buckets.delete("gone")
        before = lake.buckets.list()
    with open_lake(tmp_path) as lake:
        assert lake.buckets.list() == before
