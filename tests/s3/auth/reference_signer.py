"""Signs requests by the words of the documentation, apart from the code that checks them."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from lakebed.http.request import Request
from lakebed.s3.auth.identity import Payload, PayloadKind
from tests.s3.auth.signed_requests import ACCESS_KEY, AT, EMPTY_SHA256, SECRET, made_request

UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
SCOPE = f"{AT[:8]}/us-east-1/s3/aws4_request"
SCHEME = "AWS4-HMAC-SHA256"


class Signed(NamedTuple):
    """What goes on the wire."""

    method: str
    target: bytes
    headers: dict[str, str]

    def request(self) -> Request:
        return made_request(self.method, self.target, self.headers)


def encoded(data: bytes, *, safe: bytes = b"") -> bytes:
    return b"".join(
        bytes([byte]) if byte in UNRESERVED + safe else b"%%%02X" % byte for byte in data
    )


def signing_key(secret: str = SECRET, scope: str = SCOPE) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), sha256).digest()
    return key


def sign(text: str, *, key: bytes | None = None) -> str:
    return hmac.new(key or signing_key(), text.encode("latin-1"), sha256).hexdigest()


def signature(
    method: str,
    path: bytes,
    query: Sequence[tuple[bytes, bytes]],
    headers: Mapping[str, str],
    payload: str,
    *,
    scope: str = SCOPE,
) -> str:
    names = sorted(headers)
    lines = [
        method,
        encoded(path, safe=b"/").decode(),
        canonical_query(query).decode(),
        *(f"{name}:{' '.join(headers[name].split())}" for name in names),
        "",
        ";".join(names),
        payload,
    ]
    digest = sha256("\n".join(lines).encode("latin-1")).hexdigest()
    return sign(f"{SCHEME}\n{AT}\n{scope}\n{digest}", key=signing_key(scope=scope))


def canonical_query(query: Sequence[tuple[bytes, bytes]]) -> bytes:
    pairs = sorted((encoded(name), encoded(value)) for name, value in query)
    return b"&".join(name + b"=" + value for name, value in pairs)


def signed_by_header(
    method: str = "GET",
    path: bytes = b"/",
    query: Sequence[tuple[bytes, bytes]] = (),
    headers: Mapping[str, str] | None = None,
    payload: str = EMPTY_SHA256,
    *,
    region: str = "us-east-1",
    date: str | None = None,
) -> Signed:
    """`date` stands in the header of that name, in the place of `x-amz-date`."""
    time = {"x-amz-date": AT} if date is None else {"date": date}
    sent = {"host": "localhost:9000", **time, "x-amz-content-sha256": payload, **(headers or {})}
    scope = SCOPE.replace("us-east-1", region)
    found = signature(method, path, query, sent, payload, scope=scope)
    authorization = (
        f"{SCHEME} Credential={ACCESS_KEY}/{scope}, SignedHeaders={';'.join(sorted(sent))}, "
        f"Signature={found}"
    )
    target = encoded(path, safe=b"/") + (b"?" + canonical_query(query) if query else b"")
    return Signed(method, target, {**sent, "authorization": authorization})


def presigned(
    method: str = "GET",
    path: bytes = b"/",
    query: Sequence[tuple[bytes, bytes]] = (),
    headers: Mapping[str, str] | None = None,
    *,
    expires_s: int = 3600,
    payload: str = "UNSIGNED-PAYLOAD",
) -> Signed:
    sent = {"host": "localhost:9000", **(headers or {})}
    full = [
        *query,
        (b"X-Amz-Algorithm", SCHEME.encode()),
        (b"X-Amz-Credential", f"{ACCESS_KEY}/{SCOPE}".encode()),
        (b"X-Amz-Date", AT.encode()),
        (b"X-Amz-Expires", str(expires_s).encode()),
        (b"X-Amz-SignedHeaders", ";".join(sorted(sent)).encode()),
    ]
    found = signature(method, path, full, sent, payload).encode()
    target = encoded(path, safe=b"/") + b"?" + canonical_query(full)
    return Signed(method, target + b"&X-Amz-Signature=" + found, sent)


# Bodies in chunks.

SEED = "0" * 64


def chunked_payload(kind: PayloadKind) -> Payload:
    return Payload(kind=kind, signing_key=signing_key(), seed_signature=SEED, date=AT, scope=SCOPE)


def chunked_body(
    kind: PayloadKind, chunks: Sequence[bytes], trailers: Mapping[str, str] | None = None
) -> bytes:
    """The chunks, the last empty one, and the trailers, as they are sent."""
    is_signed = kind in (PayloadKind.CHUNKS_SIGNED, PayloadKind.CHUNKS_SIGNED_TRAILER)
    previous = SEED
    body = b""
    for chunk in (*chunks, b""):
        body += b"%x" % len(chunk)
        if is_signed:
            previous = sign(
                f"{SCHEME}-PAYLOAD\n{AT}\n{SCOPE}\n{previous}\n{EMPTY_SHA256}\n"
                f"{sha256(chunk).hexdigest()}"
            )
            body += b";chunk-signature=" + previous.encode()
        body += b"\r\n" + chunk + (b"\r\n" if chunk else b"")
    for name, value in (trailers or {}).items():
        body += f"{name}:{value}\r\n".encode()
    if kind is PayloadKind.CHUNKS_SIGNED_TRAILER:
        text = "".join(f"{name}:{value}\n" for name, value in (trailers or {}).items())
        digest = sha256(text.encode()).hexdigest()
        found = sign(f"{SCHEME}-TRAILER\n{AT}\n{SCOPE}\n{previous}\n{digest}")
        body += b"x-amz-trailer-signature:" + found.encode() + b"\r\n"
    return body + b"\r\n"
