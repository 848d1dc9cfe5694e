"""Pages of objects, versions and uploads: what botocore reads is what the store has."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakebed.http.response import Response
from lakebed.s3.errors import S3Error
from lakebed.s3.service import Service
from lakebed.s3.verbs.bucket_objects import (
    ListObjects,
    ListObjectsV2,
    list_objects,
    list_objects_v2,
)
from lakebed.s3.verbs.bucket_uploads import ListMultipartUploads, list_multipart_uploads
from lakebed.s3.verbs.bucket_versions import ListObjectVersions, list_object_versions
from lakebed.s3.xml_text import OWNER_ID
from lakebed.seglake.errors import NoSuchBucket
from lakebed.seglake.model import Algorithm, Versioning
from tests.s3.botocore_answers import understood
from tests.s3.calls import call, open_service, texts

pytestmark = pytest.mark.thorough

BUCKET = "photos"
PLAIN = ["a", "a/b", "a/b/c", "b/", "b//c", "d e+f%2F", "é/ü", "€", "😀", "..", "../x", ".", " "]
XML_HOSTILE = ["<&>\"'", "]]>", "<Key>x</Key>", "&amp;", "a\tb", "a\nb", "a\rb", "\x7f", "\x85"]
FORBIDDEN = ["\x00", "a\x01b", "\x0b", "\x1f", "\ufffe", "\uffff"]
HOSTILE = sorted(PLAIN + XML_HOSTILE + FORBIDDEN, key=str.encode)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A bucket of hostile keys, which no test changes."""
    with open_service(tmp_path_factory.mktemp("full")) as service:
        service.lake.buckets.create(BUCKET)
        for key in HOSTILE:
            service.lake.objects.put(BUCKET, key, key.encode())
        yield service


def list_v1(service: Service, **asked: Any) -> dict[str, Any]:
    operation = ListObjects(bucket=BUCKET, **{"is_url_encoded": True, **asked})
    return understood("ListObjects", call(list_objects, service, operation))


def list_v2(service: Service, **asked: Any) -> dict[str, Any]:
    operation = ListObjectsV2(bucket=BUCKET, **{"is_url_encoded": True, **asked})
    return understood("ListObjectsV2", call(list_objects_v2, service, operation))


def list_versions(service: Service, **asked: Any) -> dict[str, Any]:
    operation = ListObjectVersions(bucket=BUCKET, **{"is_url_encoded": True, **asked})
    found = call(list_object_versions, service, operation)
    return understood("ListObjectVersions", found)


def list_uploads(service: Service, **asked: Any) -> dict[str, Any]:
    operation = ListMultipartUploads(bucket=BUCKET, **asked)
    found = call(list_multipart_uploads, service, operation)
    return understood("ListMultipartUploads", found)


def entries(page: dict[str, Any]) -> list[str]:
    keys = [found["Key"] for found in page.get("Contents", ())]
    return keys + [found["Prefix"] for found in page.get("CommonPrefixes", ())]


def raw(service: Service, operation: ListObjects | ListObjectsV2) -> Response:
    verb = list_objects if isinstance(operation, ListObjects) else list_objects_v2
    return call(verb, service, operation)


def test_botocore_reads_every_hostile_key(full: Service) -> None:
    assert entries(list_v1(full)) == HOSTILE
    assert entries(list_v2(full)) == HOSTILE
    assert [found["Key"] for found in list_versions(full)["Versions"]] == HOSTILE


def test_an_entry_tells_all_that_the_store_has_of_it(full: Service) -> None:
    page = list_v2(full, fetches_owner=True)
    for found, row in zip(page["Contents"], full.lake.objects.list(BUCKET).items, strict=True):
        modified = datetime.fromtimestamp(row.modified_ms / 1000, UTC)
        assert abs((found["LastModified"] - modified).total_seconds()) < 0.0005
        assert found["ETag"] == f'"{row.etag}"'
        assert found["Size"] == row.size
        assert found["StorageClass"] == "STANDARD"
        assert found["Owner"]["ID"] == OWNER_ID
    assert "Owner" not in list_v2(full)["Contents"][0]
    assert list_v1(full)["Contents"][0]["Owner"]["ID"] == OWNER_ID


def test_without_an_encoding_every_key_that_xml_can_say_is_read(full: Service) -> None:
    keys = [key for key in HOSTILE if key not in FORBIDDEN]
    prefixes = {key[0] for key in keys}
    for prefix in sorted(prefixes):
        operation = ListObjects(bucket=BUCKET, prefix=prefix)
        body = raw(full, operation).body
        assert isinstance(body, bytes)
        if b"&#x1;" in body:
            continue
        found = ET.fromstring(body)  # noqa: S314 - we wrote it
        assert texts(found, "Contents/Key") == [key for key in keys if key.startswith(prefix)]
        assert not texts(found, "EncodingType")


