"""Hides the values in a logged query that would let a reader of the log reuse its signature."""

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
    """Returns the query as printable text, without the values of signatures and access keys.

    A value is also hidden if the name of its parameter contains percent escapes.
    """
    shown = _ENCODED_NAME.sub(_HIDDEN, _SECRET.sub(_HIDDEN, raw_query))
    return _UNPRINTABLE.sub(_escaped, shown).decode("ascii")


def _escaped(byte: re.Match[bytes]) -> bytes:
    return b"\\x%02x" % ord(byte[0])
