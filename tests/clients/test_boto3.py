"""boto3, as it comes."""

from __future__ import annotations

import hashlib
import io
from base64 import b64encode
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped,unused-ignore]
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.httpchecksum import StreamingChecksumBody

from lakebed.base.units import KIB, MIB
from tests.clients.nodes import S3Client, s3_client
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body

DIGITS = b"123456789"  # whose checksums are published
IN_PARTS = TransferConfig(multipart_threshold=MIB, multipart_chunksize=5 * MIB)


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_an_object_comes_back_with_all_that_was_given(s3: S3Client, bucket: str) -> None:
    data = body(100 * KIB)
    given = {
        "ContentType": "text/x-lines; charset=utf-8",
        "CacheControl": "max-age=60, private",
        "ContentDisposition": 'attachment; filename="a b"',
        "ContentEncoding": "zstd",
        "ContentLanguage": "de, fr",
        "Metadata": {"colour": "blue", "spaces": "a  b", "empty": ""},
    }
    put = s3.put_object(Bucket=bucket, Key="key", Body=data, **given)
    got = s3.get_object(Bucket=bucket, Key="key")
    head = s3.head_object(Bucket=bucket, Key="key")
    assert got["Body"].read() == data
    for name, value in given.items():
        assert got[name] == head[name] == value
    assert got["ContentLength"] == head["ContentLength"] == len(data)
    assert got["ETag"] == head["ETag"] == put["ETag"]
    assert got.get("VersionId") == put.get("VersionId")


def test_the_checksum_of_the_client_is_kept_and_verified(s3: S3Client, bucket: str) -> None:
    """Without being asked, it sends a CRC-32 and verifies what comes back."""
    put = s3.put_object(Bucket=bucket, Key="key", Body=DIGITS)
    assert put["ChecksumCRC32"] == "y/Q5Jg=="
    got = s3.get_object(Bucket=bucket, Key="key")
    assert got["ChecksumCRC32"] == put["ChecksumCRC32"]
    assert isinstance(got["Body"], StreamingChecksumBody)
    assert got["Body"].read() == DIGITS


@pytest.mark.parametrize(
    ("algorithm", "value"),
    [
        ("CRC32C", "4waSgw=="),
        ("CRC64NVME", "rosUhgp5mIg="),
        ("SHA1", b64encode(hashlib.sha1(DIGITS).digest()).decode()),  # noqa: S324
        ("SHA256", b64encode(hashlib.sha256(DIGITS).digest()).decode()),
    ],
)
def test_every_checksum_is_taken(s3: S3Client, bucket: str, algorithm: str, value: str) -> None:
    s3.put_object(Bucket=bucket, Key="key", Body=DIGITS, ChecksumAlgorithm=algorithm)
    head = s3.head_object(Bucket=bucket, Key="key", ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == value
    got = s3.get_object(Bucket=bucket, Key="key")
    assert got["Body"].read() == DIGITS


def test_a_wrong_checksum_is_refused_and_writes_nothing(s3: S3Client, bucket: str) -> None:
    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket=bucket, Key="key", Body=b"other", ChecksumCRC32="y/Q5Jg==")
    assert code_of(refused) == "BadDigest"
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_no_checksum_is_made_a_crc_64(endpoint: Endpoint, bucket: str) -> None:
    quiet = s3_client(endpoint, config=Config(request_checksum_calculation="when_required"))
    quiet.put_object(Bucket=bucket, Key="key", Body=DIGITS)
    got = quiet.get_object(Bucket=bucket, Key="key", ChecksumMode="ENABLED")
    assert got["ChecksumCRC64NVME"] == "rosUhgp5mIg="
    assert got["ChecksumType"] == "FULL_OBJECT"
    got["Body"].close()
    quiet.close()


def test_a_file_goes_up_in_parts_and_comes_back(s3: S3Client, bucket: str, tmp_path: Path) -> None:
    data = body(11 * MIB)
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(data)
    s3.upload_file(str(sent), bucket, "key", Config=IN_PARTS)
    head = s3.head_object(Bucket=bucket, Key="key", ChecksumMode="ENABLED")
    assert head["ETag"].endswith('-3"')
    assert head["ChecksumType"] == "COMPOSITE"
    assert head["ChecksumCRC32"].endswith("-3")
    s3.download_file(bucket, "key", str(received), Config=IN_PARTS)
    assert received.read_bytes() == data
    second = s3.get_object(Bucket=bucket, Key="key", PartNumber=2)
    assert second["PartsCount"] == 3
    assert second["Body"].read() == data[5 * MIB : 10 * MIB]


