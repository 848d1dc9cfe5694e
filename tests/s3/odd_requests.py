"""Requests that nobody should send, drawn at random: signed as they should be, or spoiled after.

A request that is signed reaches whatever it asks for; one whose bytes were changed is refused
sooner, by the protocol or for its signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from lakebed.s3.auth.identity import PayloadKind
from tests.s3.auth.reference_signer import chunked_body
from tests.s3.wire import signed_request

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "get", "M-SEARCH")
METHOD_WEIGHTS: Final = (6, 3, 8, 6, 4, 1, 1, 1, 1)
PATHS: Final = (
    b"/",
    b"/bucket",
    b"/bucket/",
    b"/bucket/key",
    b"/bucket/large",
    b"/bucket/nothing",
    b"/nowhere",
    b"/nowhere/key",
    b"/BUCKET_/key",
    b"/lakebed-tier2/key",
    b"//",
    b"/bucket//",
    b"/bucket/../key",
    b"/bucket/" + b"k" * 1024,
    b"/bucket/" + b"k" * 1025,
    b"/bucket/\xff\xfe",
    b"/bucket/\x00\x01\x7f",
    b"/bucket/\xed\xa0\x80",
    "/bucket/ä%2F+ 漢".encode(),
)
PARAMETERS: Final = (
    "acl",
    "attributes",
    "continuation-token",
    "cors",
    "delete",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "lifecycle",
    "list-type",
    "location",
    "marker",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "policy",
    "prefix",
    "response-content-type",
    "response-expires",
    "start-after",
    "tagging",
    "upload-id-marker",
    "uploadId",
    "uploads",
    "version-id-marker",
    "versionId",
    "versioning",
    "versions",
    "x-amz-meta-a",
    "x-id",
    "X-Amz-Expires",
    "X-Amz-Signature",
    "nobody-knows",
)
HEADERS: Final = (
    "cache-control",
    "content-encoding",
    "content-md5",
    "content-type",
    "expect",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "x-amz-acl",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-md5",
    "x-amz-checksum-mode",
    "x-amz-checksum-sha256",
    "x-amz-checksum-type",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-range",
    "x-amz-decoded-content-length",
    "x-amz-meta-a",
    "x-amz-meta-",
    "x-amz-metadata-directive",
    "x-amz-mp-object-size",
    "x-amz-object-lock-mode",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-server-side-encryption",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-trailer",
    "x-seglake-versioning",
)
VALUES: Final = (
    "",
    "0",
    "1",
    "-1",
    "+5",
    "1e9",
    "10001",
    "99999999999999999999",
    "\u0661",
    "true",
    "null",
    "*",
    "url",
    "2",
    '"',
    '""',
    '"d41d8cd98f00b204e9800998ecf8427e"',
    "bytes=0-0",
    "bytes=-0",
    "bytes=5-2",
    "bytes=0-,-1,3-4",
    "bytes=" + ",".join(f"{n}-{n}" for n in range(0, 400, 2)),
    "bytes=99999999999999999999999-",
    "/bucket/key",
    "bucket/key?versionId=null",
    "bucket/%zz%",
    "nowhere/key",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Thu, 99 Foo 99999 99:99:99 GMT",
    "Sat, 31 Dec 9999 23:59:59 +9999",
    "=?UTF-8?B?!!!?=",
    "=?UTF-8?Q?=FF=FE?=",
    "=?x-nothing?B?AAAA?=",
    "\x80\xff\xe4",
    "1B2M2Y8AsgTpgAmY7PhCfg==",
    "AAAAAA==",
    "AAAA",
    "!",
    "CRC32",
    "SHA256",
    "COMPOSITE",
    "FULL_OBJECT",
    "REPLACE",
    "ENABLED",
    "100-continue",
    "aws-chunked",
    "aws-chunked,gzip",
    "x-amz-checksum-crc32",
    "../..",
    "a" * 3000,
    "{upload}",
    "{version}",
)
_ETAGS: Final = ("*", '"5eb63bbbe01eeed093cb22bb8f5acdc3"', '"x", W/"y"', "unquoted")
_DATES: Final = ("Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "yesterday")
FITTING: Final[Mapping[str, Sequence[str]]] = {
    "range": ("bytes=0-0", "bytes=-3", "bytes=2-,0-1", "bytes=9-5", "bytes=0-99999999999999999999"),
    "if-match": _ETAGS,
    "if-none-match": _ETAGS,
    "if-modified-since": _DATES,
    "if-unmodified-since": _DATES,
    "x-amz-copy-source": ("/bucket/key", "bucket/large", "bucket/none", "bucket"),
    "x-amz-metadata-directive": ("COPY", "REPLACE", "replace"),
    "partNumber": ("1", "2", "10000"),
    "max-keys": ("0", "1", "1000", "1001"),
    "delimiter": ("/", "e"),
}
"""Values that belong to their names, or nearly."""

S3_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
DOCUMENTS: Final = (
    b"<",
    b"<a/>",
    b"\x00\x01",
    b"<Delete><Object><Key>key</Key></Object></Delete>",
    b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>",
    b"<Delete><Object><Key>&#0;</Key></Object></Delete>",
    b"<Delete><Object><Key>k</Key><VersionId>x</VersionId><ETag>*</ETag></Object></Delete>",
    f'<Delete xmlns="{S3_NAMESPACE}"><Quiet>maybe</Quiet><Object/></Delete>'.encode(),
    b"<CompleteMultipartUpload/>",
    b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber></Part></CompleteMultipartUpload>",
    (
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>"
        b"<Part><PartNumber>1</PartNumber><ETag>a</ETag></Part></CompleteMultipartUpload>"
    ),
    b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    b"<VersioningConfiguration><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>",
    b"<CreateBucketConfiguration><LocationConstraint>mars</LocationConstraint></CreateBucket>",
    b'<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;&b;&b;">]><Delete>&d;</Delete>',
    b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><Delete>&b;</Delete>',
    b"<a>" * 5000,
    b"<Delete " + b" ".join(b'a%d="b"' % number for number in range(2000)) + b"/>",
    "<Delete><Object><Key>k</Key></Object></Delete>".encode("utf-16"),
    b'<?xml version="1.0" encoding="nothing"?><Delete/>',
)
PAYLOADS: Final = (
    "UNSIGNED-PAYLOAD",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-UNSIGNED-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
    "0" * 64,
    "nothing",
    "",
)
KINDS: Final = tuple(kind for kind in PayloadKind if kind.is_chunked)


class Form(NamedTuple):
    """Of a request that is understood; only its values are odd."""

    method: str
    path: bytes
    fixed: Mapping[str, str] = {}
    parameters: Sequence[str] = ()
    headers: Sequence[str] = ()
    has_document: bool = False


READ: Final = ("if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "range")
WRITTEN: Final = (
    "cache-control",
    "content-encoding",
    "content-md5",
    "content-type",
    "expires",
    "if-match",
    "if-none-match",
    "x-amz-checksum-crc32",
    "x-amz-checksum-sha256",
    "x-amz-decoded-content-length",
    "x-amz-meta-a",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-trailer",
)
COPIED: Final = ("x-amz-copy-source", "x-amz-metadata-directive", "x-amz-copy-source-if-match")
LISTED: Final = ("prefix", "delimiter", "encoding-type")
FORMS: Final = (
    Form("GET", b"/bucket/key", {}, ("versionId", "partNumber", "response-expires"), READ),
    Form("GET", b"/bucket/large", {}, ("partNumber",), (*READ, "x-amz-checksum-mode")),
    Form("HEAD", b"/bucket/key", {}, ("versionId", "partNumber"), READ),
    Form("PUT", b"/bucket/new", {}, (), WRITTEN),
    Form("PUT", b"/bucket/copy", {}, (), COPIED),
    Form("PUT", b"/bucket/key", {"uploadId": "{upload}", "partNumber": "1"}, (), WRITTEN),
    Form("PUT", b"/bucket/key", {"uploadId": "{upload}"}, ("partNumber",), COPIED[:1]),
    Form("POST", b"/bucket/key", {"uploads": ""}, (), WRITTEN),
    Form("POST", b"/bucket/key", {"uploadId": "{upload}"}, (), (), has_document=True),
    Form("GET", b"/bucket/key", {"uploadId": "{upload}"}, ("max-parts", "part-number-marker")),
    Form("DELETE", b"/bucket/key", {}, ("versionId",), ("if-match",)),
    Form("POST", b"/bucket", {"delete": ""}, (), ("content-md5",), has_document=True),
    Form("PUT", b"/bucket", {"versioning": ""}, (), (), has_document=True),
    Form("PUT", b"/another", {}, (), ("x-seglake-versioning",), has_document=True),
    Form("GET", b"/bucket", {}, (*LISTED, "marker", "max-keys")),
    Form("GET", b"/bucket", {"list-type": "2"}, (*LISTED, "continuation-token", "start-after")),
    Form("GET", b"/bucket", {"versions": ""}, (*LISTED, "key-marker", "version-id-marker")),
    Form("GET", b"/bucket", {"uploads": ""}, (*LISTED, "key-marker", "upload-id-marker")),
    Form("GET", b"/", {}, ("max-buckets", "continuation-token", "prefix")),
)


def odd_request(random: Random, names: dict[str, str]) -> bytes:
    """One that is signed; `names` are those of a version and an upload that are there."""
    payload = random.choice(PAYLOADS) if random.random() < 0.3 else None
    if random.random() < 0.7:
        return _of_form(random, random.choice(FORMS), names, payload)
    (method,) = random.choices(METHODS, METHOD_WEIGHTS)
    body = _body(random)
    return signed_request(
        method,
        random.choice(PATHS),
        query=_query(
            random, random.choices(PARAMETERS, k=random.choice((0, 0, 1, 1, 2, 3))), names
        ),
        headers=_headers(random, random.choices(HEADERS, k=random.choice((0, 0, 1, 2, 4))), names),
        body=body,
        payload=payload,
        length=None if random.random() < 0.9 else max(0, len(body) + random.randint(-5, 5)),
    )


def _of_form(random: Random, form: Form, names: dict[str, str], payload: str | None) -> bytes:
    parameters = random.sample(form.parameters, random.randint(0, len(form.parameters)))
    headers = random.sample(form.headers, random.randint(0, min(3, len(form.headers))))
    fixed = [
        (name.encode(), value.format_map(names).encode()) for name, value in form.fixed.items()
    ]
    if form.has_document:
        body = random.choice(DOCUMENTS)
    else:
        body = _body(random) if form.method in ("PUT", "POST") else b""
    return signed_request(
        form.method,
        form.path,
        query=fixed + _query(random, parameters, names),
        headers=_headers(random, headers, names),
        body=body,
        payload=payload if body else None,
    )


def _query(
    random: Random, chosen: Sequence[str], names: dict[str, str]
) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), _value(random, names, name).encode()) for name in chosen]


def _headers(random: Random, chosen: Sequence[str], names: dict[str, str]) -> dict[str, str]:
    return {name: _on_wire(_value(random, names, name)) for name in chosen}


def spoiled(random: Random, data: bytes) -> bytes:
    """With some bytes changed, taken out, put in, or doubled; mostly in the head."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        end = len(found) if random.random() < 0.3 else max(1, found.find(b"\r\n\r\n"))
        place = random.randrange(max(1, min(end, len(found))))
        match random.randrange(6):
            case 0:
                found[place : place + 1] = bytes([random.randrange(256)])
            case 1:
                del found[place : place + random.choice((1, 1, 4, 50))]
            case 2:
                found[place:place] = random.choice(
                    (b"\r\n", b"\n", b" ", b"\x00", b":", b"%", b"\xff", b"a: b\r\n", b"A" * 70_000)
                )
            case 3:
                found[place:place] = found[place : place + random.choice((1, 20, 200))]
            case 4:
                line_end = found.find(b"\r\n", place)
                found[line_end:line_end] = random.choice(
                    (b"\r\nTransfer-Encoding: chunked", b"\r\nContent-Length: 5", b"\r\nHost: x")
                )
            case 5:
                del found[place:]
    return bytes(found)


def _value(random: Random, names: dict[str, str], name: str) -> str:
    if name in FITTING and random.random() < 0.6:
        return random.choice(FITTING[name])
    if random.random() < 0.1:
        return "".join(chr(random.randrange(0x21, 0x2FF)) for _ in range(random.randrange(12)))
    return random.choice(VALUES).format_map(names)


def _on_wire(value: str) -> str:
    """What can stand in a header."""
    return value.encode("latin-1", "replace").decode("latin-1").replace("\x7f", "").strip()


def _body(random: Random) -> bytes:
    match random.randrange(5):
        case 0 | 1:
            return b""
        case 2:
            return random.randbytes(random.choice((1, 100, 70_000)))
        case 3:
            return random.choice(DOCUMENTS)
        case _:
            chunks = [random.randbytes(random.choice((1, 50, 9000))) for _ in range(2)]
            trailers = random.choice(({}, {"x-amz-checksum-crc32": "AAAAAA=="}, {"a": "b"}))
            framed = chunked_body(random.choice(KINDS), chunks, trailers)
            return spoiled(random, framed) if random.random() < 0.5 else framed
