"""Bodies as clients send them, and short words for putting and getting objects."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence

from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity, PayloadKind
from lakebed.s3.service import Service
from lakebed.s3.verbs.object_get import GetObject, HeadObject, get_object, head_object
from lakebed.s3.verbs.object_put import PutObject, put_object
from tests.s3.calls import call, identity, request
from tests.seglake.lakes import BUCKET, in_pieces

LARGE_BYTES = 9 * 1024 * 1024 + 17  # three chunks
UNSIGNED_TRAILER = identity(PayloadKind.CHUNKS_UNSIGNED_TRAILER)


def base64_of(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def md5_of(data: bytes) -> str:
    return base64_of(hashlib.md5(data, usedforsecurity=False).digest())


def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def crc32_of(data: bytes) -> str:
    return base64_of(zlib.crc32(data).to_bytes(4, "big"))


def signed(data: bytes) -> Identity:
    """Who says what the SHA-256 of the body is."""
    return identity(PayloadKind.SIGNED, sha256=hashlib.sha256(data).hexdigest())


def framed(data: bytes, *, chunk_bytes: int = 100_000, trailers: Sequence[str] = ()) -> bytes:
    """As `aws-chunked` without signatures."""
    chunks = [
        b"%x\r\n%b\r\n" % (len(piece), bytes(piece)) for piece in in_pieces(data, chunk_bytes)
    ]
    end = "0\r\n" + "".join(f"{line}\r\n" for line in trailers) + "\r\n"
    return b"".join([*chunks, end.encode()])


def trailed_headers(data: bytes) -> dict[str, str]:
    """Of a body in chunks with a CRC32 behind it."""
    return {
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": str(len(data)),
        "x-amz-trailer": "x-amz-checksum-crc32",
        "x-amz-sdk-checksum-algorithm": "CRC32",
    }


def sent(data: bytes, *, is_streamed: bool, piece_bytes: int = 70_000) -> bytes | list[bytes]:
    """With its head, or in pieces behind it."""
    return [bytes(piece) for piece in in_pieces(data, piece_bytes)] if is_streamed else data


def put(
    service: Service,
    key: str,
    data: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    is_streamed: bool = False,
    who: Identity | None = None,
    bucket: str = BUCKET,
) -> Response:
    made = request("PUT", headers=headers, body=sent(data, is_streamed=is_streamed))
    return call(put_object, service, PutObject(bucket=bucket, key=key), made, who)


def get(
    service: Service,
    key: str,
    *,
    headers: Mapping[str, str] | None = None,
    version_id: str | None = None,
    part_number: int | None = None,
    overrides: tuple[tuple[str, str], ...] = (),
    bucket: str = BUCKET,
) -> Response:
    operation = GetObject(
        bucket=bucket,
        key=key,
        version_id=version_id,
        part_number=part_number,
        overrides=overrides,
    )
    return call(get_object, service, operation, request("GET", headers=headers))


def head(
    service: Service,
    key: str,
    *,
    headers: Mapping[str, str] | None = None,
    part_number: int | None = None,
    bucket: str = BUCKET,
) -> Response:
    operation = HeadObject(bucket=bucket, key=key, part_number=part_number)
    return call(head_object, service, operation, request("HEAD", headers=headers))
