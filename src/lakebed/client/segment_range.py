"""A range of a stored file, fetched from the HTTP API."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from lakebed.api.logs import RangeQuery
from lakebed.api.operation import Operation
from lakebed.api.topics import SegmentBytesQuery
from lakebed.base.errors import Busy, NotFound
from lakebed.client.caller import ANSWER_BYTES_MAX, Answer, Caller, Names
from lakebed.client.errors import BadAnswer

PART_BYTES = ANSWER_BYTES_MAX  # maximum per request
_TRIES = 3  # to fetch all parts of a segment from the same copy


class SegmentRange(NamedTuple):
    """A range of bytes of a stored file. `size` is the number of bytes of the whole file that can
    be fetched."""

    data: memoryview
    size: int


def fetch_range(
    caller: Caller,
    operation: Operation[bytes],
    names: Names,
    query: RangeQuery | SegmentBytesQuery,
    *,
    copy: str,
) -> SegmentRange:
    """Fetches the bytes of a segment that `query` selects, in several requests if there are more
    than `PART_BYTES`.

    All parts are from the same copy of the segment. `copy` is the field of the query that names the
    copy: "tier" or "generation". If the query leaves it open and the copy is removed in the
    meantime, all parts are fetched again, up to three times in all; then raises `Busy`.
    """
    length = PART_BYTES if query.length is None else min(PART_BYTES, query.length)
    for _ in range(_TRIES):
        answer = caller.ask(operation, names, query=structs.replace(query, length=length))
        first = range_of(answer, operation.name, offset=query.offset)
        end = first.size if query.length is None else min(first.size, query.offset + query.length)
        if query.offset + len(first.data) >= end:
            return first
        fixed = number_of(answer, operation.name, header=f"Lakebed-{copy.title()}")
        same_copy = structs.replace(query, **{copy: fixed})
        try:
            return _fetch_rest(caller, operation, names, same_copy, first=first, end=end)
        except NotFound:
            if getattr(query, copy) is not None:
                raise
    raise Busy(f"{operation.name}: the segment moves while it is being read; retry")


def _fetch_rest(
    caller: Caller,
    operation: Operation[bytes],
    names: Names,
    query: RangeQuery | SegmentBytesQuery,
    *,
    first: SegmentRange,
    end: int,
) -> SegmentRange:
    """Returns the bytes from the offset of the query up to `end`, of which `first` has the first
    part. Raises `NotFound` if the copy that the query names was removed."""
    data = bytearray(first.data)
    while query.offset + len(data) < end:
        offset = query.offset + len(data)
        length = min(PART_BYTES, end - offset)
        part_query = structs.replace(query, offset=offset, length=length)
        answer = caller.ask(operation, names, query=part_query)
        part = range_of(answer, operation.name, offset=offset)
        if len(part.data) != length:
            raise BadAnswer(
                f"{operation.name}: the response has {len(part.data)} bytes, not {length}"
            )
        data += part.data
    return SegmentRange(memoryview(data).toreadonly(), first.size)


def range_of(answer: Answer, call: str, *, offset: int) -> SegmentRange:
    size = number_of(answer, call, header="Lakebed-Size")
    data = memoryview(answer.body).toreadonly()
    if offset + len(data) > size:
        raise BadAnswer(f"{call}: the response has more bytes than the file")
    return SegmentRange(data, size)


def number_of(answer: Answer, call: str, *, header: str) -> int:
    """Returns the number in a header of the response."""
    text = answer.headers.get(header.lower(), "")
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise BadAnswer(f"{call}: the response has no valid header {header}")
    return int(text)
