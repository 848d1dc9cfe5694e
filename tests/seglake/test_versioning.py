"""Versions: what writes and deletes leave behind in each of the three states."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from lakebed.base.clock import NS_PER_MS, NS_PER_S, SystemClock
from lakebed.seglake.errors import (
    MethodNotAllowed,
    NoSuchKey,
    NoSuchVersion,
    PreconditionFailed,
)
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import NULL_VERSION, Condition, Deleted, State, Versioning
from tests.seglake.lakes import BUCKET, add_bucket, keys, open_lake, stored, told_versions


class MovableClock(SystemClock):
    """The machine's clocks, with a wall clock that can be put back."""

    def __init__(self) -> None:
        self.back_ns = 0

    def wall_ns(self) -> int:
        return super().wall_ns() - self.back_ns


def put(lake: Lake, data: bytes, key: str = "key") -> str:
    """Its version id as it is told."""
    return lake.objects.put(BUCKET, key, data).shown_version_id


def delete(lake: Lake, key: str = "key") -> str:
    """The marker's version id as it is told."""
    version_id = lake.objects.delete(BUCKET, key).version_id
    assert version_id is not None
    return version_id


def versions(lake: Lake) -> list[str]:
    """Of the only key, the newest first; also checks that this one is told to be the latest."""
    found = told_versions(lake)
    assert [is_latest for _, _, is_latest in found] == [index == 0 for index in range(len(found))]
    return [version_id for _, version_id, _ in found]


def suspend(lake: Lake) -> None:
    lake.buckets.set_versioning(BUCKET, Versioning.SUSPENDED)


def enable(lake: Lake) -> None:
    lake.buckets.set_versioning(BUCKET, Versioning.ENABLED)


def check_hidden(lake: Lake, marker_id: str | None) -> None:
    """There is no object, because of that marker."""
    for read in (lake.objects.get, lake.objects.head):
        with pytest.raises(NoSuchKey) as caught:
            read(BUCKET, "key")
        assert caught.value.marker_id == marker_id
    assert keys(lake) == []


# Enabled.


def test_every_write_is_a_version_of_its_own(lake: Lake) -> None:
    ids = [put(lake, data) for data in (b"1", b"2", b"2", b"")]
    assert versions(lake) == ids[::-1]
    assert all(len(version_id) == 32 and int(version_id, 16) for version_id in ids)
    assert stored(lake, "key") == b""
    for version_id, data in zip(ids, (b"1", b"2", b"2", b""), strict=True):
        assert stored(lake, "key", version_id=version_id) == data
        info = lake.objects.head(BUCKET, "key", version_id=version_id)
        assert info.version_id == info.shown_version_id == version_id
        assert info.is_latest == (version_id == ids[-1])
        assert not info.is_null
    with pytest.raises(NoSuchVersion):
        lake.objects.get(BUCKET, "key", version_id=NULL_VERSION)


def test_a_delete_puts_a_marker_on_top(lake: Lake) -> None:
    first = put(lake, b"1")
    deleted = lake.objects.delete(BUCKET, "key")
    marker = deleted.version_id
    assert marker is not None
    assert deleted == Deleted("key", marker, is_marker=True)
    check_hidden(lake, marker)
    assert versions(lake) == [marker, first]
    assert stored(lake, "key", version_id=first) == b"1"
    assert not lake.objects.head(BUCKET, "key", version_id=first).is_latest


def test_a_marker_can_be_deleted_and_nothing_else(lake: Lake) -> None:
    put(lake, b"1")
    marker = delete(lake)
    for read in (lake.objects.get, lake.objects.head):
        with pytest.raises(MethodNotAllowed) as caught:
            read(BUCKET, "key", version_id=marker)
        assert caught.value.marker_id == marker
    with pytest.raises(MethodNotAllowed):
        lake.objects.copy(BUCKET, "key", BUCKET, "other", source_version_id=marker)
    deleted = lake.objects.delete(BUCKET, "key", version_id=marker)
    assert deleted == Deleted("key", marker, is_marker=True)
    assert stored(lake, "key") == b"1"


