# Made by `python -m tools.asynced` of `src/lakebed/client/segment_range.py`: edit that.
"""A range of a segment's file from the wire, and what its headers tell of the file."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aio.client.caller import Answer
from lakebed.client.errors import BadAnswer


class SegmentRange(NamedTuple):
    """Bytes as they are stored; `size` is how many there were to be asked for."""

    data: memoryview
    size: int


def range_of(answer: Answer, call: str, *, offset: int) -> SegmentRange:
    text = answer.headers.get("lakebed-size", "")
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise BadAnswer(f"{call}: the answer has no Lakebed-Size")
    data, size = memoryview(answer.body).toreadonly(), int(text)
    if offset + len(data) > size:
        raise BadAnswer(f"{call}: the answer has more bytes than the segment")
    return SegmentRange(data, size)
