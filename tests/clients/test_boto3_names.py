"""boto3 sends every name as it is given, and refuses none.

Its parser of XML does not take control characters, however they are written: it cannot read the
answers that name such a key, but for listings, which it asks to be percent-encoded.
"""

from __future__ import annotations

import pytest

from tests.clients.names import HOSTILE, but, called
from tests.clients.nodes import S3Client


def listed(s3: S3Client, bucket: str, **given: str) -> list[str]:
    found = s3.list_objects_v2(Bucket=bucket, **given)
    return [entry["Key"] for entry in found.get("Contents", [])]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_the_name_round_trips(s3: S3Client, bucket: str, name: str) -> None:
    data = name.encode()
    s3.put_object(Bucket=bucket, Key=name, Body=data)
    assert listed(s3, bucket) == [name]
    assert listed(s3, bucket, Prefix=name) == [name]
    assert s3.get_object(Bucket=bucket, Key=name)["Body"].read() == data
    source = {"Bucket": bucket, "Key": name}
    copy = f"C{name[1:]}"
    s3.copy_object(Bucket=bucket, Key=copy, CopySource=source)
    assert s3.get_object(Bucket=bucket, Key=copy)["Body"].read() == data
    s3.delete_object(Bucket=bucket, Key=name)
    assert listed(s3, bucket) == [copy]
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": copy}], "Quiet": True})
    assert listed(s3, bucket) == []


def test_names_are_listed_in_the_order_of_their_bytes(s3: S3Client, bucket: str) -> None:
    for name in HOSTILE.values():
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    in_order = sorted(HOSTILE.values(), key=lambda name: name.encode())
    for verb in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(verb).paginate(Bucket=bucket, PaginationConfig={"PageSize": 5})
        assert [entry["Key"] for page in pages for entry in page["Contents"]] == in_order
    folders = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Delimiter="/")
    found = [entry["Prefix"] for page in folders for entry in page.get("CommonPrefixes", [])]
    assert found == ["../", "/", "a/", "\U0001faa3/"]


def test_all_names_are_deleted_at_once(s3: S3Client, bucket: str) -> None:
    for name in HOSTILE.values():
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    doomed = [{"Key": name} for name in but("controls")]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": doomed})
    assert "Errors" not in deleted
    assert sorted(entry["Key"] for entry in deleted["Deleted"]) == sorted(but("controls"))
    assert listed(s3, bucket) == [HOSTILE["controls"]]


@pytest.mark.parametrize("name", but("controls"), ids=called)
def test_an_upload_in_parts_keeps_the_name(s3: S3Client, bucket: str, name: str) -> None:
    place = {"Bucket": bucket, "Key": name}
    upload = s3.create_multipart_upload(**place)["UploadId"]
    part = s3.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    found = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [entry["Key"] for entry in found] == [name]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload=parts)
    assert listed(s3, bucket) == [name]
