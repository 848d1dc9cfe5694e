"""The names of segments: 24 hex digits, of which twelve are the time of creation in ms.

So the names sort by age, a file without a row tells when it was made, and no id that comes out of
a manifest can lead outside the folder.
"""

from __future__ import annotations

import os
import re
from random import Random

from lakebed.base.files import PathLike

SUFFIX = ".seg"
_IS_ID = re.compile(r"[0-9a-f]{24}").fullmatch
_TIME_DIGITS = 12
_RANDOM_BITS = 48


def new_segment_id(*, created_ms: int, random: Random) -> str:
    return f"{created_ms:0{_TIME_DIGITS}x}{random.getrandbits(_RANDOM_BITS):012x}"


def is_segment_id(text: str) -> bool:
    return _IS_ID(text) is not None


def created_ms_of(segment_id: str) -> int:
    return int(segment_id[:_TIME_DIGITS], 16)


def segment_path(folder: PathLike, segment_id: str) -> str:
    return os.path.join(os.fspath(folder), segment_id + SUFFIX)


def segment_id_of(name: str) -> str | None:
    """Of a file in the folder; None if it is no segment."""
    stem = name.removesuffix(SUFFIX)
    return stem if stem != name and is_segment_id(stem) else None
