"""Which bucket and key a request is about: from the host it was sent to and its raw path.

Path-style is `/<bucket>/<key>`; virtual-hosted is `/<key>` at the host `<bucket>.<domain>`. The
path is percent-decoded once, as UTF-8; nothing else is done to it: `//`, `.` and `..` are parts
of keys, and `+` is itself.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from lakebed.s3.errors import S3Error

LOCAL_DOMAINS: Final = ("s3.localhost", "localhost")  # where no domain is configured

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_PORT = re.compile(r":\d*\Z", re.ASCII)


class Address(NamedTuple):
    """Without a bucket: the service. Without a key: the bucket."""

    bucket: str
    key: str


def address_of(raw_path: bytes, *, host: str, domain: str) -> Address:
    """`domain` is the base of virtual-hosted names, or "" for those of this machine."""
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
    """The bucket that a host is named after, or "" if none is."""
    name = _PORT.sub("", host).rstrip(".").lower()
    for base in (domain.lower(),) if domain else LOCAL_DOMAINS:
        if name == base:
            return ""
        if name.endswith(f".{base}"):
            return name[: -len(base) - 1]
    return ""


def decoded(raw: bytes) -> str:
    """Percent-decoded text."""
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
