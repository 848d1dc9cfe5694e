"""Names that callers give: buckets as S3 allows them, keys as any text of 1 to 1,024 bytes.

Neither becomes part of a path: files are named by version ids and segment ids alone.
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
    """3 to 63 lower-case letters, digits, hyphens and single dots; no address."""
    if not _BUCKET.fullmatch(name):
        raise BadBucketName(
            f"{shown(name)} cannot be the name of a bucket: 3 to 63 lower-case letters, digits, "
            "hyphens and dots, a letter or digit at both ends"
        )
    if ".." in name or ".-" in name or "-." in name:
        raise BadBucketName(f"{shown(name)}: a dot in a bucket's name stands between letters")
    if _ADDRESS.fullmatch(name):
        raise BadBucketName(f"{shown(name)}: a bucket's name must not look like an address")
    if name.startswith(_RESERVED_STARTS) or name.endswith(_RESERVED_ENDS):
        raise BadBucketName(f"{shown(name)}: such names of buckets are reserved by S3")


def check_key(key: str) -> None:
    """Any text, also `..`, `//` and control characters."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadKey(f"{shown(key)} cannot be a key: it is not valid Unicode") from None
    if not 0 < size <= KEY_BYTES_MAX:
        raise BadKey(f"a key has 1 to {KEY_BYTES_MAX} bytes of UTF-8, this one has {size}")


def check_content(content: Content) -> None:
    """What is kept with an object goes into a header of every answer that has it."""
    said = vars(content) | {"metadata": None}
    for name, value in (*said.items(), *content.metadata.items()):
        if _CONTROLS.search(name) or (value is not None and _CONTROLS.search(value)):
            raise InputError(
                f"{shown(name)}: what is kept with an object has no control characters"
            )
