"""`lakebed.objects` on a real session: each view against what the engine says of the store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, Not, StringStartsWith

from lakebed.base.errors import BadConfig, Corrupt, NotFound
from lakebed.seglake.lake import Lake
from lakebed.seglake.manifest import Manifest
from lakebed.seglake.upload_rows import all_parts, part_manifest
from lakebed.spark.sources import objects
from lakebed.spark.sources.object_columns import VIEWS
from lakebed.spark.sources.objects import NAME, ObjectsSource
from lakebed.store.read_only import ReadOnlyStore
from tests.http_api.live_api import open_api
from tests.seglake.damaged_lakes import change_rows
from tests.spark.object_stores import (
    HOSTILE_KEYS,
    buckets_of,
    manifests_of,
    objects_of,
    versions_of,
    write_everything,
    writing,
)
from tests.spark.rows import batches_of, collected, load, read, read_one, reader_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    made = tmp_path_factory.mktemp("objects") / "root"
    write_everything(made)
    return made


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(ObjectsSource)
    return spark


def test_the_schemas_are_those_that_the_docstring_tells() -> None:
    blocks = re.findall(r"\n\n((?:    .*\n)+)", objects.__doc__ or "")
    told = [" ".join(block.split()) for block in blocks if "spark.read" not in block]
    assert told == [fields.ddl() for fields in VIEWS.values()]


@pytest.mark.spark
def test_buckets_objects_and_versions_are_those_of_the_engine(
    session: SparkSession, root: Path
) -> None:
    assert by_place(collected(load(session, NAME, path=root, view="buckets"))) == buckets_of(root)
    assert by_place(collected(load(session, NAME, path=root))) == by_place(objects_of(root))
    found = collected(load(session, NAME, path=root, view="versions"))
    assert by_place(found) == by_place(versions_of(root))
    states = {row["state"] for row in found}
    assert states == {"ACTIVE", "DELETED", "DAMAGED"}
    assert any(row["is_null"] for row in found)
    assert {row["key"] for row in found} >= set(HOSTILE_KEYS)
    assert {row["bucket"] for row in found} == {"lakebed-tier2", "plain", "suspended", "versioned"}


@pytest.mark.spark
def test_manifests_tell_what_the_engine_has_stored(session: SparkSession, root: Path) -> None:
    found = collected(load(session, NAME, path=root, view="manifests"))
    manifests = manifests_of(root)
    assert sorted(row["version_id"] for row in found) == sorted(manifests)
    for row in found:
        manifest = manifests[row["version_id"]]
        assert row["problem"] is None
        assert row["file_state"] == "written"
        assert row["chunk_count"] == len(manifest.chunks)
        assert row["part_sizes"] == list(manifest.part_sizes)
        assert dict(row["tags"]) == dict(manifest.tags)
        assert row["cache_control"] == manifest.content.cache_control
        assert row["expires"] == manifest.content.expires
        checksums = [(one["algorithm"], one["value"], one["is_composite"])
                     for one in row["checksums"]]  # fmt: skip
        assert checksums == [(one.algorithm.value, one.value, one.is_composite)
                             for one in manifest.checksums]  # fmt: skip
    (kept,) = (row for row in found if row["key"] == "a/kept")
    assert dict(kept["metadata"]) == {"name": "value", "empty": "", "odd": "\\ud800\u202e\0"}
    (whole,) = (row for row in found if row["key"] == "in parts")
    assert whole["part_sizes"] == [60, 6]


@pytest.mark.spark
def test_chunks_are_those_of_all_versions_and_of_parts_under_way(
    session: SparkSession, root: Path
) -> None:
    found = collected(load(session, NAME, path=root, view="chunks"))
    of_versions = [row for row in found if row["version_id"] is not None]
    expected = [
        row for version_id, one in manifests_of(root).items() for row in chunks_of(one, version_id)
    ]
    assert sorted(map(chunk_facts, of_versions)) == sorted(expected)
    two = [row for row in found if row["key"] == "two chunks"]
    assert [(row["chunk_index"], row["object_offset"]) for row in two] == [(0, 0), (1, 4 << 20)]
    with ReadOnlyStore(root) as store, store.lake.metadata.snapshot() as reader:
        uploads = list(reader.uploads_from("plain", start=b"", end=b"\xff"))
        parts = [part for one in uploads for part in all_parts(reader, one.upload_id)]
    of_parts = [row for row in found if row["version_id"] is None]
    assert [(row["upload_id"], row["part_number"], row["key"]) for row in of_parts] == [
        (part.upload_id, part.number, "begun") for part in parts
    ]
    assert [chunk_facts(row)[1:] for row in of_parts] == [
        facts[1:] for part in parts for facts in chunks_of(part_manifest(part), "")
    ]
    assert all(row["problem"] is None for row in found)


@pytest.mark.spark
def test_conditions_give_what_spark_would(session: SparkSession, root: Path) -> None:
    everything = collected(load(session, NAME, path=root, view="versions"))
    conditions: list[tuple[list[list[object]], Callable[[dict[str, Any]], bool]]] = [
        ([["bucket", "=", "plain"]], lambda row: row["bucket"] == "plain"),
        (
            [["bucket", "in", ["plain", "none"]], ["key", "startswith", "a"]],
            lambda row: row["bucket"] == "plain" and row["key"].startswith("a"),
        ),
        (
            [["key", ">", "a/deleted"], ["key", "<=", "b/damaged"]],
            lambda row: b"a/deleted" < row["key"].encode() <= b"b/damaged",
        ),
        (
            [["key", "=", "both"], ["is_null", "=", True]],
            lambda row: row["key"] == "both" and row["is_null"],
        ),
        ([["size", "!=", 0]], lambda row: row["size"] not in (None, 0)),
        ([["bucket", "=", "none"]], lambda _row: False),
    ]
    for given, matches in conditions:
        frame = load(session, NAME, path=root, view="versions", filters=json.dumps(given))
        expected = by_place([row for row in everything if matches(row)])
        assert by_place(collected(frame)) == expected, given


@pytest.mark.spark
def test_what_one_query_filters_is_not_missing_in_another(
    session: SparkSession, root: Path
) -> None:
    """Spark 4.3.0 keeps what was pushed for the whole of a load: so nothing is, unasked."""
    frame = load(session, NAME, path=root, view="versions")
    expected = versions_of(root)
    assert frame.where("key = 'empty'").count() == 1
    assert frame.count() == len(expected)
    both = frame.where("key = 'empty'").union(frame.where("key = 'copy'"))
    assert sorted(row["key"] for row in collected(both)) == ["copy", "empty"]


@pytest.mark.spark
def test_buckets_and_a_prefix_can_be_given_as_options(session: SparkSession, root: Path) -> None:
    everything = versions_of(root)
    some = [row for row in everything if row["bucket"] in ("plain", "versioned")]
    expected = [row for row in some if row["key"].startswith("a")]
    frame = load(session, NAME, path=root, view="versions", bucket="plain, versioned", prefix="a")
    assert by_place(collected(frame)) == by_place(expected)
    kept = frame.where("key = 'a/kept'")
    assert [row["bucket"] for row in collected(kept)] == ["versioned"]
    assert frame.count() == len(expected)


@pytest.mark.spark
def test_a_count_and_some_columns(session: SparkSession, root: Path) -> None:
    frame = load(session, NAME, path=root, view="chunks", columns="length,bucket")
    assert frame.schema.simpleString() == "struct<length:int,bucket:string>"
    total = sum(len(one.chunks) for one in manifests_of(root).values())
    assert frame.count() == total + 2


@pytest.mark.spark
def test_over_an_endpoint_there_are_buckets_and_objects(
    session: SparkSession, tmp_path: Path
) -> None:
    with open_api(tmp_path) as live_api:
        for name in ("one", "two"):
            bucket = live_api.store.bucket(name)
            for key in (*HOSTILE_KEYS, *map(str, range(30))):
                bucket.put(key, key.encode())
        url = f"http://127.0.0.1:{live_api.port}"
        root = Path(live_api.store.root)
        expected = objects_of(root)
        options = {"endpoint": url, "accessKey": "any", "secretKey": "any"}
        frame = load(session, NAME, **options)
        assert by_place(collected(frame)) == by_place(expected)
        assert collected(load(session, NAME, view="buckets", **options)) == buckets_of(root)
        for condition, matches in {
            "bucket = 'two' and key like '2%'": lambda row: (
                row["bucket"] == "two" and row["key"].startswith("2")
            ),
            "key > '15' and key < '\ue000'": lambda row: b"15" < row["key"].encode() < b"\xee",
            "key = '7'": lambda row: row["key"] == "7",
        }.items():
            found = collected(load(session, NAME, **options).where(condition))
            assert by_place(found) == by_place(list(filter(matches, expected))), condition
        reader, _ = reader_of(ObjectsSource, bucket="three", **options)
        assert read(reader) == []
        assert [one.name for one in live_api.store.buckets()] == ["one", "two"], "none is made"


# From here on without a session: the reader alone.


@pytest.mark.parametrize("view", VIEWS)
def test_a_store_without_objects_has_no_rows(tmp_path: Path, view: str) -> None:
    with writing(tmp_path / "root"):
        pass
    reader, _ = reader_of(ObjectsSource, path=tmp_path / "root", view=view)
    assert len(reader.partitions()) == 1
    assert read(reader) == []
    assert not (tmp_path / "root" / "meta.db").exists()


def test_a_bucket_without_objects_has_no_rows(tmp_path: Path) -> None:
    with writing(tmp_path) as store:
        store.bucket("empty")
    for view in ("objects", "versions", "manifests", "chunks"):
        assert read(reader_of(ObjectsSource, path=tmp_path, view=view)[0]) == []
    assert len(read(reader_of(ObjectsSource, path=tmp_path, view="buckets")[0])) == 1


def test_tasks_have_about_as_many_rows_and_together_all(tmp_path: Path) -> None:
    with writing(tmp_path) as store:
        for name in ("one", "two"):
            bucket = store.bucket(name)
            for number in range(300):
                bucket.put(f"key-{number * 7919 % 300:03}", b"")
    for view in ("objects", "versions"):
        reader, _ = reader_of(ObjectsSource, path=tmp_path, view=view, partitionRows=100)
        counts = [len(read_one(reader, one)) for one in reader.partitions()]
        assert sum(counts) == 600
        assert len(counts) == 6
        assert max(counts) <= 110
        assert len(read(reader)) == 600


def test_filters_leave_fewer_tasks_and_rows_to_read(tmp_path: Path) -> None:
    with writing(tmp_path) as store:
        bucket = store.bucket("one")
        for number in range(300):
            bucket.put(f"key-{number:03}", b"")
    filters = [StringStartsWith(("key",), "key-1"), EqualTo(("bucket",), "one"),
               Not(EqualTo(("etag",), "d4"))]  # fmt: skip
    options = {"path": tmp_path, "partitionRows": 50}
    every, _ = reader_of(ObjectsSource, **options)
    some, left = reader_of(ObjectsSource, *filters, **options)
    assert left == [filters[2]], "the others are decided by the plan"
    assert len(some.partitions()) <= len(every.partitions())
    assert [row["key"] for row in read(some)] == [f"key-{number}" for number in range(100, 200)]
    none, _ = reader_of(ObjectsSource, GreaterThan(("key",), "z"), **options)
    assert read(none) == []


def test_chunks_of_some_segments_are_told_alone(root: Path) -> None:
    everything = read(reader_of(ObjectsSource, path=root, view="chunks")[0])
    segment = everything[0]["segment_id"]
    reader, left = reader_of(
        ObjectsSource,
        In(("segment_id",), (segment, "none")),
        path=root,
        view="chunks",
    )
    assert left == []
    found = read(reader)
    assert found == [row for row in everything if row["segment_id"] == segment]
    assert found


def test_a_manifest_that_cannot_be_read_fails_the_query_or_is_told(tmp_path: Path) -> None:
    with writing(tmp_path) as store:
        store.bucket("one").put("bad", b"bad")
        store.bucket("one").put("good", b"good")
        bad = store.bucket("one").head("bad").version_id
    change_rows(tmp_path, "UPDATE manifests SET data = ? WHERE version_id = ?", b"x" * 99, bad)
    for view in ("manifests", "chunks"):
        with pytest.raises(Corrupt, match="wrong magic number of a manifest"):
            read(reader_of(ObjectsSource, path=tmp_path, view=view)[0])
        rows = read(reader_of(ObjectsSource, path=tmp_path, view=view, onDamage="tell")[0])
        assert [(row["key"], row["problem"] is None) for row in rows] == [
            ("bad", False), ("good", True),
        ]  # fmt: skip
        assert "wrong magic number of a manifest" in rows[0]["problem"]
        assert rows[0]["version_id"] == bad
    (bad_row, _) = read(reader_of(ObjectsSource, path=tmp_path, view="chunks", onDamage="tell")[0])
    assert bad_row["chunk_index"] is bad_row["segment_id"] is bad_row["length"] is None
    assert [row["key"] for row in read(reader_of(ObjectsSource, path=tmp_path)[0])] == [
        "bad", "good",
    ]  # fmt: skip


def test_a_writer_beside_goes_on_and_nothing_that_stays_is_missed(tmp_path: Path) -> None:
    """Between the batches that are read objects come, go and are replaced."""
    with writing(tmp_path) as store:
        bucket = store.bucket("one")
        for number in range(40):
            bucket.put(f"stays-{number:03}", b"x")
        for view in ("objects", "versions", "manifests", "chunks"):
            reader, _ = reader_of(ObjectsSource, path=tmp_path, view=view, partitionRows=10)
            partitions = reader.partitions()
            seen: list[str] = []
            for turn, partition in enumerate(partitions):
                bucket.put(f"stays-{turn:03}a", b"new")
                for batch in batches_of(reader, partition):
                    bucket.put(f"stays-{39 - turn:03}b", b"new")
                    bucket.delete(f"stays-{turn:03}a")
                    seen += batch.column("key").to_pylist()
            stayed = [key for key in seen if key[-1].isdigit()]
            assert sorted(stayed) == [f"stays-{number:03}" for number in range(40)], view
        assert isinstance(store.lake, Lake)
        assert store.lake.objects.list("one").items


def test_reading_ends_its_transactions_so_that_the_log_can_be_carried_over(
    tmp_path: Path,
) -> None:
    with writing(tmp_path) as store:
        bucket = store.bucket("one")
        for number in range(20):
            bucket.put(f"{number}", b"x")
        reader, _ = reader_of(ObjectsSource, path=tmp_path, view="versions")
        (partition,) = reader.partitions()
        batches = batches_of(reader, partition)
        next(batches)
        bucket.put("another", b"x")
        assert store.lake._database.checkpoint(), "no reader stands in the way"
        list(batches)


def test_options_that_are_wrong_are_told() -> None:
    for options, told in [
        ({"view": "keys"}, "one of buckets, objects, versions, manifests, chunks"),
        ({"columns": "name"}, "there is no column 'name'"),
        ({"buckets": "one"}, "did you mean bucket?"),
        ({"partitionRows": "0"}, "a whole number from 1 on"),
        ({"onDamage": "skip"}, "one of fail, tell"),
    ]:
        with pytest.raises(BadConfig, match=re.escape(told)):
            reader_of(ObjectsSource, path="/nowhere", **options)
    with pytest.raises(BadConfig, match="path or endpoint is missing"):
        reader_of(ObjectsSource)
    with pytest.raises(NotFound, match="no such root"):
        reader_of(ObjectsSource, path="/nowhere")[0].partitions()


def by_place(rows: Rows) -> Rows:
    """By bucket and key; the newest version of a key first."""
    ordered = sorted(rows, key=lambda row: row.get("hlc") or "", reverse=True)
    return sorted(ordered, key=lambda row: (row["bucket"], row.get("key", "").encode()))


def chunk_facts(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("chunk_index", "object_offset", "segment_id", "offset", "length", "hash")
    return (row["version_id"], *(row[name] for name in names))


def chunks_of(manifest: Manifest, version_id: str) -> Iterator[tuple[Any, ...]]:
    before = 0
    for index, chunk in enumerate(manifest.chunks):
        yield (version_id, index, before, chunk.segment_id, chunk.offset, chunk.length, chunk.hash)
        before += chunk.length
