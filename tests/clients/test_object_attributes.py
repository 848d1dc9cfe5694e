"""GetObjectAttributes as boto3 asks for it, over the wire."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakebed.base.units import KIB
from tests.clients.conftest import PART_BYTES_MIN
from tests.clients.nodes import S3Client

ALL = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
DATA = b"123456789"  # whose checksums are published
FULL, COMPOSITE = "FULL_OBJECT", "COMPOSITE"


def attributes(s3: S3Client, bucket: str, *names: str, **more: Any) -> dict[str, Any]:
    """The answer without its metadata."""
    arguments = {"Key": "key", "ObjectAttributes": list(names or ALL), **more}
    answer: dict[str, Any] = s3.get_object_attributes(Bucket=bucket, **arguments)
    answer.pop("ResponseMetadata")
    return answer


def refusal(s3: S3Client, bucket: str, *names: str, **more: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as refused:
        attributes(s3, bucket, *names, **more)
    answer: dict[str, Any] = refused.value.response
    return answer


@contextmanager
def sending(s3: S3Client, **headers: str) -> Iterator[None]:
    """Adds headers that boto3 itself would not send, before it signs."""

    def change(params: dict[str, Any], **_: Any) -> None:
        params["headers"] |= {name.replace("_", "-"): value for name, value in headers.items()}

    event = "before-call.s3.GetObjectAttributes"
    s3.meta.events.register(event, change)
    try:
        yield
    finally:
        s3.meta.events.unregister(event, change)


def put_in_parts(s3: S3Client, bucket: str, *sizes: int, kind: str, algorithm: str) -> None:
    upload_id = s3.create_multipart_upload(
        Bucket=bucket, Key="key", ChecksumAlgorithm=algorithm, ChecksumType=kind
    )["UploadId"]
    parts = []
    for number, size in enumerate(sizes, start=1):
        sent = s3.upload_part(
            Bucket=bucket,
            Key="key",
            UploadId=upload_id,
            PartNumber=number,
            Body=bytes(size),
            ChecksumAlgorithm=algorithm,
        )
        checksum = f"Checksum{algorithm}"
        parts.append({"PartNumber": number, "ETag": sent["ETag"], checksum: sent[checksum]})
    s3.complete_multipart_upload(
        Bucket=bucket, Key="key", UploadId=upload_id, MultipartUpload={"Parts": parts}
    )


def test_all_attributes_of_an_object_are_returned(s3: S3Client, bucket: str) -> None:
    put = s3.put_object(Bucket=bucket, Key="key", Body=DATA, ChecksumAlgorithm="CRC32")
    head = s3.head_object(Bucket=bucket, Key="key")
    answer = attributes(s3, bucket)
    assert answer.pop("LastModified") == head["LastModified"]
    assert answer.pop("VersionId", None) == put.get("VersionId")
    assert answer == {
        "ETag": hashlib.md5(DATA, usedforsecurity=False).hexdigest(),
        "Checksum": {"ChecksumCRC32": "y/Q5Jg==", "ChecksumType": FULL},
        "StorageClass": "STANDARD",
        "ObjectSize": len(DATA),
    }


@pytest.mark.parametrize("name", ALL)
def test_only_requested_attributes_are_returned(s3: S3Client, bucket: str, name: str) -> None:
    put_in_parts(s3, bucket, PART_BYTES_MIN, 5, kind=FULL, algorithm="CRC32")
    answer = attributes(s3, bucket, name)
    assert set(answer) - {"LastModified", "VersionId"} == {name}


def test_an_object_without_bytes_has_attributes(s3: S3Client, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="key", Body=b"")
    assert attributes(s3, bucket, "ObjectSize", "ObjectParts")["ObjectSize"] == 0


def test_parts_are_counted_and_not_listed_under_a_checksum_of_the_whole(
    s3: S3Client, bucket: str
) -> None:
    put_in_parts(s3, bucket, PART_BYTES_MIN, 5, kind=FULL, algorithm="CRC32")
    answer = attributes(s3, bucket)
    assert answer["ObjectParts"] == {"TotalPartsCount": 2}
    assert answer["Checksum"]["ChecksumType"] == FULL
    assert answer["ObjectSize"] == PART_BYTES_MIN + 5


def test_parts_are_listed_page_by_page_under_a_composite_checksum(
    s3: S3Client, bucket: str
) -> None:
    sizes = [PART_BYTES_MIN, PART_BYTES_MIN + KIB, 5]
    put_in_parts(s3, bucket, *sizes, kind=COMPOSITE, algorithm="SHA256")
    assert attributes(s3, bucket)["Checksum"]["ChecksumType"] == COMPOSITE
    listed = [{"PartNumber": number, "Size": size} for number, size in enumerate(sizes, start=1)]
    page = attributes(s3, bucket, "ObjectParts", MaxParts=2)["ObjectParts"]
    assert page == {
        "TotalPartsCount": 3,
        "PartNumberMarker": 0,
        "NextPartNumberMarker": 2,
        "MaxParts": 2,
        "IsTruncated": True,
        "Parts": listed[:2],
    }
    marker = page["NextPartNumberMarker"]
    rest = attributes(s3, bucket, "ObjectParts", PartNumberMarker=marker)["ObjectParts"]
    assert rest == {
        "TotalPartsCount": 3,
        "PartNumberMarker": 2,
        "NextPartNumberMarker": 3,
        "MaxParts": 1000,
        "IsTruncated": False,
        "Parts": listed[2:],
    }
    beyond = attributes(s3, bucket, "ObjectParts", PartNumberMarker=10_000)["ObjectParts"]
    assert (beyond["IsTruncated"], beyond.get("Parts")) == (False, None)


@pytest.mark.parametrize("value", ["0", "-1", "ten", "٣", "1_0", "9" * 5000, " ", "1.5", "1001"])
def test_a_bad_number_of_parts_is_ignored_as_by_aws(s3: S3Client, bucket: str, value: str) -> None:
    put_in_parts(s3, bucket, PART_BYTES_MIN, 5, kind=COMPOSITE, algorithm="SHA1")
    sent = value.encode().decode("latin-1")
    with sending(s3, x_amz_max_parts=sent):
        answer = attributes(s3, bucket, "ObjectParts")["ObjectParts"]
    assert (answer["MaxParts"], len(answer["Parts"])) == (1000, 2)


@pytest.mark.parametrize("value", ["-1", "ten", "1_0", "9" * 5000, "1.5", "<&>"])
def test_a_bad_marker_is_refused_with_its_name_and_value(
    s3: S3Client, bucket: str, value: str
) -> None:
    s3.put_object(Bucket=bucket, Key="key", Body=DATA)
    with sending(s3, x_amz_part_number_marker=value):
        error = refusal(s3, bucket)["Error"]
    assert error["Code"] == "InvalidArgument"
    assert (error["ArgumentName"], error["ArgumentValue"]) == ("x-amz-part-number-marker", value)


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (["Dummy"], "Dummy"),
        (["ETag", "etag"], "etag"),
        (["ETag", "<a>&amp;"], "<a>&amp;"),
        (["ETag", ""], ""),
        (["*"], "*"),
    ],
)
def test_an_attribute_that_s3_does_not_have_is_refused(
    s3: S3Client, bucket: str, names: list[str], value: str
) -> None:
    s3.put_object(Bucket=bucket, Key="key", Body=DATA)
    error = refusal(s3, bucket, *names)["Error"]
    assert (error["Code"], error["Message"]) == (
        "InvalidArgument",
        "Invalid attribute name specified.",
    )
    assert error["ArgumentName"] == "x-amz-object-attributes"
    assert (error["ArgumentValue"] or "") == value


def test_without_attributes_the_request_is_refused_and_is_no_plain_get(
    s3: S3Client, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="key", Body=DATA)
    answer = refusal(s3, bucket, ObjectAttributes=[])
    assert answer["Error"]["Code"] == "InvalidArgument"


def test_names_may_have_spaces_between_them_and_come_twice(s3: S3Client, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="key", Body=DATA)
    with sending(s3, x_amz_object_attributes="ETag , ObjectSize,ETag"):
        answer = attributes(s3, bucket)
    assert set(answer) - {"LastModified", "VersionId"} == {"ETag", "ObjectSize"}


def test_a_version_is_read_by_its_id_and_a_delete_marker_is_refused(
    s3: S3Client, bucket: str
) -> None:
    first = s3.put_object(Bucket=bucket, Key="key", Body=b"1")
    s3.put_object(Bucket=bucket, Key="key", Body=b"22")
    deleted = s3.delete_object(Bucket=bucket, Key="key")
    gone = refusal(s3, bucket)
    assert (gone["Error"]["Code"], gone["ResponseMetadata"]["HTTPStatusCode"]) == ("NoSuchKey", 404)
    if "VersionId" not in first:
        return
    assert gone["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"] == "true"
    answer = attributes(s3, bucket, "ObjectSize", VersionId=first["VersionId"])
    assert (answer["ObjectSize"], answer["VersionId"]) == (1, first["VersionId"])
    marker = refusal(s3, bucket, VersionId=deleted["VersionId"])
    headers = marker["ResponseMetadata"]["HTTPHeaders"]
    assert marker["Error"]["Code"] == "MethodNotAllowed"
    assert marker["ResponseMetadata"]["HTTPStatusCode"] == 405
    assert headers["x-amz-delete-marker"] == "true"
    assert headers["x-amz-version-id"] == deleted["VersionId"]
    assert headers["last-modified"]


def test_what_is_not_there_has_no_attributes(s3: S3Client, bucket: str) -> None:
    assert refusal(s3, bucket)["Error"]["Code"] == "NoSuchKey"
    assert refusal(s3, f"{bucket}-none")["Error"]["Code"] == "NoSuchBucket"
    s3.put_object(Bucket=bucket, Key="key", Body=DATA)
    assert refusal(s3, bucket, VersionId="0" * 32)["Error"]["Code"] == "NoSuchVersion"


def test_conditions_hold_as_for_a_get(s3: S3Client, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="key", Body=DATA)
    answer = attributes(s3, bucket)
    with sending(s3, if_match=f'"{answer["ETag"]}"'):
        assert attributes(s3, bucket) == answer
    with sending(s3, if_match='"another"'):
        assert refusal(s3, bucket)["Error"]["Code"] == "PreconditionFailed"
    with sending(s3, if_none_match=f'"{answer["ETag"]}"'):
        assert refusal(s3, bucket)["ResponseMetadata"]["HTTPStatusCode"] == 304
    later = answer["LastModified"] + timedelta(days=1)
    with sending(s3, if_modified_since=later.strftime("%a, %d %b %Y %H:%M:%S GMT")):
        assert refusal(s3, bucket)["ResponseMetadata"]["HTTPStatusCode"] == 304