def test_without_an_encoding_what_xml_cannot_say_is_a_reference(full: Service) -> None:
    body = raw(full, ListObjectsV2(bucket=BUCKET)).body
    assert isinstance(body, bytes)
    for written in (b"<Key>&#x0;</Key>", b"<Key>a&#x1;b</Key>", b"<Key>&#xFFFF;</Key>"):
        assert written in body


@pytest.mark.parametrize("delimiter", ["", "/", "a", "//", "\x01", "€"])
@pytest.mark.parametrize("max_keys", [1, 2, 7, 1000])
@pytest.mark.parametrize("prefix", ["", "a", "b/", "\x01"])
def test_pages_go_on_where_the_last_one_ended(
    full: Service, delimiter: str, max_keys: int, prefix: str
) -> None:
    asked = {"delimiter": delimiter, "max_keys": max_keys, "prefix": prefix}
    page = full.lake.objects.list(BUCKET, prefix=prefix, delimiter=delimiter)
    expected = sorted([row.key for row in page.items] + page.prefixes)
    assert sorted(_all_v1(full, **asked)) == expected
    assert sorted(_all_v2(full, **asked)) == expected


def _all_v1(service: Service, **asked: Any) -> list[str]:
    found: list[str] = []
    page = list_v1(service, **asked)
    while True:
        found += entries(page)
        if not page["IsTruncated"]:
            assert "NextMarker" not in page
            return found
        page = list_v1(service, **asked, marker=page["NextMarker"])


def _all_v2(service: Service, **asked: Any) -> list[str]:
    found: list[str] = []
    page = list_v2(service, **asked)
    while True:
        assert page["KeyCount"] == len(entries(page))
        found += entries(page)
        if not page["IsTruncated"]:
            assert "NextContinuationToken" not in page
            return found
        token = page["NextContinuationToken"]
        page = list_v2(service, **asked, continuation_token=token, start_after="\uffff")
        assert page["ContinuationToken"] == token


def test_what_was_asked_for_is_told_again(full: Service) -> None:
    page = list_v1(full, prefix="a&", delimiter="\r", marker="a b", max_keys=5000)
    assert page["Name"] == BUCKET
    assert page["Delimiter"] == "\r"
    assert page["Marker"] == "a b"
    assert page["EncodingType"] == "url"
    assert page["MaxKeys"] == 1000
    assert page["Prefix"] == "a%26"  # botocore does not decode this one
    page = list_v2(full, prefix="a&", start_after="é", max_keys=7)
    assert (page["Prefix"], page["StartAfter"], page["MaxKeys"]) == ("a&", "é", 7)


def test_no_keys_are_a_whole_page(full: Service) -> None:
    for page in (list_v1(full, max_keys=0), list_v2(full, max_keys=0)):
        assert (entries(page), page["IsTruncated"], page["MaxKeys"]) == ([], False, 0)
    assert list_versions(full, max_keys=0)["IsTruncated"] is False
    assert list_uploads(full, max_keys=0)["IsTruncated"] is False


def test_a_token_that_was_not_given_out_is_refused(full: Service) -> None:
    token = list_v2(full, max_keys=1)["NextContinuationToken"]
    other = ListObjectsV2(bucket="another", continuation_token=token)
    for forged in ("x", "a" * 40, token[:-4], token[1:], "A" + token[1:], token + "AAAA", "é"):
        with pytest.raises(S3Error) as caught:
            list_v2(full, continuation_token=forged)
        assert caught.value.code == "InvalidArgument"
        assert ("ArgumentName", "continuation-token") in caught.value.details
    with pytest.raises(S3Error, match="continuation token"):
        call(list_objects_v2, full, other)


def test_a_bucket_that_is_not_there_has_no_pages(full: Service) -> None:
    asked: list[tuple[Callable[..., Any], object]] = [
        (list_objects, ListObjects(bucket="none")),
        (list_objects_v2, ListObjectsV2(bucket="none")),
        (list_object_versions, ListObjectVersions(bucket="none")),
        (list_multipart_uploads, ListMultipartUploads(bucket="none")),
    ]
    for verb, operation in asked:
        with pytest.raises(NoSuchBucket):
            call(verb, full, operation)


