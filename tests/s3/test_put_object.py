"""PutObject: bodies in, small ones at once and large ones as they come."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.base.errors import LakebedError
from lakebed.http.request import ClientGone
from lakebed.s3.auth.identity import Identity, PayloadKind
from lakebed.s3.errors import S3Error, to_s3
from lakebed.s3.service import Service
from lakebed.s3.verbs.object_put import PutObject, put_object
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.errors import BadSize, NoSuchBucket, PreconditionFailed
from lakebed.seglake.model import Algorithm, Checksum, Versioning
from tests.s3.bodies import (
    LARGE_BYTES,
    UNSIGNED_TRAILER,
    crc32_of,
    etag_of,
    framed,
    md5_of,
    put,
    sent,
    signed,
    trailed_headers,
)
from tests.s3.calls import GivenBody, call, header, identity, open_service, request
from tests.seglake.lakes import BUCKET, add_bucket, body, keys, stored

pytestmark = pytest.mark.usefixtures("bucket")

SMALL = b"a small body"
LARGE = body(LARGE_BYTES)
BOTH = pytest.mark.parametrize(
    ("data", "is_streamed"),
    [(SMALL, False), (b"", False), (SMALL, True), (LARGE, True)],
    ids=["small", "empty", "small in pieces", "large"],
)


@BOTH
def test_a_body_is_stored_and_told(service: Service, data: bytes, *, is_streamed: bool) -> None:
    response = put(service, "key", data, is_streamed=is_streamed)
    assert response.status == 200
    assert header(response, "ETag") == etag_of(data)
    info = service.lake.objects.head(BUCKET, "key")
    assert header(response, "x-amz-version-id") == info.version_id
    assert header(response, "x-amz-checksum-crc64nvme") == info.checksums[0].value
    assert header(response, "x-amz-checksum-type") == "FULL_OBJECT"
    assert stored(service.lake, "key") == data


@BOTH
def test_a_body_s_digests_are_compared(service: Service, data: bytes, *, is_streamed: bool) -> None:
    headers = {"content-md5": md5_of(data), "x-amz-checksum-crc32": crc32_of(data)}
    response = put(service, "key", data, headers=headers, is_streamed=is_streamed, who=signed(data))
    assert header(response, "x-amz-checksum-crc32") == crc32_of(data)
    assert header(response, "x-amz-checksum-crc64nvme") is None
    assert stored(service.lake, "key") == data


@BOTH
def test_a_checksum_may_follow_the_body(
    service: Service, data: bytes, *, is_streamed: bool
) -> None:
    wire = framed(data, trailers=[f"x-amz-checksum-crc32:{crc32_of(data)}"])
    response = put(
        service,
        "key",
        wire,
        headers=trailed_headers(data),
        is_streamed=is_streamed,
        who=UNSIGNED_TRAILER,
    )
    assert header(response, "x-amz-checksum-crc32") == crc32_of(data)
    info = service.lake.objects.head(BUCKET, "key")
    assert info.checksums == (Checksum(Algorithm.CRC32, crc32_of(data)),)
    assert info.content.content_encoding is None
    assert stored(service.lake, "key") == data


OTHER = b"another body"
WRONG: list[tuple[str, Mapping[str, str], Identity]] = [
    ("BadDigest", {"content-md5": md5_of(OTHER)}, identity()),
    ("InvalidDigest", {"content-md5": "AAAA"}, identity()),
    ("BadDigest", {"x-amz-checksum-crc32": crc32_of(OTHER)}, identity()),
    ("InvalidRequest", {"x-amz-checksum-crc32": "AAAA"}, identity()),
    ("XAmzContentSHA256Mismatch", {}, signed(OTHER)),
    ("MissingContentLength", {}, UNSIGNED_TRAILER),
    ("InvalidArgument", {"x-amz-decoded-content-length": "-1"}, identity()),
    ("InvalidArgument", {"x-amz-decoded-content-length": "1" * 40}, identity()),
    ("IncompleteBody", {"x-amz-decoded-content-length": "3"}, identity()),
    ("IncompleteBody", {"x-amz-decoded-content-length": "99999999"}, identity()),
]


@BOTH
@pytest.mark.parametrize(("code", "headers", "who"), WRONG)
def test_a_body_that_is_not_as_was_said_is_not_stored(
    service: Service,
    data: bytes,
    code: str,
    headers: Mapping[str, str],
    who: Identity,
    *,
    is_streamed: bool,
) -> None:
    with pytest.raises(LakebedError) as refused:
        put(service, "key", data, headers=headers, is_streamed=is_streamed, who=who)
    assert to_s3(refused.value).code == code
    assert keys(service.lake) == []


@BOTH
@pytest.mark.parametrize(
    ("code", "trailers"),
    [
        ("BadDigest", [f"x-amz-checksum-crc32:{crc32_of(OTHER)}"]),
        ("InvalidRequest", ["x-amz-checksum-crc32:AAAA"]),
        ("MalformedTrailerError", []),
        ("MalformedTrailerError", ["x-amz-checksum-sha1:AAAA"]),
    ],
)
def test_a_body_whose_trailer_is_wrong_is_not_stored(
    service: Service, data: bytes, code: str, trailers: list[str], *, is_streamed: bool
) -> None:
    wire = framed(data, trailers=trailers)
    with pytest.raises(LakebedError) as refused:
        put(
            service,
            "key",
            wire,
            headers=trailed_headers(data),
            is_streamed=is_streamed,
            who=UNSIGNED_TRAILER,
        )
    assert to_s3(refused.value).code == code
    assert keys(service.lake) == []


def test_a_body_without_a_length_is_refused(service: Service) -> None:
    given_body = GivenBody([SMALL], is_whole=False)
    given_body.length = None
    made = request("PUT", body=given_body)
    with pytest.raises(S3Error) as refused:
        call(put_object, service, PutObject(bucket=BUCKET, key="key"), made)
    assert refused.value.code == "MissingContentLength"


def breaking_off(data: bytes, at: int, *, piece_bytes: int) -> GivenBody:
    pieces = sent(data[:at], is_streamed=True, piece_bytes=piece_bytes)
    assert isinstance(pieces, list)
    return GivenBody(pieces, is_whole=False, length=len(data), breaks_off=True)


def test_a_body_that_breaks_off_at_any_byte_leaves_nothing(service: Service) -> None:
    data = b"x" * 40
    wire = framed(data, chunk_bytes=16, trailers=[f"x-amz-checksum-crc32:{crc32_of(data)}"])
    for at in range(len(wire) + 1):
        made = request(
            "PUT", headers=trailed_headers(data), body=breaking_off(wire, at, piece_bytes=7)
        )
        with pytest.raises(ClientGone):
            call(put_object, service, PutObject(bucket=BUCKET, key="key"), made, UNSIGNED_TRAILER)
    assert keys(service.lake) == []


@pytest.mark.parametrize("at", [0, 70_000, 1_100_000, 5_000_000, LARGE_BYTES - 1, LARGE_BYTES])
def test_a_large_body_that_breaks_off_leaves_nothing(service: Service, at: int) -> None:
    made = request("PUT", body=breaking_off(LARGE, at, piece_bytes=70_000))
    with pytest.raises(ClientGone):
        call(put_object, service, PutObject(bucket=BUCKET, key="key"), made)
    assert keys(service.lake) == []
    put(service, "key", LARGE, is_streamed=True)  # what it had of the store was given back
    assert stored(service.lake, "key") == LARGE


def test_a_body_in_chunks_that_ends_early_is_incomplete(service: Service) -> None:
    data = b"x" * 40
    wire = framed(data, chunk_bytes=16, trailers=[f"x-amz-checksum-crc32:{crc32_of(data)}"])
    for at in range(wire.rindex(crc32_of(data).encode()) + 7):
        with pytest.raises(LakebedError) as refused:
            put(
                service,
                "key",
                wire[:at],
                headers=trailed_headers(data),
                is_streamed=bool(at % 2),
                who=UNSIGNED_TRAILER,
            )
        assert to_s3(refused.value).code in (
            "IncompleteBody",
            "MalformedTrailerError",
            "InvalidRequest",
        )
    assert keys(service.lake) == []


def test_what_is_announced_too_large_is_refused_before_it_comes(tmp_path: Path) -> None:
    with open_service(tmp_path / "lake", max_object_size=1000) as service:
        service.lake.buckets.create(BUCKET)
        never_read = GivenBody([], is_whole=False, length=1001, breaks_off=True)
        with pytest.raises(LakebedError) as refused:
            call(
                put_object,
                service,
                PutObject(bucket=BUCKET, key="key"),
                request("PUT", body=never_read),
            )
        told = to_s3(refused.value)
        assert told.code == "EntityTooLarge"
        assert ("ProposedSize", "1001") in told.details
        put(service, "key", bytes(1000))
        with pytest.raises(LakebedError):
            put(service, "key", bytes(1001))
        assert stored(service.lake, "key") == bytes(1000)


def test_a_large_body_for_a_bucket_that_is_not_there_is_not_read_to_its_end(
    service: Service,
) -> None:
    whole = sent(LARGE, is_streamed=True)
    assert isinstance(whole, list)
    given_body = GivenBody(whole, is_whole=False)
    made = request("PUT", body=given_body)
    with pytest.raises(NoSuchBucket):
        call(put_object, service, PutObject(bucket="other", key="key"), made)
    assert given_body._left


def test_a_body_longer_than_was_said_is_not_read_to_its_end(service: Service) -> None:
    whole = sent(LARGE, is_streamed=True)
    assert isinstance(whole, list)
    given_body = GivenBody(whole, is_whole=False)
    made = request("PUT", headers={"x-amz-decoded-content-length": "3"}, body=given_body)
    with pytest.raises(BadSize):
        call(put_object, service, PutObject(bucket=BUCKET, key="key"), made)
    assert given_body._left


def test_the_md5_of_a_body_may_be_required(tmp_path: Path) -> None:
    with open_service(
        tmp_path / "lake", config=EndpointConfig(require_content_md5=True)
    ) as service:
        service.lake.buckets.create(BUCKET)
        with pytest.raises(S3Error) as refused:
            put(service, "key", SMALL, headers={"x-amz-checksum-crc32": crc32_of(SMALL)})
        assert refused.value.code == "InvalidRequest"
        put(service, "key", SMALL, headers={"content-md5": md5_of(SMALL)})
        assert stored(service.lake, "key") == SMALL


@pytest.mark.parametrize(
    ("versioning", "told"), [(Versioning.SUSPENDED, "null"), (Versioning.DISABLED, None)]
)
def test_version_ids_are_told_as_the_bucket_has_them(
    service: Service, versioning: Versioning, told: str | None
) -> None:
    add_bucket(service.lake, versioning, "other")
    response = put(service, "key", SMALL, bucket="other")
    assert header(response, "x-amz-version-id") == told


@BOTH
def test_conditions_are_kept(service: Service, data: bytes, *, is_streamed: bool) -> None:
    absent = {"if-none-match": "*"}
    etag = header(put(service, "key", data, headers=absent, is_streamed=is_streamed), "ETag")
    with pytest.raises(PreconditionFailed):
        put(service, "key", data, headers=absent, is_streamed=is_streamed)
    with pytest.raises(PreconditionFailed):
        put(service, "key", data, headers={"if-match": '"other"'}, is_streamed=is_streamed)
    assert etag is not None
    put(service, "key", OTHER, headers={"if-match": etag})
    assert stored(service.lake, "key") == OTHER


def test_a_guarded_bucket_is_overwritten_only_with_if_match(tmp_path: Path) -> None:
    with open_service(tmp_path / "lake", require_if_match_buckets=BUCKET) as service:
        service.lake.buckets.create(BUCKET)
        first = put(service, "key", SMALL)
        with pytest.raises(PreconditionFailed):
            put(service, "key", OTHER)
        assert stored(service.lake, "key") == SMALL
        put(service, "key", OTHER, headers={"if-match": header(first, "ETag") or ""})
        put(service, "key", SMALL, headers={"if-match": "*"})
        assert stored(service.lake, "key") == SMALL


def test_a_body_that_comes_is_hashed_and_written_in_other_threads(service: Service) -> None:
    """The loop's thread decodes and writes nothing of a body that does not come with its head."""
    put_here = service.lake.objects.begin_put(BUCKET, "key", size=None)
    threads = set()
    write = put_here.write

    def noting(data: bytes | bytearray | memoryview) -> None:
        threads.add(threading.get_ident())
        write(data)

    put_here.write = noting  # type: ignore[method-assign]

    async def pump(*_: object) -> object:
        from lakebed.http.response import Response
        from lakebed.s3.upload_body import UploadBody

        made = request("PUT", body=sent(LARGE, is_streamed=True))
        await UploadBody(made, signed(LARGE)).into(service, put_here)
        return Response(200)

    call(pump, service, None)  # type: ignore[arg-type]
    assert threads
    assert threading.get_ident() not in threads
    assert hashlib.sha256(stored(service.lake, "key")).digest() == hashlib.sha256(LARGE).digest()


@given(
    data=st.binary(max_size=300),
    chunk_bytes=st.integers(1, 100),
    piece_bytes=st.integers(1, 100),
    kind=st.sampled_from([PayloadKind.CHUNKS_UNSIGNED, PayloadKind.UNSIGNED, PayloadKind.SIGNED]),
)
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_however_a_body_is_cut_it_is_stored(
    service: Service, data: bytes, chunk_bytes: int, piece_bytes: int, kind: PayloadKind
) -> None:
    wire = framed(data, chunk_bytes=chunk_bytes) if kind.is_chunked else data
    headers = {"x-amz-decoded-content-length": str(len(data))} if kind.is_chunked else {}
    who = identity(kind, sha256=hashlib.sha256(data).hexdigest())
    made = request(
        "PUT", headers=headers, body=sent(wire, is_streamed=True, piece_bytes=piece_bytes)
    )
    call(put_object, service, PutObject(bucket=BUCKET, key="key"), made, who)
    assert stored(service.lake, "key") == data