def test_an_upload_is_listed_and_aborted(s3: S3Client, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="a b/+")["UploadId"]
    place = {"Bucket": bucket, "Key": "a b/+", "UploadId": upload}
    for number in (3, 1, 2):
        s3.upload_part(**place, PartNumber=number, Body=body(KIB, seed=number))
    first = s3.list_parts(**place, MaxParts=2)
    assert [part["PartNumber"] for part in first["Parts"]] == [1, 2]
    rest = s3.list_parts(**place, PartNumberMarker=first["NextPartNumberMarker"])
    assert [(part["PartNumber"], part["Size"]) for part in rest["Parts"]] == [(3, KIB)]
    listed = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(found["Key"], found["UploadId"]) for found in listed] == [("a b/+", upload)]
    s3.abort_multipart_upload(**place)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    with pytest.raises(ClientError) as refused:
        s3.list_parts(**place)
    assert code_of(refused) == "NoSuchUpload"


def test_parts_are_copied_from_ranges_of_an_object(s3: S3Client, bucket: str) -> None:
    data = body(200 * KIB)
    s3.put_object(Bucket=bucket, Key="source +", Body=data)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="copy")["UploadId"]
    place = {"Bucket": bucket, "Key": "copy", "UploadId": upload}
    parts = []
    for number, span in ((1, (100 * KIB, 200 * KIB)), (2, (0, 10))):
        copied = s3.upload_part_copy(
            **place,
            PartNumber=number,
            CopySource={"Bucket": bucket, "Key": "source +"},
            CopySourceRange=f"bytes={span[0]}-{span[1] - 1}",
        )
        parts.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    got = s3.get_object(Bucket=bucket, Key="copy")["Body"].read()
    assert got == data[100 * KIB :] + data[:10]


@pytest.mark.parametrize(
    ("asked", "span"),
    [("bytes=0-0", (0, 1)), ("bytes=10-19", (10, 20)), ("bytes=95-", (95, 100)),
     ("bytes=-7", (93, 100)), ("bytes=90-1000", (90, 100))],
)  # fmt: skip
def test_a_range_comes_back(s3: S3Client, bucket: str, asked: str, span: tuple[int, int]) -> None:
    data = body(100)
    s3.put_object(Bucket=bucket, Key="key", Body=data)
    got = s3.get_object(Bucket=bucket, Key="key", Range=asked)
    assert got["Body"].read() == data[slice(*span)]
    assert got["ContentRange"] == f"bytes {span[0]}-{span[1] - 1}/100"
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206


def test_listings_turn_pages_by_delimiter(s3: S3Client, bucket: str) -> None:
    names = [f"{folder}/{number}" for folder in "abc" for number in range(5)]
    names += [f"top {number}" for number in range(5)]
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    for verb in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(verb)
        flat = pages.paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
        found = [[key["Key"] for key in page["Contents"]] for page in flat]
        assert [len(page) for page in found] == [3] * 6 + [2]
        assert [name for page in found for name in page] == sorted(names)
        deep = pages.paginate(Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": 2})
        seen = list(deep)
        folders = [f["Prefix"] for page in seen for f in page.get("CommonPrefixes", [])]
        files = [key["Key"] for page in seen for key in page.get("Contents", [])]
        assert folders == ["a/", "b/", "c/"]
        assert files == names[15:]
        assert len(seen) == 4
    under = s3.list_objects_v2(Bucket=bucket, Prefix="b/", StartAfter="b/2")["Contents"]
    assert [key["Key"] for key in under] == ["b/3", "b/4"]


def test_a_copy_keeps_or_replaces_the_metadata(s3: S3Client, bucket: str) -> None:
    data = body(100 * KIB)
    s3.put_object(Bucket=bucket, Key="a", Body=data, ContentType="a/b", Metadata={"x": "1"})
    source = {"Bucket": bucket, "Key": "a"}
    s3.copy_object(Bucket=bucket, Key="kept", CopySource=source)
    s3.copy_object(
        Bucket=bucket,
        Key="replaced",
        CopySource=source,
        MetadataDirective="REPLACE",
        ContentType="c/d",
        Metadata={"y": "2"},
    )
    for key, kind, metadata in (("kept", "a/b", {"x": "1"}), ("replaced", "c/d", {"y": "2"})):
        got = s3.get_object(Bucket=bucket, Key=key)
        assert (got["ContentType"], got["Metadata"]) == (kind, metadata)
        assert got["Body"].read() == data


def test_a_managed_copy_goes_in_parts(s3: S3Client, bucket: str) -> None:
    data = body(6 * MIB)
    s3.put_object(Bucket=bucket, Key="source", Body=data, Metadata={"x": "1"})
    s3.copy({"Bucket": bucket, "Key": "source"}, bucket, "copy", Config=IN_PARTS)
    got = s3.get_object(Bucket=bucket, Key="copy")
    assert got["ETag"].endswith('-2"')
    assert got["Body"].read() == data


def test_many_objects_are_deleted_at_once(s3: S3Client, bucket: str) -> None:
    names = [f"{number:04}" for number in range(40)]
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=b"x")
    doomed = [{"Key": name} for name in [*names[1:], "was never there"]]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": doomed})
    assert sorted(found["Key"] for found in deleted["Deleted"]) == sorted(
        found["Key"] for found in doomed
    )
    assert "Errors" not in deleted
    left = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [found["Key"] for found in left] == ["0000"]
    silent = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "0000"}], "Quiet": True})
    assert "Deleted" not in silent


