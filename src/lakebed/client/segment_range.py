"""A range of a stored file, fetched from the HTTP API."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.client.caller import Answer
from lakebed.client.errors import BadAnswer


class SegmentRange(NamedTuple):
    """Bytes of a stored file. `size` is the number of bytes in the whole file that can be
    fetched."""

    data: memoryview
    size: int


def range_of(answer: Answer, call: str, *, offset: int) -> SegmentRange:
    text = answer.headers.get("lakebed-size", "")
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise BadAnswer(f"{call}: the response has no header Lakebed-Size")
    data, size = memoryview(answer.body).toreadonly(), int(text)
    if offset + len(data) > size:
        raise BadAnswer(f"{call}: the response has more bytes than the file")
    return SegmentRange(data, size)
