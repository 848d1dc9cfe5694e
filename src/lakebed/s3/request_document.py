"""A document that came as the body of a request: whole, bounded, and as it was said to be."""

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
    """`needs_digest`: it is refused if nothing says what it must be. `BadDigest`.

    A checksum behind the body is not taken: of a document it can stand in the head.
    """
    headers = request.headers
    if "x-amz-trailer" in headers:
        raise not_implemented(
            "A checksum that follows a document is not implemented", header="x-amz-trailer"
        )
    said = announced(headers, has_trailer=False)
    expected = said.expected
    if needs_digest and expected.md5 is None and not expected.checksums:
        raise S3Error(
            "InvalidRequest",
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
        )
    data = b""
    if request.body.whole != b"":
        incoming = UploadBody(request, identity)
        if incoming.length > bytes_max:
            raise S3Error(
                "MaxMessageLengthExceeded",
                f"Your request has {incoming.length} bytes, at most {bytes_max} are taken.",
                closes=True,
            )
        data = await incoming.whole()
    BodyDigests.of(data, [one.algorithm for one in expected.checksums]).check(expected)
    return data
