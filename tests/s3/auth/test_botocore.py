"""What botocore signs is accepted: headers, URLs, and bodies in chunks."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum

from lakebed.http.request import Request
from lakebed.s3.auth.chunked import ChunkedDecoder
from lakebed.s3.auth.identity import Identity, PayloadKind
from lakebed.s3.errors import S3Error
from tests.s3.auth.signed_requests import ACCESS_KEY, SECRET, as_sent, authenticator

KEYS = [
    "plain",
    "a/b//c",
    "..",
    "../up/./here",
    "with space",
    "plus+sign",
    "percent%2Fslash",
    "ü/ 雪 / 🦜",
    "'()*!$&,:;=@",
    '<xml attr="1">&amp;',
    "tilde~dash-dot.under_",
    "\x01\x7f\t",
    "%",
    "?query=in&key#fragment",
]
QUERIES = [
    "",
    "uploads",
    "uploads=",
    "prefix=a%20b&delimiter=%2F",
    "prefix=a+b",
    "prefix=%C3%BC&prefix=a",
    "b=2&a=1&a-b=0&a=0",
    "a=%3D%26&b==",
    "partNumber=1&uploadId=abc~._-",
]
HEADERS = {
    "Content-Type": "text/plain; charset=utf-8",
    "x-amz-meta-spaces": "a   b  c",
    "X-Amz-Meta-Case": "Mixed",
    "x-amz-meta-empty": "",
}


def target(key: str, query: str) -> str:
    return f"http://127.0.0.1:9000/bucket/{quote(key, safe='/~')}" + (f"?{query}" if query else "")


def signed(url: str, *, method: str = "PUT", body: bytes = b"", presigned: bool = False) -> Request:
    request = AWSRequest(method, url, data=body, headers={} if presigned else HEADERS)
    kind = S3SigV4QueryAuth if presigned else S3SigV4Auth
    kind(Credentials(ACCESS_KEY, SECRET), "s3", "us-east-1").add_auth(request)
    return as_sent(request)


def accept(request: Request) -> Identity:
    """At the time it was signed."""
    timestamp = request.headers.get("x-amz-date")
    if timestamp is None:
        query = dict(pair.split("=", 1) for pair in request.raw_query.decode().split("&"))
        timestamp = query["X-Amz-Date"]
    return authenticator(timestamp).authenticate(request)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("key", KEYS)
def test_headers_of_any_key_and_query_are_accepted(key: str, query: str) -> None:
    identity = accept(signed(target(key, query), body=b"data"))
    assert identity.payload.sha256 == sha256(b"data").hexdigest()


@pytest.mark.parametrize("query", ["", "versionId=1%2B2", "response-content-type=text/plain"])
@pytest.mark.parametrize("key", KEYS)
def test_presigned_urls_of_any_key_are_accepted(key: str, query: str) -> None:
    identity = accept(signed(target(key, query), presigned=True))
    assert identity.payload.kind is PayloadKind.UNSIGNED


def test_a_presigned_url_is_good_for_its_method_alone() -> None:
    request = signed(target("plain", ""), method="GET", presigned=True)
    request.method = "PUT"
    with pytest.raises(S3Error) as refused:
        accept(request)
    assert refused.value.code == "SignatureDoesNotMatch"


def test_a_body_in_chunks_with_a_checksum_behind_it_is_accepted() -> None:
    data = bytes(range(256)) * 8192
    request = AWSRequest(
        "PUT",
        target("plain", ""),
        headers={
            "Content-Encoding": "aws-chunked",
            "Transfer-Encoding": "chunked",
            "X-Amz-Decoded-Content-Length": str(len(data)),
            "X-Amz-Trailer": "x-amz-checksum-crc32",
        },
    )
    request.context["checksum"] = {"request_algorithm": {"in": "trailer"}}
    S3SigV4Auth(Credentials(ACCESS_KEY, SECRET), "s3", "us-east-1").add_auth(request)
    sent = as_sent(request)
    payload = accept(sent).payload
    assert payload.kind is PayloadKind.CHUNKS_UNSIGNED_TRAILER

    encoded = AwsChunkedWrapper(
        BytesIO(data),
        checksum_cls=Crc32Checksum,
        checksum_name="x-amz-checksum-crc32",
        chunk_size=70_000,
    ).read()
    decoder = ChunkedDecoder(
        payload,
        decoded_length=int(sent.headers["x-amz-decoded-content-length"]),
        trailer_names=[sent.headers["x-amz-trailer"]],
    )
    assert b"".join(decoder.feed(encoded)) == data
    checksum = Crc32Checksum()
    checksum.update(data)
    assert decoder.finish() == {"x-amz-checksum-crc32": checksum.b64digest()}
