"""Selects ranges of object keys by filters, and divides them among tasks. Does no I/O.

Keys are UTF-8 bytes, in the order of the metadata, which is also the order of Spark's strings.
Ranges include their start and exclude their end.
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
    """The buckets, keys and segments that the filters select. None means that all are selected."""

    buckets: frozenset[str] | None = None
    keys: frozenset[bytes] | None = None
    start: bytes = b""
    end: bytes = KEYS_END
    segments: frozenset[str] | None = None

    def ranges(self, buckets: Iterable[str]) -> list[KeyRange]:
        """Returns the selected ranges of keys, sorted by bucket and key.

        `buckets` are the existing buckets; those that are not selected are left out.
        """
        names = [name for name in buckets if self.buckets is None or name in self.buckets]
        if self.keys is None:
            spans = [(self.start, self.end)] if self.start < self.end else []
        else:
            keys = sorted(key for key in self.keys if self.start <= key < self.end)
            spans = [(key, key + b"\0") for key in keys]
        return [KeyRange(name, *span) for name in sorted(names) for span in spans]


def selection_of(*, buckets: Sequence[str], prefix: str) -> Selection:
    """Selects the keys with this prefix in these buckets, or in all buckets if `buckets` is
    empty.
    """
    within = _between(Selection(), key_bytes(prefix), end_of(prefix))
    return _among(within, "bucket", buckets) if buckets else within


def selected(
    filters: Sequence[Filter], *, columns: Iterable[str], within: Selection
) -> tuple[Selection, list[Filter]]:
    """Narrows the selection `within` by the filters.

    Returns the new selection, and the filters that must still be applied row by row. `columns`
    lists which of the columns `bucket`, `key` and `segment_id` can narrow the selection.
    """
    selectable = frozenset(columns)
    selection, unapplied = within, []
    for condition in filters:
        path: Sequence[str] = getattr(condition, "attribute", ())
        narrowed = None
        if len(path) == 1 and path[0] in selectable:
            narrowed = _narrowed(selection, path[0], condition)
        if narrowed is None:
            unapplied.append(condition)
        else:
            selection = narrowed
    return selection, unapplied


def _narrowed(selection: Selection, column: str, condition: Filter) -> Selection | None:
    """Returns the selection narrowed by the filter, or None if the filter cannot narrow it."""
    match condition:
        case IsNotNull() if column != "segment_id":
            return selection  # these columns have no nulls
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
    names = frozenset(values)
    if column == "bucket":
        before = selection.buckets
        return replace(selection, buckets=names if before is None else names & before)
    before = selection.segments
    return replace(selection, segments=names if before is None else names & before)


def _between(selection: Selection, start: bytes, end: bytes) -> Selection:
    return replace(selection, start=max(selection.start, start), end=min(selection.end, end))


def end_of(prefix: str) -> bytes:
    """Returns the end (exclusive) of the range of keys that start with this prefix."""
    encoded = key_bytes(prefix)
    return (
        encoded[:-1] + bytes([encoded[-1] + 1]) if encoded else KEYS_END
    )  # UTF-8 never has the byte 0xff


class KeyPlace(NamedTuple):
    """A bucket and a key. Places sort in the order of the metadata."""

    bucket: str
    key: bytes


def cut(ranges: Sequence[KeyRange], sample: Sequence[KeyPlace], count: int) -> list[list[KeyRange]]:
    """Divides the ranges, in order, into at most `count` parts.

    The parts have about equally many keys of the sample.
    """
    inside = [place for place in sorted(sample) if _is_inside(place, ranges)]
    boundaries = deque(
        sorted({inside[len(inside) * number // count] for number in range(1, count)})
        if inside
        else ()
    )
    parts: list[list[KeyRange]] = [[]]
    for keys in ranges:
        remaining = keys
        while boundaries and boundaries[0] < (keys.bucket, keys.end):
            boundary = boundaries.popleft()
            if boundary > (remaining.bucket, remaining.start):
                parts[-1].append(remaining._replace(end=boundary.key))
                remaining = remaining._replace(start=boundary.key)
            if parts[-1]:
                parts.append([])
        parts[-1].append(remaining)
    return [part for part in parts if part]


def _is_inside(place: KeyPlace, ranges: Sequence[KeyRange]) -> bool:
    """Returns whether one of the ranges contains the key.

    The ranges must be sorted and disjoint. Then only the last range that starts at or before the
    key can contain it.
    """
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if (ranges[middle].bucket, ranges[middle].start) <= place:
            low = middle + 1
        else:
            high = middle
    return low > 0 and ranges[low - 1].bucket == place.bucket and place.key < ranges[low - 1].end


class Listing(NamedTuple):
    """A prefix and a marker that list all keys of a range, and perhaps some others."""

    prefix: str
    after: str


def listing_of(keys: KeyRange) -> Listing:
    """Returns a listing that has all keys of the range.

    It has the longest possible prefix, and a marker shortly before the start of the range.
    """
    start = keys.start.decode("utf-8", "ignore")
    prefix = ""
    for length in range(len(start), 0, -1):
        if end_of(start[:length]) >= keys.end:
            prefix = start[:length]
            break
    return Listing(prefix, "" if start == prefix else _before(start))


def _before(start: str) -> str:
    """Returns a text that sorts shortly before `start`, for use as a marker.

    `start` must not be empty.
    """
    head, last = start[:-1], ord(start[-1])
    if not last:
        return head
    before = _SURROGATES_START - 1 if last == _SURROGATES_END else last - 1
    return head + chr(before) + _HIGHEST
