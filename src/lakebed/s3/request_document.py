"""Reads an XML document from the body of a request, up to a size limit, and checks its digests."""

from __future__ import annotations

from lakebed.http.request import Request
from lakebed.s3.auth.identity import Identity
from lakebed.s3.checksums import announced
from lakebed.s3.errors import S3Error
from lakebed.s3.unsupported import not_implemented
from lakebed.s3.upload_body import UploadBody
from lakebed.seglake.digests import BodyDigests


async def read_message(
    request: Request, identity: Identity, *, bytes_max: int, needs_digest: bool = False
) -> bytes:
    """Returns the body of a request, which may be empty.

    Raises `BadDigest` if the body does not match `Content-MD5` or a checksum header, `BadSize` if
    it does not have the announced length, and `S3Error` if it does not match the signed
    `x-amz-content-sha256`, if it is larger than `bytes_max`, or if `needs_digest` is set and the
    request has no `Content-MD5` or checksum header. A request with a checksum in a trailer is
    refused too, because clients can send the checksum of a document in a header.
    """
    headers = request.headers
    if "x-amz-trailer" in headers:
        raise not_implemented(
            "A checksum in the trailer of an XML document is not implemented",
            header="x-amz-trailer",
        )
    announcement = announced(headers, has_trailer=False)
    expected = announcement.expected
    if needs_digest and expected.md5 is None and not expected.checksums:
        raise S3Error(
            "InvalidRequest",
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
        )
    incoming = UploadBody(request, identity, is_optional=True)
    if incoming.length > bytes_max:
        raise S3Error(
            "MaxMessageLengthExceeded",
            f"Your request has {incoming.length} bytes, the maximum is {bytes_max}.",
            closes=True,
        )
    data = await incoming.whole()
    BodyDigests.of(data, [checksum.algorithm for checksum in expected.checksums]).check(expected)
    return data
