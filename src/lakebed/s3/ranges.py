"""The `Range` header of reads, the range header of copies, and responses with several ranges.

The number of ranges is limited and overlapping ranges are merged, so a response is never larger
than the object plus the part headers of a multipart response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.s3.conditions import range_applies
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.seglake.errors import BadRange
from lakebed.seglake.model import ObjectInfo
from lakebed.seglake.ranges import ByteRange

RANGES_MAX: Final = 100
RANGE_CHARACTERS_MAX: Final = 4096

_SPEC = re.compile(r"([0-9]*)-([0-9]*)", re.ASCII)
_COPIED = re.compile(r"bytes=([0-9]+)-([0-9]+)", re.ASCII)
_UNIT: Final = "bytes"


class Span(NamedTuple):
    """A half-open range of bytes of an object."""

    start: int
    end: int

    def content_range(self, size: int) -> str:
        """Returns the range as a `Content-Range` value."""
        return f"bytes {self.start}-{self.end - 1}/{size}"


def spans_of(headers: Mapping[str, str], info: ObjectInfo) -> list[Span] | None:
    """Returns the requested ranges in the order of the request; None means the whole object.

    Overlapping ranges are merged, each is cut at the end of the object, and ranges outside the
    object are left out. Raises the S3 error `InvalidRange` if the header is malformed or too long,
    has more than `RANGES_MAX` ranges, or has none that overlaps the object.
    """
    value = headers.get("range")
    if value is None or not range_applies(headers, info):
        return None
    spans = []
    for byte_range in _parsed(value, info.size):
        try:
            spans.append(Span(*byte_range.resolve(info.size)))
        except BadRange:
            continue  # another range may lie within the object
    if not spans:
        raise _bad_range(value, info.size)
    return _joined(spans)


def copied_range(headers: Mapping[str, str], size: int) -> ByteRange | None:
    """Returns the range in `x-amz-copy-source-range`, or None if the header is missing.

    Raises the S3 error `InvalidArgument` if it is malformed or does not lie within the source,
    which has `size` bytes.
    """
    name = "x-amz-copy-source-range"
    value = headers.get(name)
    if value is None:
        return None
    parsed = _COPIED.fullmatch(value) if len(value) <= RANGE_CHARACTERS_MAX else None
    if parsed is None or int(parsed[1]) > int(parsed[2]):
        raise invalid_argument(
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first "
            "and last are the zero-based offsets of the first and last bytes to copy",
            name=name,
            value=value,
        )
    if int(parsed[2]) >= size:
        raise invalid_argument(
            f"Range specified is not valid for source object of size: {size}",
            name=name,
            value=value,
        )
    return ByteRange(int(parsed[1]), int(parsed[2]))


class Sections:
    """The headers and separators of a `multipart/byteranges` body with several ranges."""

    def __init__(
        self, spans: Sequence[Span], *, size: int, content_type: str, boundary: str
    ) -> None:
        self.content_type = f"multipart/byteranges; boundary={boundary}"
        self.end = f"\r\n--{boundary}--\r\n".encode("latin-1")
        self.heads = [
            f"\r\n--{boundary}\r\nContent-Type: {content_type}\r\n"
            f"Content-Range: {span.content_range(size)}\r\n\r\n".encode("latin-1")
            for span in spans
        ]
        self.length = (
            sum(map(len, self.heads)) + sum(span.end - span.start for span in spans) + len(self.end)
        )


def _parsed(value: str, size: int) -> list[ByteRange]:
    unit, _, specs = value.partition("=")
    if unit.strip().lower() != _UNIT or len(value) > RANGE_CHARACTERS_MAX:
        raise _bad_range(value, size)
    ranges: list[ByteRange] = []
    for spec in specs.split(","):
        parsed = _SPEC.fullmatch(spec.strip())
        if parsed is None or parsed[0] == "-" or len(ranges) == RANGES_MAX:
            raise _bad_range(value, size)
        first, last = (int(digits) if digits else None for digits in parsed.groups())
        if first is not None and last is not None and last < first:
            raise _bad_range(value, size)
        ranges.append(ByteRange(first, last))
    return ranges


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Merges overlapping ranges; a merged range takes the earliest position of its ranges."""
    result: list[tuple[int, Span]] = []
    for index, span in sorted(enumerate(spans), key=lambda pair: pair[1]):
        if result and span.start < result[-1][1].end:
            first, before = result.pop()
            joined = Span(before.start, max(before.end, span.end))
            result.append((min(first, index), joined))
        else:
            result.append((index, span))
    return [span for _, span in sorted(result)]


def _bad_range(value: str, size: int) -> S3Error:
    return S3Error(
        "InvalidRange",
        "The requested range is not satisfiable",
        headers=(("Content-Range", f"bytes */{size}"),),
        details=(
            ("RangeRequested", value[:RANGE_CHARACTERS_MAX]),
            ("ActualObjectSize", str(size)),
        ),
    )