def test_presigned_urls_get_and_put(endpoint: Endpoint, s3: S3Client, bucket: str) -> None:
    """boto3 has to be told: where no region is named, it presigns by version 2."""
    place = {"Bucket": bucket, "Key": "a b/ü+%2F"}
    with pytest.raises(HTTPError) as refused:
        urlopen(s3.generate_presigned_url("get_object", Params=place))  # noqa: S310
    assert b"Please use AWS4-HMAC-SHA256" in refused.value.read()
    signing = s3_client(endpoint, config=Config(signature_version="s3v4"))
    url = signing.generate_presigned_url("put_object", Params={**place, "ContentType": "a/b"})
    put = Request(url, data=b"by a browser", method="PUT", headers={"Content-Type": "a/b"})  # noqa: S310
    with urlopen(put) as answer:  # noqa: S310
        assert answer.status == 200
    given = {**place, "ResponseContentType": "c/d", "ResponseContentDisposition": "inline"}
    with urlopen(signing.generate_presigned_url("get_object", Params=given)) as answer:  # noqa: S310
        assert answer.read() == b"by a browser"
        assert answer.headers["Content-Type"] == "c/d"
        assert answer.headers["Content-Disposition"] == "inline"
    assert s3.head_object(**place)["ContentType"] == "a/b"
    signing.close()


def test_virtual_hosted_names_lead_to_the_bucket(
    endpoint: Endpoint, s3: S3Client, bucket: str
) -> None:
    """Few resolvers know `<bucket>.localhost`, so the node is also the proxy that is asked."""
    config = Config(s3={"addressing_style": "virtual"}, proxies={"http": endpoint.url})
    hosted = s3_client(endpoint, url=f"http://localhost:{endpoint.port}", config=config)
    sent: list[str] = []
    hosted.meta.events.register("before-send.s3", lambda request, **_: sent.append(request.url))
    hosted.put_object(Bucket=bucket, Key="a b//c", Body=b"hosted")
    assert sent == [f"http://{bucket}.localhost:{endpoint.port}/a%20b//c"]
    assert s3.get_object(Bucket=bucket, Key="a b//c")["Body"].read() == b"hosted"
    assert [found["Key"] for found in hosted.list_objects_v2(Bucket=bucket)["Contents"]] == [
        "a b//c"
    ]
    hosted.close()


def test_conditions_are_kept(s3: S3Client, bucket: str) -> None:
    first = s3.put_object(Bucket=bucket, Key="key", Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"0123"'}):
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket=bucket, Key="key", Body=b"2", **condition)
        assert code_of(refused) == "PreconditionFailed"
    with pytest.raises(ClientError) as refused:
        s3.get_object(Bucket=bucket, Key="key", IfNoneMatch=first)
    assert code_of(refused) == "304"
    s3.put_object(Bucket=bucket, Key="key", Body=b"2", IfMatch=first)
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == b"2"


def test_a_stream_of_unknown_length_goes_up(s3: S3Client, bucket: str) -> None:
    class Unseekable(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._left = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            return self._left.read(size)

    data = body(6 * MIB)
    s3.upload_fileobj(Unseekable(data), bucket, "key", Config=IN_PARTS)
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == data