def test_markers_pile_up_where_nothing_is(lake: Lake) -> None:
    markers = [delete(lake) for _ in range(3)]
    assert versions(lake) == markers[::-1]
    check_hidden(lake, markers[-1])
    lake.objects.delete(BUCKET, "key", version_id=markers[-1])
    check_hidden(lake, markers[1])
    rows = [row for row, _ in lake.objects.list_versions(BUCKET).items]
    assert {(row.state, row.size, row.etag) for row in rows} == {(State.DELETED, 0, "")}


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_versions_may_be_deleted_in_any_order(lake: Lake, order: tuple[int, ...]) -> None:
    ids = [put(lake, b"0"), delete(lake), put(lake, b"2"), put(lake, b"3")]
    left = list(range(4))
    for index in order:
        deleted = lake.objects.delete(BUCKET, "key", version_id=ids[index])
        assert deleted == Deleted("key", ids[index], is_marker=index == 1)
        left.remove(index)
        assert versions(lake) == [ids[one] for one in left[::-1]]
        if left and left[-1] != 1:
            assert stored(lake, "key") == b"%d" % left[-1]
            assert lake.objects.head(BUCKET, "key").version_id == ids[left[-1]]
            assert keys(lake) == ["key"]
        else:
            check_hidden(lake, ids[1] if left else None)
        with pytest.raises(NoSuchVersion):
            lake.objects.get(BUCKET, "key", version_id=ids[index])


def test_a_version_is_deleted_once_and_of_its_own_key_only(lake: Lake) -> None:
    first = put(lake, b"1")
    other = put(lake, b"2", "other")
    for key, version_id in (("key", other), ("other", first), ("key", "0" * 32), ("key", "null")):
        deleted = lake.objects.delete(BUCKET, key, version_id=version_id)
        assert deleted == Deleted(key, version_id, is_marker=False)
    lake.buckets.create("ant")
    lake.objects.delete("ant", "key", version_id=first)
    assert keys(lake) == ["key", "other"]
    with pytest.raises(NoSuchVersion):
        lake.objects.get(BUCKET, "key", version_id=other)
    with pytest.raises(NoSuchVersion):
        lake.objects.get("ant", "key", version_id=first)


def test_the_deletion_of_a_version_may_have_a_condition(lake: Lake) -> None:
    first, second = put(lake, b"1"), put(lake, b"2")
    with pytest.raises(PreconditionFailed):
        lake.objects.delete(
            BUCKET, "key", version_id=first, condition=Condition(if_match="another")
        )
    assert versions(lake) == [second, first]


# Suspended.


def test_without_versions_a_write_replaces_the_null_version(lake: Lake) -> None:
    suspend(lake)
    assert put(lake, b"1") == NULL_VERSION
    inner = lake.objects.head(BUCKET, "key").version_id
    assert put(lake, b"2") == NULL_VERSION
    assert versions(lake) == [NULL_VERSION]
    assert stored(lake, "key") == stored(lake, "key", version_id=NULL_VERSION) == b"2"
    for hidden in (inner, lake.objects.head(BUCKET, "key").version_id):
        with pytest.raises(NoSuchVersion):  # null versions have no id that anyone sees
            lake.objects.get(BUCKET, "key", version_id=hidden)
        lake.objects.delete(BUCKET, "key", version_id=hidden)
    assert stored(lake, "key") == b"2"


def test_what_has_a_version_is_kept_while_suspended(lake: Lake) -> None:
    first = put(lake, b"1")
    suspend(lake)
    put(lake, b"2")
    put(lake, b"3")
    assert versions(lake) == [NULL_VERSION, first]
    assert stored(lake, "key", version_id=first) == b"1"


