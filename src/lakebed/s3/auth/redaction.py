"""What a log may show of a query: not what would let its reader ask in another's name."""

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
    """The query for a log: printable, with the values hidden that sign it or say who signed.

    A value whose name is written with escapes is hidden whatever the name is.
    """
    shown = _ENCODED_NAME.sub(_HIDDEN, _SECRET.sub(_HIDDEN, raw_query))
    return _UNPRINTABLE.sub(_escaped, shown).decode("ascii")


def _escaped(byte: re.Match[bytes]) -> bytes:
    return b"\\x%02x" % ord(byte[0])
