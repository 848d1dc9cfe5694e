"""Requests that change something, one maker for each verb, for tests that ask many at once.

make = CHANGING["CopyObject"]
data = make(lake, 7)      # signed; whatever it needs is put into the lake before
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from lakebed.base.units import KIB
from lakebed.seglake.lake import Lake
from tests.s3.wire import BUCKET, signed_request

LARGE: Final = b"large"  # an object that is there, and is read in another thread
LARGE_BYTES: Final = 300 * KIB
STREAMED_BYTES: Final = 100 * KIB  # more than is waited for with a head

_SOURCE: Final = {"x-amz-copy-source": f"/{BUCKET}/{LARGE.decode()}"}


def create_bucket(_lake: Lake, number: int) -> bytes:
    return signed_request("PUT", b"/new-%d" % number)


def configure_bucket(_lake: Lake, _number: int) -> bytes:
    body = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
    return signed_request("PUT", _path(), query=[(b"versioning", b"")], body=body)


def delete_bucket(lake: Lake, number: int) -> bytes:
    lake.buckets.create(f"old-{number}")
    return signed_request("DELETE", b"/old-%d" % number)


def put_object(_lake: Lake, number: int) -> bytes:
    return signed_request("PUT", _path(number), body=b"small")


def put_object_streamed(_lake: Lake, number: int) -> bytes:
    return signed_request("PUT", _path(number), body=bytes(STREAMED_BYTES))


def copy_object(_lake: Lake, number: int) -> bytes:
    return signed_request("PUT", _path(number), headers=_SOURCE)


def copy_object_hashed(_lake: Lake, number: int) -> bytes:
    """With a checksum that the source does not have."""
    headers = {**_SOURCE, "x-amz-checksum-algorithm": "SHA256"}
    return signed_request("PUT", _path(number), headers=headers)


def delete_object(_lake: Lake, number: int) -> bytes:
    return signed_request("DELETE", _path(number))


def delete_objects(_lake: Lake, number: int) -> bytes:
    named = "".join(f"<Object><Key>{number}-{one}</Key></Object>" for one in "ab")
    body = f"<Delete>{named}</Delete>".encode()
    md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return signed_request(
        "POST", _path(), query=[(b"delete", b"")], headers={"content-md5": md5}, body=body
    )


def create_upload(_lake: Lake, number: int) -> bytes:
    return signed_request("POST", _path(number), query=[(b"uploads", b"")])


def upload_part(lake: Lake, number: int) -> bytes:
    return signed_request("PUT", _path(number), query=_part(lake, number), body=b"small")


def upload_part_streamed(lake: Lake, number: int) -> bytes:
    body = bytes(STREAMED_BYTES)
    return signed_request("PUT", _path(number), query=_part(lake, number), body=body)


def upload_part_copy(lake: Lake, number: int) -> bytes:
    return signed_request("PUT", _path(number), query=_part(lake, number), headers=_SOURCE)


def complete_upload(lake: Lake, number: int) -> bytes:
    upload_id = _upload(lake, number)
    etag = lake.uploads.put_part(BUCKET, str(number), upload_id, 1, b"part").etag
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    query = [(b"uploadId", upload_id.encode())]
    return signed_request("POST", _path(number), query=query, body=body)


def abort_upload(lake: Lake, number: int) -> bytes:
    query = [(b"uploadId", _upload(lake, number).encode())]
    return signed_request("DELETE", _path(number), query=query)


CHANGING: Final[Mapping[str, Callable[[Lake, int], bytes]]] = {
    "CreateBucket": create_bucket,
    "PutBucketVersioning": configure_bucket,
    "DeleteBucket": delete_bucket,
    "PutObject": put_object,
    "PutObject, streamed": put_object_streamed,
    "CopyObject": copy_object,
    "CopyObject, hashed": copy_object_hashed,
    "DeleteObject": delete_object,
    "DeleteObjects": delete_objects,
    "CreateMultipartUpload": create_upload,
    "UploadPart": upload_part,
    "UploadPart, streamed": upload_part_streamed,
    "UploadPartCopy": upload_part_copy,
    "CompleteMultipartUpload": complete_upload,
    "AbortMultipartUpload": abort_upload,
}


def _path(number: int | None = None) -> bytes:
    return f"/{BUCKET}".encode() + (b"" if number is None else b"/%d" % number)


def _upload(lake: Lake, number: int) -> str:
    return lake.uploads.create(BUCKET, str(number)).upload_id


def _part(lake: Lake, number: int) -> list[tuple[bytes, bytes]]:
    return [(b"partNumber", b"1"), (b"uploadId", _upload(lake, number).encode())]
