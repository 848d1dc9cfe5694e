"""The examples that Amazon publishes with the signatures they must have."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import pytest

from lakebed.s3.auth.chunked import ChunkedDecoder
from lakebed.s3.auth.identity import PayloadKind
from lakebed.s3.errors import S3Error
from tests.s3.auth.signed_requests import AT, EMPTY_SHA256, authenticator, made_request

HOST = "examplebucket.s3.amazonaws.com"
SCOPE = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
WELCOME = b"Welcome to Amazon S3."

GET = (
    "GET",
    "/test.txt",
    {"range": "bytes=0-9", "x-amz-content-sha256": EMPTY_SHA256},
    "host;range;x-amz-content-sha256;x-amz-date",
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
)
PUT = (
    "PUT",
    "/test%24file.text",
    {
        "date": "Fri, 24 May 2013 00:00:00 GMT",
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
        "x-amz-content-sha256": sha256(WELCOME).hexdigest(),
    },
    "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
)
LIFECYCLE = (
    "GET",
    "/?lifecycle",
    {"x-amz-content-sha256": EMPTY_SHA256},
    "host;x-amz-content-sha256;x-amz-date",
    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
)
LISTING = (
    "GET",
    "/?max-keys=2&prefix=J",
    {"x-amz-content-sha256": EMPTY_SHA256},
    "host;x-amz-content-sha256;x-amz-date",
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
)
PRESIGNED = (
    "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    f"&X-Amz-Date={AT}&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


@pytest.mark.parametrize("example", [GET, PUT, LIFECYCLE, LISTING])
def test_a_signed_header_is_accepted(
    example: tuple[str, str, Mapping[str, str], str, str],
) -> None:
    method, target, headers, signed, signature = example
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={SCOPE},SignedHeaders={signed},Signature={signature}"
    )
    sent = {"host": HOST, "x-amz-date": AT, "authorization": authorization, **headers}
    identity = authenticator().authenticate(made_request(method, target, sent))
    assert identity.access_key == "AKIAIOSFODNN7EXAMPLE"
    assert identity.is_exempt
    assert identity.payload.kind is PayloadKind.SIGNED
    assert identity.payload.sha256 == headers["x-amz-content-sha256"]


def test_a_presigned_url_is_accepted_until_it_expires() -> None:
    request = made_request("GET", PRESIGNED, {"host": HOST})
    payload = authenticator(plus_s=86_400).authenticate(request).payload
    assert payload.kind is PayloadKind.UNSIGNED
    with pytest.raises(S3Error, match="Request has expired") as refused:
        authenticator(plus_s=86_401).authenticate(request)
    assert refused.value.code == "AccessDenied"
    assert dict(refused.value.details)["Expires"] == "2013-05-25T00:00:00Z"


DATA = b"a" * 66_560


def chunked_decoder(kind: PayloadKind, **headers: str) -> ChunkedDecoder:
    """Of the example's upload, whose headers are signed with the signature of that kind."""
    is_trailer = kind is PayloadKind.CHUNKS_SIGNED_TRAILER
    seed = (
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
        if is_trailer
        else "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    )
    signed = "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;"
    signed += "x-amz-decoded-content-length;x-amz-storage-class"
    if is_trailer:
        signed = signed.replace("content-length;host", "host", 1) + ";x-amz-trailer"
    sent = {
        "host": "s3.amazonaws.com",
        "x-amz-date": AT,
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
        "x-amz-content-sha256": kind.value,
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": "66560",
        "content-length": "66824",
        "authorization": "AWS4-HMAC-SHA256 "
        f"Credential={SCOPE}, SignedHeaders={signed}, Signature={seed}",
        **headers,
    }
    request = made_request("PUT", "/examplebucket/chunkObject.txt", sent)
    payload = authenticator().authenticate(request).payload
    assert payload.kind is kind
    names = [name for name in headers.values() if is_trailer]
    return ChunkedDecoder(payload, decoded_length=len(DATA), trailer_names=names)


def framed(sizes: list[int], signatures: list[str]) -> bytes:
    """The example's data in chunks."""
    return b"".join(
        b"%x;chunk-signature=%s\r\n" % (size, signature.encode())
        + DATA[:size]
        + b"\r\n" * (size > 0)
        for size, signature in zip(sizes, signatures, strict=True)
    )


def test_the_chunks_of_an_upload_are_accepted() -> None:
    signatures = [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ]
    body = framed([65_536, 1024, 0], signatures) + b"\r\n"
    assert len(body) == 66_824
    decoder = chunked_decoder(PayloadKind.CHUNKS_SIGNED)
    assert b"".join(decoder.feed(body)) == DATA
    assert decoder.finish() == {}


def test_the_chunks_and_the_trailer_of_an_upload_are_accepted() -> None:
    signatures = [
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ]
    trailer = (
        b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
        b"x-amz-trailer-signature:"
        b"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
    )
    decoder = chunked_decoder(
        PayloadKind.CHUNKS_SIGNED_TRAILER, **{"x-amz-trailer": "x-amz-checksum-crc32c"}
    )
    assert b"".join(decoder.feed(framed([65_536, 1024, 0], signatures) + trailer)) == DATA
    assert decoder.finish() == {"x-amz-checksum-crc32c": "sOO8/Q=="}
