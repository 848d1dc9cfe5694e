"""CopyObject and UploadPartCopy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakebed.base.errors import LakebedError
from lakebed.http.response import Response
from lakebed.s3.errors import S3Error, to_s3
from lakebed.s3.service import Service
from lakebed.s3.verbs.bucket_objects import ListObjects, list_objects
from lakebed.s3.verbs.object_copy import (
    CopyObject,
    UploadPartCopy,
    copy_object,
    source_of,
    upload_part_copy,
)
from lakebed.seglake.model import CHUNK_BYTES, Algorithm, Checksum, Versioning
from tests.s3.bodies import crc32_of, etag_of, get, put
from tests.s3.calls import call, document, header, identity, open_service, request, texts
from tests.seglake.lakes import BUCKET, add_bucket, body, keys, stored

pytestmark = pytest.mark.usefixtures("bucket")

DATA = b"0123456789"
SOURCE = f"{BUCKET}/from"


def copy(
    service: Service,
    source: str = SOURCE,
    *,
    headers: Mapping[str, str] | None = None,
    key: str = "to",
    bucket: str = BUCKET,
) -> Response:
    made = request("PUT", headers={"x-amz-copy-source": source, **(headers or {})})
    return call(copy_object, service, CopyObject(bucket=bucket, key=key), made)


def refusal(service: Service, source: str = SOURCE, **asked: str) -> str:
    headers = {name.replace("_", "-"): value for name, value in asked.items()}
    with pytest.raises(LakebedError) as refused:
        copy(service, source, headers=headers)
    return to_s3(refused.value).code


def test_a_copy_has_the_bytes_and_headers_of_its_source(service: Service) -> None:
    headers = {"content-type": "text/x", "x-amz-meta-a": "b"}
    source = put(service, "from", DATA, headers=headers)
    response = copy(service, headers={"content-type": "not/this", "x-amz-meta-c": "nor this"})
    assert response.status == 200
    told = document(response)
    assert texts(told, "ETag") == [etag_of(DATA)]
    assert len(texts(told, "LastModified")) == 1
    assert texts(told, "ChecksumCRC64NVME") == [header(source, "x-amz-checksum-crc64nvme")]
    copied = get(service, "to")
    assert copied.body == DATA
    assert header(copied, "Content-Type") == "text/x"
    assert header(copied, "x-amz-meta-a") == "b"
    assert header(copied, "x-amz-meta-c") is None
    assert header(response, "x-amz-version-id") == header(copied, "x-amz-version-id")
    source_id = header(source, "x-amz-version-id")
    assert header(response, "x-amz-copy-source-version-id") == source_id


def test_headers_can_be_replaced(service: Service) -> None:
    put(service, "from", DATA, headers={"content-type": "text/x", "x-amz-meta-a": "b"})
    replaced = {"x-amz-metadata-directive": "REPLACE", "content-type": "text/y"}
    copy(service, headers={**replaced, "x-amz-meta-c": "d"})
    copied = get(service, "to")
    assert header(copied, "Content-Type") == "text/y"
    assert header(copied, "x-amz-meta-a") is None
    assert header(copied, "x-amz-meta-c") == "d"


def test_a_copy_onto_itself_changes_something(service: Service) -> None:
    put(service, "to", DATA)
    itself = f"{BUCKET}/to"
    first = header(get(service, "to"), "x-amz-version-id")
    assert refusal(service, itself) == "InvalidRequest"
    assert refusal(service, itself, x_amz_metadata_directive="COPY") == "InvalidRequest"
    copy(service, itself, headers={"x-amz-metadata-directive": "REPLACE", "expires": "never"})
    assert header(get(service, "to"), "Expires") == "never"
    restored = copy(service, f"{itself}?versionId={first}")
    assert header(restored, "x-amz-copy-source-version-id") == first
    assert header(get(service, "to"), "Expires") is None


def test_a_copy_can_have_another_checksum(service: Service) -> None:
    put(service, "from", DATA)
    response = copy(service, headers={"x-amz-checksum-algorithm": "CRC32"})
    assert texts(document(response), "ChecksumCRC32") == [crc32_of(DATA)]
    info = service.lake.objects.head(BUCKET, "to")
    assert info.checksums == (Checksum(Algorithm.CRC32, crc32_of(DATA)),)
    assert refusal(service, x_amz_checksum_algorithm="MD5") == "InvalidRequest"


@pytest.mark.parametrize("key", ["a b", "a+b", "a%2Fb", "a//b", "../a", "?versionId=1", "ä€\x01"])
def test_a_source_is_decoded_once(service: Service, key: str) -> None:
    put(service, key, DATA)
    version_id = header(get(service, key), "x-amz-version-id")
    name = quote(key, safe="")
    for number, source in enumerate(
        [
            f"{BUCKET}/{name}",
            f"/{BUCKET}/{name}",
            quote(f"{BUCKET}/{key}", safe=""),
            f"{BUCKET}/{name}?versionId={version_id}",
        ]
    ):
        copy(service, source, key=f"to-{number}")
        assert stored(service.lake, f"to-{number}") == DATA


def test_a_plus_in_a_source_is_a_plus() -> None:
    assert source_of({"x-amz-copy-source": "b/a+b c"}) == ("b", "a+b c", None)


@pytest.mark.parametrize(
    "source",
    ["", "/", "bucket", "bucket/", "//", "/bucket", "b/k%", "b/k%zz", "b/%ff", "b/k?versionId="],
)
def test_a_source_that_names_no_object_is_refused(service: Service, source: str) -> None:
    assert refusal(service, source) == "InvalidArgument"


def test_sources_that_are_not_there(service: Service) -> None:
    put(service, "from", DATA)
    marker = service.lake.objects.delete(BUCKET, "from").version_id
    assert refusal(service, "other/from") == "NoSuchBucket"
    assert refusal(service, f"{BUCKET}/missing") == "NoSuchKey"
    assert refusal(service, SOURCE) == "NoSuchKey"
    assert refusal(service, f"{SOURCE}?versionId={marker}") == "InvalidRequest"
    assert refusal(service, f"{SOURCE}?versionId={'0' * 32}") == "NoSuchVersion"
    assert keys(service.lake) == []


def test_a_copy_into_no_bucket_is_refused(service: Service) -> None:
    put(service, "from", DATA)
    with pytest.raises(LakebedError) as refused:
        copy(service, bucket="other")
    assert to_s3(refused.value).code == "NoSuchBucket"


@pytest.mark.parametrize("directive", ["x-amz-metadata-directive", "x-amz-tagging-directive"])
def test_directives_are_known_ones(service: Service, directive: str) -> None:
    put(service, "from", DATA)
    for value in ("COPY", "REPLACE"):
        assert copy(service, headers={directive: value}).status == 200
    for value in ("copy", "", "MOVE"):
        with pytest.raises(S3Error) as refused:
            copy(service, headers={directive: value})
        assert refused.value.code == "InvalidArgument"


def test_conditions_of_the_source(service: Service) -> None:
    etag = header(put(service, "from", DATA), "ETag") or ""
    date = header(get(service, "from"), "Last-Modified") or ""
    past = "Tue, 14 Nov 2006 22:13:20 GMT"
    for name, value, holds in [
        ("match", etag, True),
        ("match", '"other"', False),
        ("none-match", etag, False),
        ("none-match", '"other"', True),
        ("modified-since", date, False),
        ("modified-since", past, True),
        ("unmodified-since", date, True),
        ("unmodified-since", past, False),
    ]:
        headers = {f"x-amz-copy-source-if-{name}": value}
        if holds:
            assert copy(service, headers=headers).status == 200
            continue
        with pytest.raises(LakebedError) as refused:
            copy(service, headers=headers)
        assert to_s3(refused.value).code == "PreconditionFailed"


def test_conditions_of_the_target(service: Service) -> None:
    put(service, "from", DATA)
    assert refusal(service, if_match='"other"') == "NoSuchKey"
    assert copy(service, headers={"if-none-match": "*"}).status == 200
    assert refusal(service, if_none_match="*") == "PreconditionFailed"
    assert refusal(service, if_match='"other"') == "PreconditionFailed"
    assert copy(service, headers={"if-match": etag_of(DATA)}).status == 200


def test_a_guarded_bucket_is_not_overwritten_by_a_copy(tmp_path: Path) -> None:
    with open_service(tmp_path / "lake", require_if_match_buckets=BUCKET) as service:
        service.lake.buckets.create(BUCKET)
        put(service, "from", DATA)
        copy(service)
        assert refusal(service) == "PreconditionFailed"


@pytest.mark.parametrize(
    ("versioning", "told"), [(Versioning.SUSPENDED, "null"), (Versioning.DISABLED, None)]
)
def test_copies_between_buckets_of_other_kinds(
    service: Service, versioning: Versioning, told: str | None
) -> None:
    add_bucket(service.lake, versioning, "other")
    put(service, "from", DATA, bucket="other")
    response = copy(service, "other/from")
    assert header(response, "x-amz-copy-source-version-id") == told
    assert stored(service.lake, "to") == DATA
    back = copy(service, f"{BUCKET}/to", bucket="other")
    assert header(back, "x-amz-version-id") == told
    assert stored(service.lake, "to", bucket="other") == DATA


def copy_part(
    service: Service, number: int, *, upload_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    operation = UploadPartCopy(bucket=BUCKET, key="to", upload_id=upload_id, part_number=number)
    made = request("PUT", headers={"x-amz-copy-source": SOURCE, **(headers or {})})
    return call(upload_part_copy, service, operation, made)


def test_a_part_is_copied_whole_or_in_part(service: Service) -> None:
    source_id = header(put(service, "from", DATA), "x-amz-version-id")
    upload = service.lake.uploads.create(BUCKET, "to", algorithm=Algorithm.CRC32)
    whole = copy_part(service, 1, upload_id=upload.upload_id)
    assert header(whole, "x-amz-copy-source-version-id") == source_id
    assert texts(document(whole), "ETag") == [etag_of(DATA)]
    assert texts(document(whole), "ChecksumCRC32") == [crc32_of(DATA)]
    part = copy_part(
        service,
        2,
        upload_id=upload.upload_id,
        headers={"x-amz-copy-source-range": "bytes=2-4"},
    )
    assert texts(document(part), "ETag") == [etag_of(DATA[2:5])]
    found = service.lake.uploads.parts(BUCKET, "to", upload.upload_id).parts
    assert [one.size for one in found] == [10, 3]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-amz-copy-source-range": "bytes=0-10"}, "InvalidArgument"),
        ({"x-amz-copy-source-range": "bytes=5-"}, "InvalidArgument"),
        ({"x-amz-copy-source-range": "5-6"}, "InvalidArgument"),
        ({"x-amz-copy-source-if-match": '"other"'}, "PreconditionFailed"),
        ({"x-amz-copy-source-if-none-match": etag_of(DATA)}, "PreconditionFailed"),
        ({"x-amz-copy-source": f"{BUCKET}/missing"}, "NoSuchKey"),
    ],
)
def test_a_part_that_cannot_be_copied_is_none(
    service: Service, headers: Mapping[str, str], code: str
) -> None:
    put(service, "from", DATA)
    upload_id = service.lake.uploads.create(BUCKET, "to").upload_id
    with pytest.raises(LakebedError) as refused:
        copy_part(service, 1, upload_id=upload_id, headers=headers)
    assert to_s3(refused.value).code == code
    assert service.lake.uploads.parts(BUCKET, "to", upload_id).parts == []


def test_a_part_of_no_upload_is_refused(service: Service) -> None:
    put(service, "from", DATA)
    with pytest.raises(LakebedError) as refused:
        copy_part(service, 1, upload_id="missing")
    assert to_s3(refused.value).code == "NoSuchUpload"


class OneThread(ThreadPoolExecutor):
    """With one thread, which notes how many jobs it was given."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self.jobs = 0

    def submit(self, *arguments: Any, **named: Any) -> Any:
        self.jobs += 1
        return super().submit(*arguments, **named)


