"""CompleteMultipartUpload: parts become an object, or stay what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from lakebed.base.errors import LakebedError
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import to_s3
from lakebed.s3.service import Service
from lakebed.s3.verbs.multipart_upload import CompleteMultipartUpload, complete_multipart_upload
from lakebed.seglake.digests import BodyDigests
from lakebed.seglake.model import Algorithm, Versioning
from tests.s3.bodies import crc32_of, md5_of, sent, signed
from tests.s3.calls import call, document, header, open_service, request, target, texts
from tests.seglake.lakes import BUCKET, add_bucket, keys, stored

ONE, TWO = b"part one", b"part two!"
WHOLE = ONE + TWO


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_service(tmp_path, part_bytes_min=5) as opened:
        opened.lake.buckets.create(BUCKET)
        yield opened


def uploaded(
    service: Service,
    parts: Sequence[bytes] = (ONE, TWO),
    *,
    algorithm: Algorithm | None = None,
    bucket: str = BUCKET,
) -> str:
    uploads = service.lake.uploads
    upload_id = uploads.create(bucket, "key", algorithm=algorithm).upload_id
    for number, data in enumerate(parts, start=1):
        uploads.put_part(bucket, "key", upload_id, number, data)
    return upload_id


def etag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def named(*parts: tuple[int, bytes], more: str = "") -> bytes:
    elements = [
        f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{etag(data)}&quot;</ETag>{more}</Part>"
        for number, data in parts
    ]
    return f"<CompleteMultipartUpload>{''.join(elements)}</CompleteMultipartUpload>".encode()


BOTH_NAMED = named((1, ONE), (2, TWO))


def complete(
    service: Service,
    upload_id: str,
    data: bytes = BOTH_NAMED,
    *,
    headers: Mapping[str, str] | None = None,
    who: Identity | None = None,
    is_streamed: bool = False,
    bucket: str = BUCKET,
) -> Response:
    operation = CompleteMultipartUpload(bucket=bucket, key="key", upload_id=upload_id)
    made = request(
        "POST",
        target(bucket, "key", uploadId=upload_id),
        headers=headers,
        body=sent(data, is_streamed=is_streamed),
    )
    return call(complete_multipart_upload, service, operation, made, who)


def refusal(
    service: Service,
    upload_id: str,
    data: bytes = BOTH_NAMED,
    *,
    headers: Mapping[str, str] | None = None,
    who: Identity | None = None,
) -> str:
    """How it is refused; the upload is as it was then."""
    before = service.lake.uploads.list(BUCKET).items
    with pytest.raises(LakebedError) as refused:
        complete(service, upload_id, data, headers=headers, who=who)
    assert keys(service.lake) == []
    assert service.lake.uploads.list(BUCKET).items == before
    return to_s3(refused.value).code


@pytest.mark.parametrize("is_streamed", [False, True])
def test_parts_become_an_object(service: Service, *, is_streamed: bool) -> None:
    upload_id = uploaded(service)
    response = complete(service, upload_id, who=signed(BOTH_NAMED), is_streamed=is_streamed)
    told = document(response)
    info = service.lake.objects.head(BUCKET, "key")
    assert response.status == 200
    assert header(response, "x-amz-version-id") == info.version_id
    assert texts(told, "ETag") == [f'"{info.etag}"']
    assert info.etag.endswith("-2")
    assert texts(told, "Location") == [f"http://127.0.0.1:9000/{BUCKET}/key"]
    assert texts(told, "ChecksumCRC64NVME") == [info.checksums[0].value]
    assert texts(told, "ChecksumType") == ["FULL_OBJECT"]
    assert stored(service.lake, "key") == WHOLE


def test_some_of_the_parts_become_an_object(service: Service) -> None:
    complete(service, uploaded(service), named((2, TWO)))
    assert stored(service.lake, "key") == TWO


def test_an_answer_that_was_lost_is_given_again(service: Service) -> None:
    upload_id = uploaded(service)
    first = document(complete(service, upload_id))
    again = complete(service, upload_id)
    assert texts(document(again), "ETag") == texts(first, "ETag")
    assert len(service.lake.objects.list_versions(BUCKET).items) == 1
    with pytest.raises(LakebedError) as refused:
        complete(service, upload_id, named((1, ONE)))
    assert to_s3(refused.value).code == "NoSuchUpload"
    with pytest.raises(LakebedError) as refused:
        complete(service, "f" * 32)  # which began later than the object was made
    assert to_s3(refused.value).code == "NoSuchUpload"
    complete(service, uploaded(service, [TWO, ONE]), named((1, TWO), (2, ONE)))
    with pytest.raises(LakebedError) as refused:
        complete(service, upload_id)
    assert to_s3(refused.value).code == "NoSuchUpload"


@pytest.mark.parametrize("upload_id", ["missing", "", "ä", "f" * 32, "0" * 11 + "g"])
def test_an_upload_that_never_was_is_not_completed(service: Service, upload_id: str) -> None:
    assert refusal(service, upload_id) == "NoSuchUpload"


def test_parts_that_are_not_there_or_not_in_order(service: Service) -> None:
    upload_id = uploaded(service)
    assert refusal(service, upload_id, named((1, ONE), (3, TWO))) == "InvalidPart"
    assert refusal(service, upload_id, named((1, ONE), (2, ONE))) == "InvalidPart"
    assert refusal(service, upload_id, named((2, TWO), (1, ONE))) == "InvalidPartOrder"
    assert refusal(service, upload_id, named((1, ONE), (1, ONE))) == "InvalidPartOrder"
    for malformed in (b"", b"<a/>", b"<CompleteMultipartUpload/>", BOTH_NAMED[:-1]):
        assert refusal(service, upload_id, malformed) == "MalformedXML"


def test_a_part_that_is_too_small_is_told_by_its_number(service: Service) -> None:
    upload_id = uploaded(service, [ONE, b"tiny", TWO])
    data = named((1, ONE), (2, b"tiny"), (3, TWO))
    with pytest.raises(LakebedError) as refused:
        complete(service, upload_id, data)
    told = to_s3(refused.value)
    assert told.code == "EntityTooSmall"
    facts = (("ProposedSize", "4"), ("MinSizeAllowed", "5"), ("PartNumber", "2"))
    assert set(facts) <= set(told.details)
    complete(service, upload_id, named((1, ONE), (2, b"tiny")))
    assert stored(service.lake, "key") == ONE + b"tiny"


def test_what_is_said_of_the_whole_is_compared(service: Service) -> None:
    upload_id = uploaded(service)
    crc = BodyDigests.of(WHOLE, [Algorithm.CRC64NVME]).checksums()[0].value
    other = BodyDigests.of(ONE, [Algorithm.CRC64NVME]).checksums()[0].value
    name, size = "x-amz-checksum-crc64nvme", "x-amz-mp-object-size"
    assert refusal(service, upload_id, headers={name: other}) == "BadDigest"
    assert refusal(service, upload_id, headers={name: "AAAA"}) == "InvalidRequest"
    assert refusal(service, upload_id, headers={size: "1"}) == "InvalidRequest"
    assert refusal(service, upload_id, headers={size: "x"}) == "InvalidArgument"
    headers = {name: crc, size: str(len(WHOLE)), "x-amz-checksum-type": "FULL_OBJECT"}
    assert complete(service, upload_id, headers=headers).status == 200


def test_the_checksums_of_the_parts_are_compared(service: Service) -> None:
    upload_id = uploaded(service, [ONE], algorithm=Algorithm.CRC32)
    wrong = f"<ChecksumCRC32>{crc32_of(TWO)}</ChecksumCRC32>"
    assert refusal(service, upload_id, named((1, ONE), more=wrong)) == "InvalidPart"
    right = f"<ChecksumCRC32>{crc32_of(ONE)}</ChecksumCRC32>"
    told = document(complete(service, upload_id, named((1, ONE), more=right)))
    assert texts(told, "ChecksumType") == ["COMPOSITE"]
    assert texts(told, "ChecksumCRC32")[0].endswith("-1")


def test_the_document_is_the_one_that_was_signed(service: Service) -> None:
    upload_id = uploaded(service)
    assert refusal(service, upload_id, who=signed(b"other")) == "XAmzContentSHA256Mismatch"
    assert refusal(service, upload_id, headers={"content-md5": md5_of(b"")}) == "BadDigest"
    too_long = {"x-amz-decoded-content-length": str(100 * 1024 * 1024)}
    assert refusal(service, upload_id, headers=too_long) == "MaxMessageLengthExceeded"
    complete(service, upload_id, headers={"content-md5": md5_of(BOTH_NAMED)})
    assert stored(service.lake, "key") == WHOLE


def test_conditions_are_kept(service: Service) -> None:
    upload_id = uploaded(service)
    assert refusal(service, upload_id, headers={"if-match": "*"}) == "NoSuchKey"
    service.lake.objects.put(BUCKET, "key", b"before")
    for headers in ({"if-none-match": "*"}, {"if-match": '"other"'}):
        with pytest.raises(LakebedError) as refused:
            complete(service, upload_id, headers=headers)
        assert to_s3(refused.value).code == "PreconditionFailed"
    assert stored(service.lake, "key") == b"before"
    complete(service, upload_id, headers={"if-match": f'"{etag(b"before")}"'})
    assert stored(service.lake, "key") == WHOLE


def test_a_guarded_bucket_is_not_overwritten(tmp_path: Path) -> None:
    with open_service(tmp_path / "lake", require_if_match_buckets="*", part_bytes_min=5) as service:
        service.lake.buckets.create(BUCKET)
        service.lake.objects.put(BUCKET, "key", b"before")
        with pytest.raises(LakebedError) as refused:
            complete(service, uploaded(service))
        assert to_s3(refused.value).code == "PreconditionFailed"
        assert stored(service.lake, "key") == b"before"


@pytest.mark.parametrize(
    ("versioning", "told"), [(Versioning.SUSPENDED, "null"), (Versioning.DISABLED, None)]
)
def test_version_ids_are_told_as_the_bucket_has_them(
    service: Service, versioning: Versioning, told: str | None
) -> None:
    add_bucket(service.lake, versioning, "other")
    response = complete(service, uploaded(service, bucket="other"), bucket="other")
    assert header(response, "x-amz-version-id") == told