def test_a_delete_while_suspended_leaves_a_null_marker_alone(lake: Lake) -> None:
    first = put(lake, b"1")
    suspend(lake)
    put(lake, b"2")
    assert lake.objects.delete(BUCKET, "key") == Deleted("key", NULL_VERSION, is_marker=True)
    assert lake.objects.delete(BUCKET, "key") == Deleted("key", NULL_VERSION, is_marker=True)
    assert versions(lake) == [NULL_VERSION, first]
    check_hidden(lake, NULL_VERSION)
    with pytest.raises(MethodNotAllowed) as caught:
        lake.objects.get(BUCKET, "key", version_id=NULL_VERSION)
    assert caught.value.marker_id == NULL_VERSION
    deleted = lake.objects.delete(BUCKET, "key", version_id=NULL_VERSION)
    assert deleted == Deleted("key", NULL_VERSION, is_marker=True)
    assert versions(lake) == [first]
    assert stored(lake, "key") == b"1"


def test_a_write_takes_the_place_of_a_null_marker(lake: Lake) -> None:
    suspend(lake)
    delete(lake)
    put(lake, b"1")
    assert versions(lake) == [NULL_VERSION]
    assert stored(lake, "key") == b"1"


def test_a_null_version_in_the_middle_comes_to_the_top_when_it_is_written(lake: Lake) -> None:
    first = put(lake, b"1")
    suspend(lake)
    put(lake, b"2")
    enable(lake)
    third = put(lake, b"3")
    assert versions(lake) == [third, NULL_VERSION, first]
    assert stored(lake, "key", version_id=NULL_VERSION) == b"2"
    assert not lake.objects.head(BUCKET, "key", version_id=NULL_VERSION).is_latest
    suspend(lake)
    put(lake, b"4")
    assert versions(lake) == [NULL_VERSION, third, first]
    enable(lake)
    marker = delete(lake)
    assert versions(lake) == [marker, NULL_VERSION, third, first]
    suspend(lake)
    delete(lake)
    assert versions(lake) == [NULL_VERSION, marker, third, first]
    lake.objects.delete(BUCKET, "key", version_id=NULL_VERSION)
    check_hidden(lake, marker)


def test_a_null_version_in_the_middle_can_be_deleted(lake: Lake) -> None:
    suspend(lake)
    put(lake, b"1")
    enable(lake)
    second = put(lake, b"2")
    deleted = lake.objects.delete(BUCKET, "key", version_id=NULL_VERSION)
    assert deleted == Deleted("key", NULL_VERSION, is_marker=False)
    assert versions(lake) == [second]
    assert stored(lake, "key") == b"2"


# Disabled.


def test_an_unversioned_bucket_has_one_object_a_key_which_is_its_null_version(
    tmp_path: Path,
) -> None:
    with open_lake(tmp_path) as lake:
        add_bucket(lake, Versioning.DISABLED)
        put(lake, b"1")
        put(lake, b"2")
        assert stored(lake, "key") == b"2"
        assert stored(lake, "key", version_id=NULL_VERSION) == b"2"
        assert versions(lake) == [NULL_VERSION]
        assert lake.objects.delete(BUCKET, "key") == Deleted("key", None, is_marker=False)
        check_hidden(lake, None)
        put(lake, b"3")
        for _ in range(2):
            gone = lake.objects.delete(BUCKET, "key", version_id=NULL_VERSION)
            assert gone == Deleted("key", None, is_marker=False), "it has no version ids"
        check_hidden(lake, None)
        lake.buckets.delete(BUCKET)