@pytest.mark.parametrize("max_keys", [1, 3, 1000])
def test_versions_and_markers_are_told_in_their_order(tmp_path: Path, max_keys: int) -> None:
    with open_service(tmp_path) as service:
        service.lake.buckets.create(BUCKET)
        for key in ("a", "b\r\x01", "b\r\x01", "c/d", "e"):
            service.lake.objects.put(BUCKET, key, b"x" * len(key))
        service.lake.objects.delete(BUCKET, "b\r\x01")
        service.lake.buckets.set_versioning(BUCKET, Versioning.SUSPENDED)
        service.lake.objects.put(BUCKET, "e", b"null")
        versions, markers, prefixes = [], [], []
        asked: dict[str, Any] = {}
        while True:
            page = list_versions(service, delimiter="/", max_keys=max_keys, **asked)
            versions += page.get("Versions", [])
            markers += page.get("DeleteMarkers", [])
            prefixes += page.get("CommonPrefixes", [])
            if not page["IsTruncated"]:
                break
            asked = {
                "key_marker": page["NextKeyMarker"],
                "version_id_marker": page.get("NextVersionIdMarker"),
            }
        rows = service.lake.objects.list_versions(BUCKET, delimiter="/").items
        told = [
            (row.key, "null" if row.is_null else row.version_id, is_latest)
            for row, is_latest in rows
        ]
        found = [(one["Key"], one["VersionId"], one["IsLatest"]) for one in versions + markers]
        assert sorted(found) == sorted(told)
        assert [(one["Key"], one["IsLatest"]) for one in markers] == [("b\r\x01", True)]
        assert prefixes == [{"Prefix": "c/"}]
        assert [one["Size"] for one in versions if one["Key"] == "e"] == [4, 1]


def test_an_unversioned_bucket_lists_null_versions(service: Service) -> None:
    service.lake.buckets.create(BUCKET, versioning=Versioning.DISABLED)
    for key in ("a", "b", "b"):
        service.lake.objects.put(BUCKET, key, b"")
    found = list_versions(service)["Versions"]
    told = [(one["Key"], one["VersionId"], one["IsLatest"]) for one in found]
    assert told == [("a", "null", True), ("b", "null", True)]


def test_an_unversioned_bucket_lists_no_versions_if_the_specification_is_followed(
    tmp_path: Path,
) -> None:
    with open_service(tmp_path / "other", spec_version_listing=True) as service:
        service.lake.buckets.create(BUCKET, versioning=Versioning.DISABLED)
        service.lake.objects.put(BUCKET, "a", b"")
        page = list_versions(service)
        assert "Versions" not in page
        assert not page["IsTruncated"]


def test_uploads_under_way_are_told_with_their_checksums(service: Service) -> None:
    service.lake.buckets.create(BUCKET)
    begun = [
        service.lake.uploads.create(BUCKET, "a & b", algorithm=Algorithm.SHA256),
        service.lake.uploads.create(BUCKET, "a & b"),
        service.lake.uploads.create(BUCKET, "c/d", algorithm=Algorithm.CRC64NVME),
    ]
    page = list_uploads(service)
    assert sorted((one["Key"], one["UploadId"]) for one in page["Uploads"]) == sorted(
        (one.key, one.upload_id) for one in begun
    )
    by_id = {one["UploadId"]: one for one in page["Uploads"]}
    first, second, third = (by_id[one.upload_id] for one in begun)
    assert (first["ChecksumAlgorithm"], first["ChecksumType"]) == ("SHA256", "COMPOSITE")
    assert "ChecksumAlgorithm" not in second
    assert (third["ChecksumAlgorithm"], third["ChecksumType"]) == ("CRC64NVME", "FULL_OBJECT")
    assert first["Initiator"]["ID"] == first["Owner"]["ID"] == OWNER_ID
    assert first["StorageClass"] == "STANDARD"
    assert (page["Bucket"], page["MaxUploads"], page["IsTruncated"]) == (BUCKET, 1000, False)


def test_pages_of_uploads_go_on_where_the_last_one_ended(service: Service) -> None:
    service.lake.buckets.create(BUCKET)
    for key in ("a", "a", "b/c", "b/d", "e\r", "e\r"):
        service.lake.uploads.create(BUCKET, key)
    found: list[str] = []
    asked: dict[str, Any] = {}
    while True:
        page = list_uploads(service, delimiter="/", max_keys=1, **asked)
        found += [one["Key"] for one in page.get("Uploads", ())]
        found += [one["Prefix"] for one in page.get("CommonPrefixes", ())]
        if not page["IsTruncated"]:
            break
        asked = {
            "key_marker": page["NextKeyMarker"],
            "upload_id_marker": page.get("NextUploadIdMarker"),
        }
    assert found == ["a", "a", "b/", "e\r", "e\r"]
