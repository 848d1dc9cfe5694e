"""`lakebed.objects` over the HTTP API: every view has the rows that the files give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, LessThan, StringStartsWith

from lakebed.api.problems import Unauthenticated
from lakebed.base.errors import Corrupt, LakebedError
from lakebed.client.caller import Caller
from lakebed.seglake import stored_pages
from lakebed.seglake.model import Versioning
from lakebed.spark.sources import object_backends
from lakebed.spark.sources.objects import NAME, ObjectsSource
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.http_api.test_guard import FIRST, guarding
from tests.seglake.damaged_lakes import change_rows
from tests.spark.object_stores import HOSTILE_KEYS, OBJECTS, write_everything
from tests.spark.rows import batches_of, collected, load, read, reader_of
from tests.store.lake_tiers import CONFIG, SHARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]
VIEWS = ("objects", "versions", "manifests", "chunks")


@contextmanager
def live_api_of(folder: Path, **settings: Any) -> Iterator[LiveApi]:
    with open_api(
        folder, config=CONFIG, tier_config=SHARED, object_config=OBJECTS, **settings
    ) as live_api:
        yield live_api


@pytest.fixture(scope="module")
def live_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    """Of a store with everything. Not to be changed."""
    folder = tmp_path_factory.mktemp("objects")
    write_everything(folder / "store")
    with live_api_of(folder, make_guard=guarding()) as opened:
        yield opened


def options_of(live_api: LiveApi) -> dict[str, object]:
    return {
        "endpoint": f"http://{HOST}:{live_api.port}",
        "accessKey": FIRST[0],
        "secretKey": FIRST[1],
    }


def by_path(live_api: LiveApi, *filters: Filter, **options: object) -> Any:
    return outcome(lambda: reader_of(ObjectsSource, *filters, path=live_api.store.root, **options))


def by_endpoint(live_api: LiveApi, *filters: Filter, **options: object) -> Any:
    return outcome(lambda: reader_of(ObjectsSource, *filters, **options_of(live_api), **options))


def outcome(make: Callable[[], tuple[Any, Any]]) -> Any:
    try:
        return read(make()[0])
    except LakebedError as error:
        return type(error), str(error)


@pytest.mark.parametrize("view", VIEWS)
def test_rows_are_the_same(live_api: LiveApi, view: str) -> None:
    found = by_endpoint(live_api, view=view)
    assert found == by_path(live_api, view=view)
    assert {row["key"] for row in found} >= {*HOSTILE_KEYS, "two chunks", "in parts"} - {"\0"}
    assert {row["bucket"] for row in found} == {"lakebed-tier2", "plain", "suspended", "versioned"}
    columns = "hlc,key" if view in ("objects", "versions") else "problem,key"
    some = by_endpoint(live_api, view=view, columns=columns)
    assert some == [{name: row[name] for name in some[0]} for row in found]


def test_versions_have_all_that_the_metadata_say(live_api: LiveApi) -> None:
    found = by_endpoint(live_api, view="versions")
    assert all(row["hlc"] and row["site_id"] for row in found)
    assert {row["state"] for row in found} == {"ACTIVE", "DELETED", "DAMAGED"}
    replaced = [row["is_latest"] for row in found if row["key"] == "a/replaced"]
    assert replaced == [True, False, False]
    parts = [row for row in by_endpoint(live_api, view="chunks") if row["upload_id"]]
    assert [(row["key"], row["part_number"]) for row in parts] == [("begun", 4), ("begun", 7)]


@pytest.mark.spark
@pytest.mark.parametrize("view", VIEWS)
def test_a_session_reads_them(spark: SparkSession, live_api: LiveApi, view: str) -> None:
    spark.dataSource.register(ObjectsSource)
    frame = load(spark, NAME, view=view, **options_of(live_api))
    found = collected(frame)
    assert sorted(found, key=repr) == sorted(by_path(live_api, view=view), key=repr)
    assert frame.rdd.getNumPartitions() == 1


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [1, 5, 20])
def test_keys_are_shared_among_tasks_as_those_of_files(
    live_api: LiveApi, view: str, size: int
) -> None:
    there, _ = reader_of(ObjectsSource, **options_of(live_api), view=view, partitionRows=size)
    here, _ = reader_of(ObjectsSource, path=live_api.store.root, view=view, partitionRows=size)
    splits = [one.ranges for one in there.partitions()]  # type: ignore[attr-defined]
    assert splits == [one.ranges for one in here.partitions()]  # type: ignore[attr-defined]
    assert len(splits) > 1
    found = by_endpoint(live_api, view=view, partitionRows=size)
    assert sorted(found, key=repr) == sorted(by_endpoint(live_api, view=view), key=repr)


FILTERS: dict[str, list[Filter]] = {
    "a bucket": [EqualTo(("bucket",), "plain")],
    "no bucket": [EqualTo(("bucket",), "none")],
    "a prefix": [StringStartsWith(("key",), "a/")],
    "between": [GreaterThan(("key",), "a/deleted"), LessThan(("key",), "two")],
    "some keys": [In(("key",), ("begun", "both", "copy", "\0", "none"))],
    "behind all": [GreaterThan(("key",), "\U0010ffff")],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", FILTERS)
def test_filters_leave_the_same(live_api: LiveApi, view: str, name: str) -> None:
    found = by_endpoint(live_api, *FILTERS[name], view=view)
    assert found == by_path(live_api, *FILTERS[name], view=view)
    assert (found == []) is (name in ("no bucket", "behind all"))


@pytest.mark.parametrize("view", VIEWS)
def test_a_bucket_and_a_prefix_are_options(live_api: LiveApi, view: str) -> None:
    options = {"view": view, "bucket": "plain,versioned", "prefix": "a"}
    found = by_endpoint(live_api, **options)
    assert found == by_path(live_api, **options)
    assert {row["bucket"] for row in found} == {"plain", "versioned"}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_pages_of_any_size_have_everything(
    live_api: LiveApi, monkeypatch: pytest.MonkeyPatch, view: str, size: int
) -> None:
    expected = by_path(live_api, view=view)
    monkeypatch.setattr(object_backends, "VERSIONS_PAGE", size)
    monkeypatch.setattr(object_backends, "MANIFESTS_PAGE", size)
    monkeypatch.setattr(object_backends, "PARTS_PAGE", size)
    assert by_endpoint(live_api, view=view) == expected
    monkeypatch.setattr(stored_pages, "MANIFEST_BYTES", size * 200)
    assert by_endpoint(live_api, view=view) == expected


def test_pages_behind_the_keys_that_are_wanted_are_not_asked_for(
    live_api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    call = Caller.call

    def noting(self: Caller, operation: Any, *args: Any, **named: Any) -> Any:
        asked.append(operation.name)
        return call(self, operation, *args, **named)

    monkeypatch.setattr(Caller, "call", noting)
    monkeypatch.setattr(object_backends, "VERSIONS_PAGE", 1)
    few = [EqualTo(("bucket",), "plain"), GreaterThan(("key",), "a"), LessThan(("key",), "c")]
    rows = by_endpoint(live_api, *few, view="versions")
    assert [row["key"] for row in rows] == ["a\0b", "a/../../etc/passwd"]
    pages = [name for name in asked if name == "list_stored_versions"]
    assert len(pages) <= len(rows) + 2


def test_a_manifest_that_cannot_be_read_is_told_alike(tmp_path: Path) -> None:
    with live_api_of(tmp_path) as live_api:
        bucket = live_api.store.bucket("one")
        for key in ("bad", "good", "lost"):
            bucket.put(key, key.encode())
        bad, lost = (bucket.head(key).version_id for key in ("bad", "lost"))
    root = tmp_path / "store"
    change_rows(root, "UPDATE manifests SET data = ? WHERE version_id = ?", b"x" * 99, bad)
    change_rows(root, "UPDATE manifests SET data = NULL WHERE version_id = ?", lost)
    with live_api_of(tmp_path) as live_api:
        for view in ("manifests", "chunks"):
            failed = by_endpoint(live_api, view=view)
            assert failed == by_path(live_api, view=view)
            assert failed[0] is Corrupt
            told = by_endpoint(live_api, view=view, onDamage="tell")
            assert told == by_path(live_api, view=view, onDamage="tell")
            assert [row["problem"] is None for row in told] == [False, True, False]


@pytest.mark.parametrize("view", VIEWS)
def test_a_writer_beside_goes_on_and_nothing_that_stays_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    """Between the pages that are read versions come and go, also those that were told last."""
    for name in ("VERSIONS_PAGE", "MANIFESTS_PAGE"):
        monkeypatch.setattr(object_backends, name, 3)
    with live_api_of(tmp_path) as live_api:
        bucket = live_api.store.bucket("one", versioning=Versioning.ENABLED)
        for number in range(20):
            for _ in range(2):
                bucket.put(f"stays-{number:02}", b"x")
        expected = [row["version_id"] for row in by_path(live_api, view=view)]
        reader, _ = reader_of(ObjectsSource, view=view, **options_of(live_api))
        (partition,) = reader.partitions()
        seen: list[str] = []
        for batch in batches_of(reader, partition):
            rows = batch.to_pylist()
            seen += [row["version_id"] for row in rows]
            last = rows[-1]
            bucket.delete(last["key"], version_id=last["version_id"])
            bucket.put("a", b"before all")
        assert [one for one in seen if one in expected] == expected


@pytest.mark.parametrize("view", VIEWS)
def test_without_objects_there_are_no_rows(tmp_path: Path, view: str) -> None:
    with live_api_of(tmp_path) as live_api:
        assert by_endpoint(live_api, view=view) == []
        live_api.store.bucket("empty")
        assert by_endpoint(live_api, view=view) == by_path(live_api, view=view) == []


def test_who_may_not_ask_is_told(live_api: LiveApi) -> None:
    for view in VIEWS:
        reader, _ = reader_of(ObjectsSource, view=view, **options_of(live_api))
        assert reader.partitions()
        wrong = {**options_of(live_api), "secretKey": "wrong"}
        refused, _ = reader_of(ObjectsSource, view=view, **wrong)
        with pytest.raises(Unauthenticated):
            refused.partitions()
