"""GetObject and HeadObject: objects out, whole, in part, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import LakebedError
from lakebed.http.response import Response
from lakebed.s3.errors import S3Error, to_s3
from lakebed.s3.service import Service
from lakebed.s3.verbs.object_get import GetObject, get_object
from lakebed.seglake.errors import Damaged
from lakebed.seglake.model import Algorithm, Content, State, Versioning
from lakebed.seglake.multipart import NamedPart
from tests.s3.bodies import LARGE_BYTES, etag_of, get, head, put
from tests.s3.calls import REQUEST_ID, bytes_of, header, identity, open_service, request
from tests.seglake.lakes import BUCKET, add_bucket, body

pytestmark = pytest.mark.usefixtures("bucket")

SMALL = b"0123456789"
LARGE = body(LARGE_BYTES)
BOTH = pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])


@BOTH
def test_an_object_is_given_with_its_headers(service: Service, data: bytes) -> None:
    stored = put(service, "key", data, headers={"content-type": "text/x", "x-amz-meta-a": "b"})
    response = get(service, "key")
    assert response.status == 200
    assert response.body == data
    assert header(response, "ETag") == etag_of(data)
    assert header(response, "Content-Type") == "text/x"
    assert header(response, "x-amz-meta-a") == "b"
    assert header(response, "x-amz-version-id") == header(stored, "x-amz-version-id")
    assert header(response, "x-amz-checksum-crc64nvme") is None
    told = head(service, "key")
    assert (told.status, told.headers, told.body) == (200, response.headers, b"")
    assert told.length == len(data)
    assert response.length in (None, len(data))


def test_an_empty_object_is_given(service: Service) -> None:
    put(service, "key", b"")
    assert get(service, "key").body == b""
    assert head(service, "key").length == 0


@BOTH
def test_checksums_are_told_if_they_are_asked_for(service: Service, data: bytes) -> None:
    checksum = header(put(service, "key", data), "x-amz-checksum-crc64nvme")
    asked = {"x-amz-checksum-mode": "ENABLED"}
    for response in (get(service, "key", headers=asked), head(service, "key", headers=asked)):
        assert header(response, "x-amz-checksum-crc64nvme") == checksum
        assert header(response, "x-amz-checksum-type") == "FULL_OBJECT"
    # A client would compare it with the bytes it gets.
    part = get(service, "key", headers={**asked, "range": "bytes=0-1"})
    assert header(part, "x-amz-checksum-crc64nvme") is None


def one(start: int, end: int, size: int) -> str:
    return f"bytes {start}-{end - 1}/{size}"


@BOTH
@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (3, 7), (4_194_300, 4_194_310), (5, -3), (-10, None), (8, None)]
)
def test_a_part_of_an_object(service: Service, data: bytes, start: int, end: int | None) -> None:
    put(service, "key", data)
    first, last, _ = slice(start, end).indices(len(data))
    if first >= last:
        return
    response = get(service, "key", headers={"range": f"bytes={first}-{last - 1}"})
    assert response.status == 206
    assert header(response, "Content-Range") == one(first, last, len(data))
    assert response.body == data[first:last]
    told = head(service, "key", headers={"range": f"bytes={first}-{last - 1}"})
    assert (told.status, told.length, told.headers) == (206, last - first, response.headers)


@BOTH
def test_a_range_may_end_at_the_largest_number_of_java(service: Service, data: bytes) -> None:
    put(service, "key", data)
    asked = {"range": "bytes=3-9223372036854775806"}
    response = get(service, "key", headers=asked)
    assert (response.status, response.body) == (206, data[3:])
    assert header(response, "Content-Range") == one(3, len(data), len(data))
    assert head(service, "key", headers=asked).length == len(data) - 3


@BOTH
def test_several_parts_of_an_object(service: Service, data: bytes) -> None:
    put(service, "key", data, headers={"content-type": "text/x"})
    asked = {"range": "bytes=1-2,-3,5-6"}
    response = get(service, "key", headers=asked)
    kind = header(response, "Content-Type") or ""
    assert response.status == 206
    assert kind == f"multipart/byteranges; boundary={REQUEST_ID}"
    assert header(response, "Content-Range") is None
    assert isinstance(response.body, bytes)
    parsed = BytesParser(policy=HTTP).parsebytes(
        f"Content-Type: {kind}\r\n\r\n".encode() + response.body
    )
    size = len(data)
    found = [
        (part["Content-Range"], part["Content-Type"], part.get_payload(decode=True))
        for part in parsed.iter_parts()
    ]
    assert found == [
        (one(1, 3, size), "text/x", data[1:3]),
        (one(size - 3, size, size), "text/x", data[-3:]),
        (one(5, 7, size), "text/x", data[5:7]),
    ]
    told = head(service, "key", headers=asked)
    assert (told.status, told.length) == (206, len(response.body))


@BOTH
@pytest.mark.parametrize("value", ["bytes=99999999-", "bytes=x", "lines=1-2", "bytes=-0"])
def test_a_range_without_bytes_is_refused_with_the_size(
    service: Service, data: bytes, value: str
) -> None:
    put(service, "key", data)
    for ask in (get, head):
        with pytest.raises(S3Error) as refused:
            ask(service, "key", headers={"range": value})
        assert refused.value.code == "InvalidRange"
        assert ("Content-Range", f"bytes */{len(data)}") in refused.value.headers


def test_many_overlapping_ranges_cost_no_more_than_the_object(service: Service) -> None:
    put(service, "key", LARGE)
    asked = ",".join(f"{place}-" for place in range(100))
    response = get(service, "key", headers={"range": f"bytes={asked}"})
    assert response.body == LARGE
    with pytest.raises(S3Error):
        get(service, "key", headers={"range": "bytes=" + ",".join(["0-"] * 10_000)})


@BOTH
def test_who_has_the_object_is_told_so_and_gets_no_body(service: Service, data: bytes) -> None:
    headers = {"cache-control": "no-cache", "x-amz-meta-a": "b"}
    put(service, "key", data, headers=headers)
    whole = get(service, "key")
    etag, date = header(whole, "ETag") or "", header(whole, "Last-Modified") or ""
    for asked in ({"if-none-match": etag}, {"if-modified-since": date}):
        for response in (get(service, "key", headers=asked), head(service, "key", headers=asked)):
            assert (response.status, response.body) == (304, b"")
            assert header(response, "ETag") == etag
            assert header(response, "Last-Modified") == date
            assert header(response, "Cache-Control") == "no-cache"
            assert header(response, "x-amz-meta-a") is None
            assert header(response, "Content-Type") is None


@BOTH
def test_who_wants_another_object_is_refused(service: Service, data: bytes) -> None:
    put(service, "key", data)
    past = "Tue, 14 Nov 2006 22:13:20 GMT"
    for asked in ({"if-match": '"other"'}, {"if-unmodified-since": past}):
        for ask in (get, head):
            with pytest.raises(LakebedError) as refused:
                ask(service, "key", headers=asked)
            assert to_s3(refused.value).code == "PreconditionFailed"


def test_a_range_of_another_object_is_the_whole_of_this_one(service: Service) -> None:
    etag = header(put(service, "key", SMALL), "ETag") or ""
    asked = {"range": "bytes=0-1", "if-range": etag}
    assert get(service, "key", headers=asked).body == SMALL[:2]
    asked["if-range"] = '"other"'
    response = get(service, "key", headers=asked)
    assert (response.status, response.body) == (200, SMALL)


def test_headers_of_the_response_can_be_asked_for(service: Service) -> None:
    put(service, "key", SMALL, headers={"content-type": "text/x", "cache-control": "no-cache"})
    wanted = (("content-type", "text/y"), ("content-disposition", 'attachment; filename="ä"'))
    response = get(service, "key", overrides=wanted)
    assert header(response, "Content-Type") == "text/y"
    assert header(response, "Cache-Control") == "no-cache"
    told = header(response, "Content-Disposition") or ""
    assert told.encode("latin-1").decode() == 'attachment; filename="ä"'
    both = get(service, "key", overrides=wanted, headers={"range": "bytes=0-1,3-4"})
    assert isinstance(both.body, bytes)
    assert b"Content-Type: text/y\r\n" in both.body
    for hostile in ("a\r\nSet-Cookie: b", "a\0b", "\x7f"):
        with pytest.raises(S3Error) as refused:
            get(service, "key", overrides=(("content-type", hostile),))
        assert refused.value.code == "InvalidArgument"


def test_versions_and_delete_markers(service: Service) -> None:
    first = header(put(service, "key", b"first"), "x-amz-version-id")
    put(service, "key", b"second")
    marker = service.lake.objects.delete(BUCKET, "key").version_id
    assert marker is not None
    response = get(service, "key", version_id=first)
    assert response.body == b"first"
    assert header(response, "x-amz-version-id") == first
    with pytest.raises(LakebedError) as hidden:
        get(service, "key")
    told = to_s3(hidden.value)
    assert told.code == "NoSuchKey"
    assert ("x-amz-delete-marker", "true") in told.headers
    assert ("x-amz-version-id", marker) in told.headers
    with pytest.raises(S3Error) as no_object:
        get(service, "key", version_id=marker)
    assert no_object.value.code == "MethodNotAllowed"
    names = {name for name, _ in no_object.value.headers}
    assert names == {"Allow", "Last-Modified", "x-amz-delete-marker", "x-amz-version-id"}
    for missing in ("f" * 32, "null", "../..", "ä"):
        with pytest.raises(LakebedError) as unknown:
            get(service, "key", version_id=missing)
        assert to_s3(unknown.value).code == "NoSuchVersion"


def test_null_versions_are_told_as_such(service: Service) -> None:
    for versioning, told in ((Versioning.SUSPENDED, "null"), (Versioning.DISABLED, None)):
        add_bucket(service.lake, versioning, versioning.value)
        put(service, "key", SMALL, bucket=versioning.value)
        response = get(service, "key", bucket=versioning.value)
        assert header(response, "x-amz-version-id") == told
        named = get(service, "key", bucket=versioning.value, version_id="null")
        assert named.body == SMALL


@pytest.fixture
def in_parts(tmp_path: Path) -> Any:
    with open_service(tmp_path / "lake", part_bytes_min=1) as service:
        service.lake.buckets.create(BUCKET)
        uploads = service.lake.uploads
        upload = uploads.create(BUCKET, "key", algorithm=Algorithm.CRC32)
        place = (BUCKET, "key", upload.upload_id)
        named = []
        for number, data in enumerate((b"one", b"two!", b"three"), start=1):
            part = uploads.put_part(*place, number, data)
            named.append(NamedPart(number, part.etag))
        uploads.complete(*place, named)
        yield service


def test_the_parts_of_an_object(in_parts: Service) -> None:
    for number, (start, data) in enumerate([(0, b"one"), (3, b"two!"), (7, b"three")], start=1):
        response = get(in_parts, "key", part_number=number)
        assert (response.status, response.body) == (206, data)
        assert header(response, "Content-Range") == one(start, start + len(data), 12)
        assert header(response, "x-amz-mp-parts-count") == "3"
        told = head(in_parts, "key", part_number=number)
        assert (told.status, told.length, told.headers) == (206, len(data), response.headers)
    whole = get(in_parts, "key", headers={"x-amz-checksum-mode": "enabled"})
    assert whole.body == b"onetwo!three"
    assert header(whole, "x-amz-mp-parts-count") is None
    assert header(whole, "x-amz-checksum-type") == "COMPOSITE"
    with pytest.raises(S3Error) as refused:
        get(in_parts, "key", part_number=4)
    assert refused.value.code == "InvalidPart"
    with pytest.raises(S3Error) as refused:
        get(in_parts, "key", part_number=1, headers={"range": "bytes=0-1"})
    assert refused.value.code == "InvalidRequest"


def test_an_object_that_was_put_whole_is_its_own_first_part(service: Service) -> None:
    put(service, "key", SMALL)
    put(service, "empty", b"")
    response = get(service, "key", part_number=1)
    assert (response.status, response.body) == (206, SMALL)
    assert header(response, "x-amz-mp-parts-count") is None
    assert get(service, "empty", part_number=1).status == 200
    upload = service.lake.uploads.create(BUCKET, "empty")
    part = service.lake.uploads.put_part(BUCKET, "empty", upload.upload_id, 1, b"")
    named = [NamedPart(1, part.etag)]
    service.lake.uploads.complete(BUCKET, "empty", upload.upload_id, named)
    response = get(service, "empty", part_number=1)
    assert (response.status, header(response, "x-amz-mp-parts-count")) == (200, "1")
    with pytest.raises(S3Error) as refused:
        get(service, "key", part_number=2)
    assert refused.value.code == "InvalidPart"


def test_an_empty_last_part_is_answered_without_bytes(tmp_path: Path) -> None:
    with open_service(tmp_path / "lake", part_bytes_min=1) as service:
        service.lake.buckets.create(BUCKET)
        uploads = service.lake.uploads
        for key, first in (("small", b"one"), ("large", bytes(300_000))):
            place = (BUCKET, key, uploads.create(BUCKET, key).upload_id)
            parts = [
                uploads.put_part(*place, number, data) for number, data in ((1, first), (2, b""))
            ]
            uploads.complete(*place, [NamedPart(part.number, part.etag) for part in parts])
            response = get(service, key, part_number=2)
            assert (response.status, response.body) == (206, b"")
            assert header(response, "Content-Range") is None
            assert header(response, "x-amz-mp-parts-count") == "2"
            assert head(service, key, part_number=2).length == 0
            assert get(service, key, part_number=1).body == first


def answer(service: Service) -> Response:
    operation = GetObject(bucket=BUCKET, key="key")
    found = get_object(service, operation, request("GET"), identity())
    assert isinstance(found, Response), "a small object is answered without a task"
    return found


def test_a_small_object_is_answered_at_once(service: Service) -> None:
    put(service, "key", SMALL)
    assert answer(service).body == SMALL
    put(service, "key", bytes(64 * 1024))
    assert answer(service).body == bytes(64 * 1024)


def damage(root: Path, data: bytes) -> None:
    """Change the last byte of it, wherever it is."""
    for path in (root / "objects" / "segments").iterdir():
        content = bytearray(path.read_bytes())
        place = content.find(data)
        if place >= 0:
            content[place + len(data) - 1] ^= 1
            path.write_bytes(content)
            return
    raise AssertionError("it is in no segment")


def test_a_damaged_small_object_is_an_error(tmp_path: Path) -> None:
    with open_service(tmp_path / "lake", cache_bytes=0) as service:
        service.lake.buckets.create(BUCKET)
        put(service, "key", SMALL)
        damage(tmp_path / "lake", SMALL)
        with pytest.raises(Damaged):
            get(service, "key")
        service.lake.buckets.create(BUCKET)  # committed after the mark
        assert service.lake.objects.head(BUCKET, "key").state is State.DAMAGED


def test_damage_in_front_is_an_error_and_later_cuts_the_body(tmp_path: Path) -> None:
    chunk = 4 * 1024 * 1024
    with open_service(tmp_path / "lake", cache_bytes=0) as service:
        service.lake.buckets.create(BUCKET)
        put(service, "key", LARGE)
        damage(tmp_path / "lake", LARGE[chunk : 2 * chunk])
        operation = GetObject(bucket=BUCKET, key="key")

        came = bytearray()

        async def read() -> None:
            response = await get_object(  # type: ignore[misc]
                service, operation, request("GET"), identity()
            )
            assert response.length == len(LARGE)
            assert isinstance(response.body, AsyncIterable)
            async for piece in response.body:
                came.extend(bytes_of(piece))

        with pytest.raises(Damaged):
            asyncio.run(read())
        assert came == LARGE[:chunk]
        with pytest.raises(Damaged):
            get(service, "key", headers={"range": f"bytes={chunk}-"})
        assert get(service, "key", headers={"range": "bytes=0-9"}).body == LARGE[:10]


def test_a_reader_that_goes_away_leaves_nothing_behind(service: Service) -> None:
    put(service, "key", LARGE)

    async def leave() -> None:
        response = await get_object(  # type: ignore[misc]
            service, GetObject(bucket=BUCKET, key="key"), request("GET"), identity()
        )
        async for _piece in response.body:
            break
        await response.body.aclose()

    asyncio.run(leave())
    assert get(service, "key").body == LARGE


def test_metadata_of_any_kind_come_out(service: Service) -> None:
    content = Content(content_type="a\r\nb", metadata={"c": "d\r\ne", "f\r\n": "g"})
    service.lake.objects.put(BUCKET, "key", b"", content=content)
    response = get(service, "key")
    assert all("\r" not in name + value for name, value in response.headers)
