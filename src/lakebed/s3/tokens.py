"""Continuation tokens: where the next page goes on, in a form that only we write.

A token says no more than its holder could ask for with a marker; it is bound to what was listed,
and a checksum tells one that was made up, or cut, from one that was given out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

from lakebed.s3.errors import invalid_argument

_CHECK_BYTES: Final = 8
_SALT: Final = b"lakebed:continuation"


def token_of(marker: str, *, scope: str) -> str:
    """`scope` is what is listed."""
    data = marker.encode()
    return base64.urlsafe_b64encode(_check(data, scope) + data).decode()


def marker_of(token: str, *, scope: str) -> str:
    """`InvalidArgument` if it is none of ours."""
    try:
        found = base64.b64decode(token, altchars=b"-_", validate=True)
        check, data = found[:_CHECK_BYTES], found[_CHECK_BYTES:]
        if check == _check(data, scope):
            return data.decode()
    except (binascii.Error, ValueError):
        pass
    raise invalid_argument(
        "The continuation token provided is incorrect", name="continuation-token", value=token
    )


def _check(data: bytes, scope: str) -> bytes:
    digest = hashlib.blake2b(_SALT, digest_size=_CHECK_BYTES)
    for piece in (scope.encode(), data):
        digest.update(len(piece).to_bytes(4, "big") + piece)
    return digest.digest()
