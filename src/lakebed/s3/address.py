"""Reads the bucket and key of a request from its host and raw path.

A path-style request has the path `/<bucket>/<key>`. A virtual-hosted request has the path `/<key>`
and the host `<bucket>.<domain>`. The path is percent-decoded once, as UTF-8, and not changed
otherwise: `//`, `.` and `..` in a key are kept, and `+` is a plus sign.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from lakebed.s3.errors import S3Error

LOCAL_DOMAINS: Final = ("s3.localhost", "localhost")  # used if no domain is configured

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_PORT = re.compile(r":\d*\Z", re.ASCII)


class Address(NamedTuple):
    """The target of a request: an object, a bucket if `key` is "", the service if both are ""."""

    bucket: str
    key: str


def address_of(raw_path: bytes, *, host: str, domain: str) -> Address:
    """Returns the bucket and key that a request addresses.

    `domain` is the domain below which a host name contains a bucket; "" means `LOCAL_DOMAINS`.
    Raises the S3 error `InvalidURI` if the path cannot be decoded, and `InvalidBucketName` if it
    has a key but no bucket.
    """
    if not raw_path.startswith(b"/"):
        raise invalid_uri()
    bucket = bucket_of_host(host, domain=domain)
    if bucket:
        return Address(bucket, decoded(raw_path[1:]))
    raw_bucket, _, raw_key = raw_path[1:].partition(b"/")
    if not raw_bucket and raw_key:
        raise S3Error("InvalidBucketName", "The specified bucket is not valid.")
    return Address(decoded(raw_bucket), decoded(raw_key))


def bucket_of_host(host: str, *, domain: str) -> str:
    """Returns the bucket in a host `<bucket>.<domain>`, or "" if the host has another form."""
    name = _PORT.sub("", host).rstrip(".").lower()
    for base in (domain.lower(),) if domain else LOCAL_DOMAINS:
        if name == base:
            return ""
        if name.endswith(f".{base}"):
            return name[: -len(base) - 1]
    return ""


def decoded(raw: bytes) -> str:
    """Percent-decodes `raw`; raises the S3 error `InvalidURI` if an escape or UTF-8 is invalid."""
    if b"%" in raw:
        if _BAD_ESCAPE.search(raw):
            raise invalid_uri()
        raw = unquote_to_bytes(raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise invalid_uri() from None


def invalid_uri() -> S3Error:
    return S3Error("InvalidURI", "Couldn't parse the specified URI.")
