"""Multipart uploads: begun, filled, listed, aborted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote_plus

import pytest

from lakebed.base.errors import LakebedError, TooLarge
from lakebed.http.request import ClientGone
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import S3Error, to_s3
from lakebed.s3.service import Service
from lakebed.s3.verbs.multipart_upload import (
    AbortMultipartUpload,
    CreateMultipartUpload,
    abort_multipart_upload,
    create_multipart_upload,
)
from lakebed.s3.verbs.upload_parts import ListParts, UploadPart, list_parts, upload_part
from lakebed.seglake.model import Algorithm
from tests.s3.bodies import (
    LARGE_BYTES,
    UNSIGNED_TRAILER,
    crc32_of,
    etag_of,
    framed,
    md5_of,
    sent,
    signed,
    trailed_headers,
)
from tests.s3.calls import GivenBody, call, document, header, open_service, request, texts
from tests.seglake.lakes import BUCKET, body

pytestmark = pytest.mark.usefixtures("bucket")

DATA = b"a part"
LARGE = body(LARGE_BYTES)
BOTH = pytest.mark.parametrize(
    ("data", "is_streamed"),
    [(DATA, False), (b"", False), (LARGE, True)],
    ids=["small", "empty", "large"],
)


def begin(service: Service, **named: str) -> Response:
    headers = {name.replace("_", "-"): value for name, value in named.items()}
    made = request("POST", headers=headers)
    operation = CreateMultipartUpload(bucket=BUCKET, key="key")
    return call(create_multipart_upload, service, operation, made)


def begun(service: Service, **named: str) -> str:
    return texts(document(begin(service, **named)), "UploadId")[0]


def upload(
    service: Service,
    upload_id: str,
    number: int,
    data: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    is_streamed: bool = False,
    who: Identity | None = None,
) -> Response:
    operation = UploadPart(bucket=BUCKET, key="key", upload_id=upload_id, part_number=number)
    made = request("PUT", headers=headers, body=sent(data, is_streamed=is_streamed))
    return call(upload_part, service, operation, made, who)


def sizes(service: Service, upload_id: str) -> list[int]:
    return [part.size for part in service.lake.uploads.parts(BUCKET, "key", upload_id).parts]


def test_an_upload_is_begun_with_the_headers_of_its_object(service: Service) -> None:
    response = begin(service, content_type="text/x", x_amz_meta_a="b", expires="never")
    told = document(response)
    assert (texts(told, "Bucket"), texts(told, "Key")) == ([BUCKET], ["key"])
    upload_id = texts(told, "UploadId")[0]
    found = service.lake.uploads.parts(BUCKET, "key", upload_id).upload
    assert found.content.content_type == "text/x"
    assert found.content.metadata == {"a": "b"}
    assert header(response, "x-amz-checksum-algorithm") is None


@pytest.mark.parametrize(
    ("algorithm", "kind", "told"),
    [
        ("CRC32", None, "COMPOSITE"),
        ("CRC32", "FULL_OBJECT", "FULL_OBJECT"),
        ("SHA256", None, "COMPOSITE"),
        ("CRC64NVME", None, "FULL_OBJECT"),
    ],
)
def test_an_upload_is_begun_with_a_kind_of_checksum(
    service: Service, algorithm: str, kind: str | None, told: str
) -> None:
    named = {"x_amz_checksum_algorithm": algorithm}
    if kind is not None:
        named["x_amz_checksum_type"] = kind
    response = begin(service, **named)
    assert header(response, "x-amz-checksum-algorithm") == algorithm
    assert header(response, "x-amz-checksum-type") == told
    upload_id = texts(document(response), "UploadId")[0]
    found = service.lake.uploads.parts(BUCKET, "key", upload_id).upload
    assert found.algorithm is Algorithm(algorithm)
    assert found.is_composite is (told == "COMPOSITE")


def test_a_kind_of_checksum_that_cannot_be_is_refused(service: Service) -> None:
    with pytest.raises(S3Error) as refused:
        begin(service, x_amz_checksum_algorithm="SHA1", x_amz_checksum_type="FULL_OBJECT")
    assert refused.value.code == "InvalidRequest"
    assert service.lake.uploads.list(BUCKET).items == []


def test_an_upload_in_no_bucket_is_refused(service: Service) -> None:
    with pytest.raises(LakebedError) as refused:
        call(
            create_multipart_upload,
            service,
            CreateMultipartUpload(bucket="other", key="key"),
            request("POST"),
        )
    assert to_s3(refused.value).code == "NoSuchBucket"


@BOTH
def test_a_part_is_stored_and_told(service: Service, data: bytes, *, is_streamed: bool) -> None:
    upload_id = begun(service)
    headers = {"content-md5": md5_of(data)}
    response = upload(
        service, upload_id, 7, data, headers=headers, is_streamed=is_streamed, who=signed(data)
    )
    assert response.status == 200
    assert header(response, "ETag") == etag_of(data)
    assert header(response, "x-amz-checksum-crc64nvme") is not None
    assert header(response, "x-amz-version-id") is None
    assert sizes(service, upload_id) == [len(data)]


@BOTH
@pytest.mark.parametrize("algorithm", [None, "CRC32"])
def test_the_checksum_of_a_part_may_follow_it(
    service: Service, data: bytes, algorithm: str | None, *, is_streamed: bool
) -> None:
    named = {} if algorithm is None else {"x_amz_checksum_algorithm": algorithm}
    upload_id = begun(service, **named)
    wire = framed(data, trailers=[f"x-amz-checksum-crc32:{crc32_of(data)}"])
    response = upload(
        service,
        upload_id,
        1,
        wire,
        headers=trailed_headers(data),
        is_streamed=is_streamed,
        who=UNSIGNED_TRAILER,
    )
    assert header(response, "x-amz-checksum-crc32") == crc32_of(data)
    assert (header(response, "x-amz-checksum-crc64nvme") is None) is (algorithm is not None)
    wrong = framed(data, trailers=[f"x-amz-checksum-crc32:{crc32_of(b'other')}"])
    with pytest.raises(LakebedError) as refused:
        upload(
            service,
            upload_id,
            2,
            wrong,
            headers=trailed_headers(data),
            is_streamed=is_streamed,
            who=UNSIGNED_TRAILER,
        )
    assert to_s3(refused.value).code == "BadDigest"
    assert sizes(service, upload_id) == [len(data)]


@BOTH
@pytest.mark.parametrize(
    ("code", "headers", "who"),
    [
        ("BadDigest", {"content-md5": md5_of(b"other")}, None),
        ("BadDigest", {"x-amz-checksum-crc32": crc32_of(b"other")}, None),
        ("XAmzContentSHA256Mismatch", {}, signed(b"other")),
        ("IncompleteBody", {"x-amz-decoded-content-length": "1"}, None),
        ("EntityTooLarge", {"x-amz-decoded-content-length": str(5 * 1024**3 + 1)}, None),
    ],
)
def test_a_part_that_is_not_as_was_said_is_not_stored(
    service: Service,
    data: bytes,
    code: str,
    headers: Mapping[str, str],
    who: Identity | None,
    *,
    is_streamed: bool,
) -> None:
    upload_id = begun(service)
    with pytest.raises(LakebedError) as refused:
        upload(service, upload_id, 1, data, headers=headers, is_streamed=is_streamed, who=who)
    assert to_s3(refused.value).code == code
    assert sizes(service, upload_id) == []


def test_a_part_with_another_checksum_than_its_upload_is_refused(service: Service) -> None:
    upload_id = begun(service, x_amz_checksum_algorithm="SHA256")
    with pytest.raises(LakebedError) as refused:
        upload(service, upload_id, 1, DATA, headers={"x-amz-checksum-crc32": crc32_of(DATA)})
    assert to_s3(refused.value).code == "InvalidRequest"
    assert sizes(service, upload_id) == []


def test_a_part_that_breaks_off_leaves_nothing(service: Service) -> None:
    upload_id = begun(service)
    pieces = sent(LARGE[:5_000_000], is_streamed=True)
    assert isinstance(pieces, list)
    broken = GivenBody(pieces, is_whole=False, length=len(LARGE), breaks_off=True)
    operation = UploadPart(bucket=BUCKET, key="key", upload_id=upload_id, part_number=1)
    with pytest.raises(ClientGone):
        call(upload_part, service, operation, request("PUT", body=broken))
    assert sizes(service, upload_id) == []


def test_a_part_of_no_upload_is_refused(service: Service) -> None:
    with pytest.raises(LakebedError) as refused:
        upload(service, "missing", 1, DATA)
    assert to_s3(refused.value).code == "NoSuchUpload"


def listed(service: Service, upload_id: str, **asked: int) -> Response:
    operation = ListParts(bucket=BUCKET, key="key", upload_id=upload_id, **asked)  # type: ignore[arg-type]
    return call(list_parts, service, operation, request("GET"))


def test_parts_are_listed_in_pages(service: Service) -> None:
    upload_id = begun(service, x_amz_checksum_algorithm="CRC32")
    for number in (9, 2, 5):
        upload(service, upload_id, number, DATA * number)
    first = document(listed(service, upload_id, max_parts=2))
    assert texts(first, "Part/PartNumber") == ["2", "5"]
    assert texts(first, "Part/ETag") == [etag_of(DATA * 2), etag_of(DATA * 5)]
    assert texts(first, "Part/ChecksumCRC32") == [crc32_of(DATA * 2), crc32_of(DATA * 5)]
    assert texts(first, "IsTruncated") == ["true"]
    assert texts(first, "NextPartNumberMarker") == ["5"]
    assert texts(first, "MaxParts") == ["2"]
    rest = document(listed(service, upload_id, part_number_marker=5))
    assert texts(rest, "Part/PartNumber") == ["9"]
    assert texts(rest, "Part/Size") == [str(9 * len(DATA))]
    assert texts(rest, "IsTruncated") == ["false"]
    assert texts(document(listed(service, upload_id, max_parts=99_999)), "MaxParts") == ["1000"]


def test_no_parts_are_a_whole_page(service: Service) -> None:
    upload_id = begun(service)
    upload(service, upload_id, 1, DATA)
    page = document(listed(service, upload_id, max_parts=0))
    assert (texts(page, "IsTruncated"), texts(page, "MaxParts")) == (["false"], ["0"])
    assert texts(page, "Part/PartNumber") == texts(page, "NextPartNumberMarker") == []


def test_the_key_of_an_upload_is_listed_as_the_client_wants_it_encoded(service: Service) -> None:
    key = "a b/\x01+é"
    upload_id = service.lake.uploads.create(BUCKET, key).upload_id
    operation = ListParts(bucket=BUCKET, key=key, upload_id=upload_id, is_url_encoded=True)
    found = document(call(list_parts, service, operation, request("GET")))
    assert texts(found, "EncodingType") == ["url"]
    assert [unquote_plus(one) for one in texts(found, "Key")] == [key]
    assert texts(found, "Key") != [key]


def test_a_part_with_which_the_object_would_be_too_large_is_refused(tmp_path: Path) -> None:
    with open_service(tmp_path / "other", max_object_size=25, part_bytes_min=1) as service:
        service.lake.buckets.create(BUCKET)
        upload_id = begun(service)
        for number in (1, 2, 2):  # of the second, the last counts
            upload(service, upload_id, number, b"0123456789")
        for data, is_streamed in ((b"012345", False), (bytes(100_000), True)):
            with pytest.raises(TooLarge) as refused:
                upload(service, upload_id, 3, data, is_streamed=is_streamed)
            assert to_s3(refused.value).code == "EntityTooLarge"
        upload(service, upload_id, 3, b"01234")
        assert sizes(service, upload_id) == [10, 10, 5]
        uploads = service.lake.uploads
        racing = [uploads.begin_part(BUCKET, "key", upload_id, number) for number in (2, 3)]
        uploads.put_part(BUCKET, "key", upload_id, 2, b"1")
        for put in racing:
            put.write(b"0123456789")
        racing[0].finish()
        with pytest.raises(TooLarge):
            racing[1].finish()


def test_an_aborted_upload_is_gone(service: Service) -> None:
    upload_id = begun(service)
    upload(service, upload_id, 1, DATA)
    operation = AbortMultipartUpload(bucket=BUCKET, key="key", upload_id=upload_id)
    response = call(abort_multipart_upload, service, operation, request("DELETE"))
    assert (response.status, response.body) == (204, b"")
    attempts: list[Callable[[], object]] = [
        lambda: call(abort_multipart_upload, service, operation, request("DELETE")),
        lambda: listed(service, upload_id),
        lambda: upload(service, upload_id, 1, DATA),
    ]
    for again in attempts:
        with pytest.raises(LakebedError) as refused:
            again()
        assert to_s3(refused.value).code == "NoSuchUpload"