@pytest.mark.parametrize("is_part", [True, False], ids=["part", "checksum"])
def test_a_copy_that_takes_long_gives_its_thread_to_others_between_chunks(
    service: Service, *, is_part: bool
) -> None:
    chunks = 6
    data = body(chunks * CHUNK_BYTES)
    service.lake.objects.put(BUCKET, "from", data)
    upload_id = service.lake.uploads.create(BUCKET, "to").upload_id
    sources = {"x-amz-copy-source": SOURCE, "x-amz-checksum-algorithm": "SHA256"}
    with OneThread() as executor:
        alone = Service(
            lake=service.lake, config=service.config, clock=service.clock, executor=executor
        )

        async def run() -> None:
            copying: Any
            made = request("PUT", headers=sources)
            if is_part:
                operation = UploadPartCopy(
                    bucket=BUCKET, key="to", upload_id=upload_id, part_number=1
                )
                copying = upload_part_copy(alone, operation, made, identity())
            else:
                target = CopyObject(bucket=BUCKET, key="to")
                copying = copy_object(alone, target, made, identity())
            copied = asyncio.ensure_future(copying)
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # its first step was handed over
            listed = await list_objects(alone, ListObjects(bucket=BUCKET), made, identity())
            assert listed.status == 200
            assert executor.jobs <= chunks, "the copy was not done first"
            assert (await copied).status == 200

        asyncio.run(run())
        assert executor.jobs > chunks