def test_what_was_there_before_versioning_becomes_the_null_version(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        add_bucket(lake, Versioning.DISABLED)
        put(lake, b"1")
        enable(lake)
        assert versions(lake) == [NULL_VERSION]
        second = put(lake, b"2")
        marker = delete(lake)
        assert versions(lake) == [marker, second, NULL_VERSION]
        assert stored(lake, "key", version_id=NULL_VERSION) == b"1"
        suspend(lake)
        put(lake, b"4")
        assert versions(lake) == [NULL_VERSION, marker, second]


# Over time.


def test_versions_and_markers_are_there_after_reopening(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        lake.buckets.create(BUCKET)
        ids = [put(lake, b"1"), delete(lake), put(lake, b"3")]
        suspend(lake)
        ids.append(put(lake, b"4"))
        pages = lake.objects.list_versions(BUCKET)
    with open_lake(tmp_path) as lake:
        assert lake.objects.list_versions(BUCKET) == pages
        assert versions(lake) == ids[::-1]
        assert stored(lake, "key") == b"4"
        assert stored(lake, "key", version_id=ids[0]) == b"1"
        lake.objects.delete(BUCKET, "key", version_id=NULL_VERSION)
        lake.objects.delete(BUCKET, "key", version_id=ids[2])
    with open_lake(tmp_path) as lake:
        check_hidden(lake, ids[1])
        assert versions(lake) == ids[1::-1]


@pytest.mark.parametrize("reopens", [False, True])
def test_the_order_of_versions_survives_a_clock_that_went_back(
    tmp_path: Path, *, reopens: bool
) -> None:
    clock = MovableClock()
    lake = open_lake(tmp_path, clock=clock)
    lake.buckets.create(BUCKET)
    ids = []
    for number in range(6):
        ids.append(delete(lake) if number == 3 else put(lake, b"%d" % number))
        clock.back_ns += 3600 * NS_PER_S
        if reopens:
            lake.close()
            lake = open_lake(tmp_path, clock=clock)
    assert versions(lake) == ids[::-1]
    rows = [row for row, _ in lake.objects.list_versions(BUCKET).items]
    stamps = [row.hlc for row in rows]
    assert stamps == sorted(set(stamps), reverse=True)
    assert stored(lake, "key") == b"5"
    lake.close()


def test_the_clock_goes_on_behind_what_was_removed(tmp_path: Path) -> None:
    clock = MovableClock()
    with open_lake(tmp_path, clock=clock) as lake:
        lake.buckets.create(BUCKET)
        before = lake.objects.list_versions(BUCKET).items
        assert before == []
        put(lake, b"1")
        newest = lake.objects.list_versions(BUCKET).items[0].row.hlc
        lake.objects.delete(BUCKET, "key", version_id=versions(lake)[0])
    clock.back_ns = 3600 * NS_PER_S
    with open_lake(tmp_path, clock=clock) as lake:
        put(lake, b"2")
        assert lake.objects.list_versions(BUCKET).items[0].row.hlc > newest


def test_a_put_under_a_wrong_clock_does_not_freeze_last_modified(tmp_path: Path) -> None:
    clock = MovableClock()
    year_ns = 365 * 24 * 3600 * NS_PER_S
    with open_lake(tmp_path, clock=clock) as lake:
        lake.buckets.create(BUCKET)
        clock.back_ns = -year_ns
        put(lake, b"from the future")
        clock.back_ns = 0
        put(lake, b"now")
    with open_lake(tmp_path, clock=clock) as lake:
        put(lake, b"after a restart")
        lake.buckets.create("new")
        now_ms = clock.wall_ns() // NS_PER_MS
        found = [row for row, _ in lake.objects.list_versions(BUCKET).items]
        ages_ms = [now_ms - row.modified_ms for row in found]
        assert all(0 <= age_ms < year_ns // NS_PER_MS for age_ms in ages_ms[:2])
        assert ages_ms[2] < 0
        assert now_ms >= lake.buckets.get("new").created_ms
        assert stored(lake, "key") == b"after a restart", "the hybrid clock still orders them"
        assert [row.hlc for row in found] == sorted((row.hlc for row in found), reverse=True)
        ids = {row.version_id[2:14] for row in found}
        assert len(ids) > 1, "manifest files are spread over folders again"
