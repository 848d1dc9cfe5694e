"""Pages of the metadata: however small, all of them are what the engine lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from lakebed.seglake.key_sample import sample_keys
from lakebed.seglake.listing import list_objects, list_versions
from lakebed.seglake.meta.reader import KEYS_END
from lakebed.seglake.model import Versioning
from lakebed.seglake.stored_pages import KeyRange
from lakebed.seglake.stored_rows import KeySample, SampledKey
from lakebed.spark.sources.object_rows import (
    manifest_pages,
    object_pages,
    part_pages,
    version_pages,
)
from lakebed.store.bucket import Bucket
from lakebed.store.read_only import ReadOnlyStore
from tests.spark.object_stores import writing

EVERYTHING = KeyRange("one", b"", KEYS_END)


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    """Several versions of some keys, a marker, and uploads; its writer goes on."""
    with writing(tmp_path) as store:
        made = store.bucket("one", versioning=Versioning.ENABLED)
        for number in range(12):
            made.put(f"key-{number % 5}", b"%d" % number)
        made.delete("key-3")
        made.put("key-1\0", b"the very next key")
        made.put("key-10", b"")
        for number in range(3):
            for part in range(1, number + 2):
                made.upload(f"upload-{number % 2}").put(part, b"part")
        yield made


@pytest.fixture
def reading(bucket: Bucket, tmp_path: Path) -> Iterator[ReadOnlyStore]:
    assert bucket.name == "one"
    with ReadOnlyStore(tmp_path) as store:
        yield store


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pages_of_any_size_have_everything_once(reading: ReadOnlyStore, size: int) -> None:
    metadata = reading.lake.metadata
    with metadata.snapshot() as reader:
        objects = list_objects(reader, "one").items
        versions = list_versions(reader, "one").items
        parts = [row for _, row in reader.parts_by_id()]
    object_rows = [row for page in object_pages(metadata, EVERYTHING, rows_max=size)
                   for row in page]  # fmt: skip
    assert object_rows == objects
    listed = [one for page in version_pages(metadata, EVERYTHING, rows_max=size) for one in page]
    assert listed == versions
    stored = [one for page in manifest_pages(metadata, EVERYTHING, rows_max=size) for one in page]
    assert [(one.version.row, one.version.is_latest) for one in stored] == versions
    assert all(one.manifest and one.manifest.version_id == one.version.row.version_id
               for one in stored)  # fmt: skip
    found = [one.listed.row for page in part_pages(metadata, EVERYTHING, rows_max=size)
             for one in page]  # fmt: skip
    assert sorted(found, key=astuple) == sorted(parts, key=astuple)


def test_a_version_that_was_told_and_is_removed_meanwhile_hides_no_other(
    reading: ReadOnlyStore, bucket: Bucket
) -> None:
    before = [one.row.version_id for one in bucket.versions()]
    found = []
    for (one,) in version_pages(reading.lake.metadata, EVERYTHING, rows_max=1):
        found.append(one.row.version_id)
        bucket.delete(one.row.key, version_id=one.row.version_id)
        bucket.put(one.row.key, b"newer, and not told again")
    assert found == before


def test_a_sample_has_the_keys_as_often_as_they_have_rows(reading: ReadOnlyStore) -> None:
    with reading.lake.metadata.snapshot() as reader:
        versions = sample_keys(reader, only_current=False)
        objects = sample_keys(reader, only_current=True)
        few = sample_keys(reader, only_current=False, count_max=4)
        expected = [SampledKey("one", one.row.key) for one in list_versions(reader, "one").items]
        current = [SampledKey("one", row.key) for row in list_objects(reader, "one").items]
    assert versions == KeySample(sorted(expected), len(expected))
    assert objects.keys == current
    assert len(few.keys) <= 4
    assert 0 < few.row_count <= 16


def test_a_store_without_metadata_has_no_sample_and_no_pages(tmp_path: Path) -> None:
    with writing(tmp_path):
        pass
    with ReadOnlyStore(tmp_path) as store:
        with store.lake.metadata.snapshot() as reader:
            assert sample_keys(reader, only_current=True) == KeySample([], 0)
        assert list(object_pages(store.lake.metadata, EVERYTHING)) == []
        assert list(version_pages(store.lake.metadata, EVERYTHING)) == []
        assert list(part_pages(store.lake.metadata, EVERYTHING)) == []
