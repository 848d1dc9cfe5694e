"""Which keys are read: what filters leave of them, and how they are cut into tasks. Without I/O.

Keys and ranges of them are bytes of UTF-8, half open, in the order of the metadata, which is also
that of Spark's strings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from lakebed.seglake.meta.reader import KEYS_END, key_bytes
from lakebed.seglake.stored_pages import KeyRange

_HIGHEST = "\U0010ffff"
_SURROGATES_END = 0xE000
_SURROGATES_START = 0xD800


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is left by the filters. None: no filter is about that."""

    buckets: frozenset[str] | None = None
    keys: frozenset[bytes] | None = None
    start: bytes = b""
    end: bytes = KEYS_END
    segments: frozenset[str] | None = None

    def ranges(self, buckets: Iterable[str]) -> list[KeyRange]:
        """In those of these buckets that are wanted, in order."""
        wanted = [name for name in buckets if self.buckets is None or name in self.buckets]
        if self.keys is None:
            spans = [(self.start, self.end)] if self.start < self.end else []
        else:
            keys = sorted(key for key in self.keys if self.start <= key < self.end)
            spans = [(key, key + b"\0") for key in keys]
        return [KeyRange(name, *span) for name in sorted(wanted) for span in spans]


def selection_of(*, buckets: Sequence[str], prefix: str) -> Selection:
    """Of these buckets, or of all; the keys that begin with that."""
    within = _between(Selection(), key_bytes(prefix), end_of(prefix))
    return _among(within, "bucket", buckets) if buckets else within


def selected(
    filters: Sequence[Filter], *, columns: Iterable[str], within: Selection
) -> tuple[Selection, list[Filter]]:
    """What these filters leave of that, and those of them that Spark must still look at.

    `columns`: which of `bucket`, `key` and `segment_id` can be selected by.
    """
    known = frozenset(columns)
    selection, left = within, []
    for one in filters:
        path: Sequence[str] = getattr(one, "attribute", ())
        narrowed = None
        if len(path) == 1 and path[0] in known:
            narrowed = _narrowed(selection, path[0], one)
        if narrowed is None:
            left.append(one)
        else:
            selection = narrowed
    return selection, left


def _narrowed(selection: Selection, column: str, one: Filter) -> Selection | None:
    """None if that filter is of another kind."""
    match one:
        case IsNotNull() if column != "segment_id":
            return selection  # these never are
        case EqualTo(value=str() as value) | EqualNullSafe(value=str() as value):
            return _among(selection, column, [value])
        case In(value=values) if all(isinstance(value, str) for value in values):
            return _among(selection, column, values)
        case StringStartsWith(value=str() as value) if column == "key":
            return _between(selection, key_bytes(value), end_of(value))
        case GreaterThan(value=str() as value) if column == "key":
            return _between(selection, key_bytes(value) + b"\0", KEYS_END)
        case GreaterThanOrEqual(value=str() as value) if column == "key":
            return _between(selection, key_bytes(value), KEYS_END)
        case LessThan(value=str() as value) if column == "key":
            return _between(selection, b"", key_bytes(value))
        case LessThanOrEqual(value=str() as value) if column == "key":
            return _between(selection, b"", key_bytes(value) + b"\0")
    return None


def _among(selection: Selection, column: str, values: Iterable[str]) -> Selection:
    if column == "key":
        keys = frozenset(map(key_bytes, values))
        return replace(selection, keys=keys if selection.keys is None else keys & selection.keys)
    wanted = frozenset(values)
    if column == "bucket":
        before = selection.buckets
        return replace(selection, buckets=wanted if before is None else wanted & before)
    before = selection.segments
    return replace(selection, segments=wanted if before is None else wanted & before)


def _between(selection: Selection, start: bytes, end: bytes) -> Selection:
    return replace(selection, start=max(selection.start, start), end=min(selection.end, end))


def end_of(prefix: str) -> bytes:
    """The first place behind all keys with that prefix."""
    found = key_bytes(prefix)
    return found[:-1] + bytes([found[-1] + 1]) if found else KEYS_END  # no UTF-8 has 0xff in it


class KeyPlace(NamedTuple):
    """Of a key, among all of a store."""

    bucket: str
    key: bytes


def cut(ranges: Sequence[KeyRange], sample: Sequence[KeyPlace], count: int) -> list[list[KeyRange]]:
    """The ranges in at most `count` parts, of about as many of the sampled keys each, in order."""
    inside = [place for place in sorted(sample) if _is_inside(place, ranges)]
    marks = deque(
        sorted({inside[len(inside) * number // count] for number in range(1, count)})
        if inside
        else ()
    )
    found: list[list[KeyRange]] = [[]]
    for one in ranges:
        rest = one
        while marks and marks[0] < (one.bucket, one.end):
            mark = marks.popleft()
            if mark > (rest.bucket, rest.start):
                found[-1].append(rest._replace(end=mark.key))
                rest = rest._replace(start=mark.key)
            if found[-1]:
                found.append([])
        found[-1].append(rest)
    return [part for part in found if part]


def _is_inside(place: KeyPlace, ranges: Sequence[KeyRange]) -> bool:
    """The ranges are in order and apart: the last that begins before it, if any, has it."""
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if (ranges[middle].bucket, ranges[middle].start) <= place:
            low = middle + 1
        else:
            high = middle
    return low > 0 and ranges[low - 1].bucket == place.bucket and place.key < ranges[low - 1].end


class Listing(NamedTuple):
    """How a range is asked for where only prefixes and markers can be: some keys too many."""

    prefix: str
    after: str


def listing_of(one: KeyRange) -> Listing:
    """The least that a page must be asked for to have all keys of the range."""
    start = one.start.decode("utf-8", "ignore")
    prefix = ""
    for length in range(len(start), 0, -1):
        if end_of(start[:length]) >= one.end:
            prefix = start[:length]
            break
    return Listing(prefix, "" if start == prefix else _before(start))


def _before(start: str) -> str:
    """A text before that one, with as little as possible between them."""
    head, last = start[:-1], ord(start[-1])
    if not last:
        return head
    before = _SURROGATES_START - 1 if last == _SURROGATES_END else last - 1
    return head + chr(before) + _HIGHEST
