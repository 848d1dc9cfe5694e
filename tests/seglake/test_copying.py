"""Copies: the same chunks under another key."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from lakebed.base.units import MIB
from lakebed.seglake.conditions import ReadCondition
from lakebed.seglake.errors import (
    BadKey,
    NoSuchBucket,
    NoSuchKey,
    NoSuchVersion,
    PreconditionFailed,
)
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import Algorithm, Checksum, Condition, Content, Versioning
from lakebed.seglake.multipart import NamedPart
from tests.seglake.lakes import (
    BUCKET,
    IF_ABSENT,
    IF_PRESENT,
    add_bucket,
    body,
    keys,
    open_lake,
    segment_bytes,
    stored,
    told_versions,
)

pytestmark = pytest.mark.thorough

CONTENT = Content(content_type="text/plain", metadata={"a": "b"})


def sha256(data: bytes) -> Checksum:
    return Checksum(Algorithm.SHA256, base64.b64encode(hashlib.sha256(data).digest()).decode())


@pytest.mark.parametrize("size", [0, 1000, 9 * MIB])
def test_a_copy_is_the_same_object_and_no_new_bytes(lake: Lake, tmp_path: Path, size: int) -> None:
    lake.buckets.create("other")
    data = body(size)
    source = lake.objects.put(BUCKET, "key", data, content=CONTENT)
    before = segment_bytes(tmp_path)
    for bucket in (BUCKET, "other"):
        copy = lake.objects.copy(BUCKET, "key", bucket, "copy")
        assert copy == lake.objects.head(bucket, "copy")
        assert stored(lake, "copy", bucket=bucket) == data
        assert (copy.bucket, copy.key, copy.size) == (bucket, "copy", size)
        assert (copy.etag, copy.content, copy.checksums) == (
            source.etag,
            CONTENT,
            source.checksums,
        )
        assert copy.version_id != source.version_id
    assert segment_bytes(tmp_path) == before


@pytest.mark.parametrize("versioning", list(Versioning))
def test_a_copy_outlives_its_source(tmp_path: Path, versioning: Versioning) -> None:
    with open_lake(tmp_path) as lake:
        add_bucket(lake, versioning)
        lake.objects.put(BUCKET, "key", body(5 * MIB))
        lake.objects.copy(BUCKET, "key", BUCKET, "copy")
        for row in [row for row, _ in lake.objects.list_versions(BUCKET, prefix="key").items]:
            version_id = "null" if row.is_null else row.version_id
            lake.objects.delete(BUCKET, "key", version_id=version_id)
        lake.objects.delete(BUCKET, "key")
    with open_lake(tmp_path) as lake:
        assert keys(lake) == ["copy"]
        assert stored(lake, "copy") == body(5 * MIB)


@pytest.mark.parametrize("versioning", list(Versioning))
def test_an_object_is_copied_over_itself_with_new_headers(
    lake: Lake, versioning: Versioning
) -> None:
    add_bucket(lake, versioning, "ant")
    lake.objects.put("ant", "key", b"data", content=CONTENT)
    changed = Content(content_type="image/png")
    lake.objects.copy("ant", "key", "ant", "key", content=changed)
    assert lake.objects.head("ant", "key").content == changed
    assert stored(lake, "key", bucket="ant") == b"data"
    expected = {Versioning.ENABLED: 2, Versioning.SUSPENDED: 1, Versioning.DISABLED: 1}
    assert len(told_versions(lake, "ant")) == expected[versioning]


def test_headers_may_be_taken_away(lake: Lake) -> None:
    lake.objects.put(BUCKET, "key", b"data", content=CONTENT)
    lake.objects.copy(BUCKET, "key", BUCKET, "copy", content=Content())
    assert lake.objects.head(BUCKET, "copy").content == Content()


def test_an_old_version_is_copied_to_the_top(lake: Lake) -> None:
    first = lake.objects.put(BUCKET, "key", b"1")
    lake.objects.put(BUCKET, "key", b"2")
    lake.objects.delete(BUCKET, "key")
    lake.objects.copy(BUCKET, "key", BUCKET, "key", source_version_id=first.version_id)
    assert stored(lake, "key") == b"1"
    assert len(told_versions(lake)) == 4


def test_a_null_version_is_copied_by_its_name(lake: Lake) -> None:
    add_bucket(lake, Versioning.DISABLED, "plain")
    lake.objects.put("plain", "key", b"1")
    lake.buckets.set_versioning("plain", Versioning.ENABLED)
    lake.objects.put("plain", "key", b"2")
    lake.objects.copy("plain", "key", BUCKET, "copy", source_version_id="null")
    assert stored(lake, "copy") == b"1"
    assert not lake.objects.head(BUCKET, "copy").is_null


def test_what_is_not_there_is_not_copied(lake: Lake) -> None:
    lake.objects.put(BUCKET, "key", b"1")
    lake.objects.delete(BUCKET, "hidden")
    copy = lake.objects.copy
    for algorithm in (None, Algorithm.SHA256):
        for key in ("missing", "hidden"):
            with pytest.raises(NoSuchKey):
                copy(BUCKET, key, BUCKET, "copy", algorithm=algorithm)
        with pytest.raises(NoSuchVersion):
            copy(BUCKET, "key", BUCKET, "copy", source_version_id="null", algorithm=algorithm)
        with pytest.raises(NoSuchBucket):
            copy("missing", "key", BUCKET, "copy", algorithm=algorithm)
        with pytest.raises(NoSuchBucket):
            copy(BUCKET, "key", "missing", "copy", algorithm=algorithm)
        with pytest.raises(BadKey):
            copy(BUCKET, "key", BUCKET, "", algorithm=algorithm)
    assert keys(lake) == ["key"]


def test_the_source_must_be_as_it_should(lake: Lake) -> None:
    source = lake.objects.put(BUCKET, "key", b"1")
    later_ms = source.modified_ms + 10_000

    def copy(condition: ReadCondition) -> None:
        lake.objects.copy(BUCKET, "key", BUCKET, "copy", source_condition=condition)

    for refused in (
        ReadCondition(if_match=("another",)),
        ReadCondition(if_none_match=(source.etag,)),
        ReadCondition(if_modified_since_ms=later_ms),
        ReadCondition(if_unmodified_since_ms=source.modified_ms - 10_000),
    ):
        with pytest.raises(PreconditionFailed):
            copy(refused)
    assert keys(lake) == ["key"]
    for accepted in (
        ReadCondition(if_match=(source.etag,)),
        ReadCondition(if_match=(source.etag,), if_unmodified_since_ms=0),
        ReadCondition(if_none_match=("another",)),
        ReadCondition(if_unmodified_since_ms=later_ms),
    ):
        copy(accepted)
    assert stored(lake, "copy") == b"1"


def test_the_target_must_be_as_it_should(lake: Lake) -> None:
    lake.objects.put(BUCKET, "key", b"1")

    def copy(condition: Condition) -> str:
        return lake.objects.copy(BUCKET, "key", BUCKET, "copy", condition=condition).etag

    with pytest.raises(NoSuchKey):
        copy(IF_PRESENT)
    etag = copy(IF_ABSENT)
    with pytest.raises(PreconditionFailed):
        copy(IF_ABSENT)
    with pytest.raises(PreconditionFailed):
        copy(Condition(if_match="another"))
    copy(Condition(if_match=etag))
    copy(IF_PRESENT)
    assert len(told_versions(lake)) == 4


@pytest.mark.parametrize("size", [0, 1000, 9 * MIB])
def test_a_copy_gets_the_checksum_that_is_asked_for(lake: Lake, tmp_path: Path, size: int) -> None:
    data = body(size)
    source = lake.objects.put(BUCKET, "key", data)
    before = segment_bytes(tmp_path)
    copy = lake.objects.copy(BUCKET, "key", BUCKET, "copy", algorithm=Algorithm.SHA256)
    assert copy.checksums == (sha256(data),)
    same = lake.objects.copy(BUCKET, "key", BUCKET, "same", algorithm=Algorithm.CRC64NVME)
    assert same.checksums == source.checksums
    assert segment_bytes(tmp_path) == before


def test_a_copy_of_an_upload_has_its_parts(lake: Lake) -> None:
    upload_id = lake.uploads.create(BUCKET, "key", algorithm=Algorithm.SHA256).upload_id
    parts = []
    for number, data in enumerate((body(5 * MIB), b"rest"), start=1):
        part = lake.uploads.put_part(BUCKET, "key", upload_id, number, data)
        parts.append(NamedPart(number, part.etag))
    source = lake.uploads.complete(BUCKET, "key", upload_id, parts)
    copy = lake.objects.copy(BUCKET, "key", BUCKET, "copy")
    assert copy.part_sizes == source.part_sizes == (5 * MIB, 4)
    assert copy.etag == source.etag
    assert copy.checksums == source.checksums
    assert copy.checksums[0].is_composite
    whole = lake.objects.copy(BUCKET, "key", BUCKET, "whole", algorithm=Algorithm.SHA256)
    assert whole.checksums == (sha256(body(5 * MIB) + b"rest"),)
    assert stored(lake, "copy") == stored(lake, "whole") == body(5 * MIB) + b"rest"
