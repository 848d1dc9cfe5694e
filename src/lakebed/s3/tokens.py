"""Continuation tokens, which encode where the next page of a listing starts.

A token is valid only for the `scope` that it was made for: the listing of buckets, or of the
objects of one bucket. A checksum detects tokens that were truncated or invented. The checksum needs
no secret, because a token allows nothing that a marker would not.
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
    """Returns a token that encodes the marker; `scope` names the listing it is valid for."""
    data = marker.encode()
    return base64.urlsafe_b64encode(_check(data, scope) + data).decode()


def marker_of(token: str, *, scope: str) -> str:
    """Returns the marker in a token.

    Raises the S3 error `InvalidArgument` if the token is not valid for `scope`.
    """
    try:
        content = base64.b64decode(token, altchars=b"-_", validate=True)
        check, data = content[:_CHECK_BYTES], content[_CHECK_BYTES:]
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
