"""Checks bucket names (with the rules of S3) and object keys (any text of 1 to 1,024 bytes).

Neither is ever used in a path: files are named only by version ids and segment ids.
"""

from __future__ import annotations

import re

from lakebed.base.errors import InputError
from lakebed.base.units import shown
from lakebed.seglake.errors import BadBucketName, BadKey
from lakebed.seglake.model import Content

KEY_BYTES_MAX = 1024

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)
_RESERVED_STARTS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def check_bucket_name(name: str) -> None:
    """Raises `BadBucketName` if S3 does not allow the name."""
    if not _BUCKET.fullmatch(name):
        raise BadBucketName(
            f"{shown(name)} is not a valid bucket name: it must have 3 to 63 lower-case letters, "
            "digits, hyphens and dots, and start and end with a letter or digit"
        )
    if ".." in name or ".-" in name or "-." in name:
        raise BadBucketName(
            f"{shown(name)} is not a valid bucket name: a dot must be between two letters or digits"
        )
    if _ADDRESS.fullmatch(name):
        raise BadBucketName(
            f"{shown(name)} is not a valid bucket name: it must not look like an IP address"
        )
    if name.startswith(_RESERVED_STARTS) or name.endswith(_RESERVED_ENDS):
        raise BadBucketName(
            f"{shown(name)} is not a valid bucket name: S3 reserves this prefix or suffix"
        )


def check_key(key: str) -> None:
    """Raises `BadKey` if the key is empty, too long or not valid Unicode.

    Keys with `..`, `//` or control characters are allowed.
    """
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadKey(f"{shown(key)} is not a valid key: it is not valid Unicode") from None
    if not 0 < size <= KEY_BYTES_MAX:
        raise BadKey(
            f"a key must have 1 to {KEY_BYTES_MAX} bytes of UTF-8, but this key has {size}"
        )


def check_content(content: Content) -> None:
    """Raises `InputError` if the name or value of a header or of metadata has control characters.

    Such a name or value could not be sent in a response header.
    """
    headers = vars(content) | {"metadata": None}
    for name, value in (*headers.items(), *content.metadata.items()):
        if _CONTROLS.search(name) or (value is not None and _CONTROLS.search(value)):
            raise InputError(
                f"{shown(name)}: headers and metadata must not contain control characters"
            )
