"""Segment ids: 24 hex digits, the first twelve of which are the creation time in ms.

So the order of ids is the order of age, and the age of a file is known without the metadata. An id
consists of hex digits only, so a damaged manifest can never name a path outside the folder.
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
    """Returns the segment id in a file name, or None if `name` is not that of a segment."""
    stem = name.removesuffix(SUFFIX)
    return stem if stem != name and is_segment_id(stem) else None
