"""Hides signatures and access keys in logged queries, so that log readers cannot reuse them."""

from __future__ import annotations

import re

_SECRET = re.compile(
    rb"(?<![^&])((?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|AWSAccessKeyId)=)[^&]*",
    re.IGNORECASE,
)
_ENCODED_NAME = re.compile(rb"(?<![^&])([^=&]*%[^=&]*=)[^&]*")
_UNPRINTABLE = re.compile(rb"[^ -~]")
_HIDDEN = rb"\1***"


def redacted(raw_query: bytes) -> str:
    """Returns the query as printable text, with signatures, access keys and session tokens hidden.

    A value is also hidden if its parameter's name contains a percent sign, because that name could
    be an encoded form of a secret parameter's name.
    """
    shown = _ENCODED_NAME.sub(_HIDDEN, _SECRET.sub(_HIDDEN, raw_query))
    return _UNPRINTABLE.sub(_escaped, shown).decode("ascii")


def _escaped(byte: re.Match[bytes]) -> bytes:
    return b"\\x%02x" % ord(byte[0])
