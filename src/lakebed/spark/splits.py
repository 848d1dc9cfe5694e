"""Ranges to a few large splits of about the same number of bytes: pure.

A task costs tens of milliseconds, however little it reads: small ranges share a split, and large
ones are cut. A split has about `bytes_max` at most, unless a range has no place to be cut at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from lakebed.base.units import MIB
from lakebed.store.split_points import SplitPoint

BYTES_WORTH_A_TASK = 4 * MIB
_SLACK = 8  # what is less than that part of a split is not cut off

Key = TypeVar("Key")


class Extent(NamedTuple, Generic[Key]):
    """What is to be read of one thing: from the first split point to the last one."""

    key: Key
    split_points: Sequence[SplitPoint]
    is_cut_anywhere: bool  # also between two split points

    @property
    def size(self) -> int:
        return self.split_points[-1].bytes_before - self.split_points[0].bytes_before


class Piece(NamedTuple, Generic[Key]):
    """A part of an extent: `[start, end)`, and about how many bytes that is."""

    key: Key
    start: int
    end: int
    size: int


def split(
    extents: Sequence[Extent[Key]], *, bytes_max: int, count_min: int
) -> list[list[Piece[Key]]]:
    """All of them, in order; `count_min` splits, or twice, three times as many, if there is
    enough for that many: so all cores are done at the same time."""
    extents = [
        extent for extent in extents if extent.split_points[0].at < extent.split_points[-1].at
    ]
    total = sum(extent.size for extent in extents)
    needed = max(-(-total // bytes_max), 1)
    even = -(-needed // count_min) * count_min
    count = max(needed, min(even, total // BYTES_WORTH_A_TASK))
    slack = total // count // _SLACK
    splits: list[list[Piece[Key]]] = [[]]
    done, boundary = 0, 1  # bytes that are dealt out, and which part of the total is filled now
    for extent in extents:
        start = extent.split_points[0]
        while True:
            room = total * boundary // count - done
            left = extent.split_points[-1].bytes_before - start.bytes_before
            if boundary == count or left <= room + slack:
                break
            cut = place_at(extent, start.bytes_before + room)
            if room > slack and start.at < cut.at < extent.split_points[-1].at:
                splits[-1].append(_piece(extent, start, cut))
                done += cut.bytes_before - start.bytes_before
                start = cut
            boundary += 1
            if splits[-1]:
                splits.append([])
        splits[-1].append(_piece(extent, start, extent.split_points[-1]))
        done += extent.split_points[-1].bytes_before - start.bytes_before
    return [one for one in splits if one]


def place_at(extent: Extent[Key], bytes_before: int) -> SplitPoint:
    """Where about so many bytes are before it."""
    points = extent.split_points
    index = bisect_left(points, bytes_before, key=lambda point: point.bytes_before)
    if index == len(points):
        return points[-1]
    point, previous = points[index], points[max(index - 1, 0)]
    span = point.bytes_before - previous.bytes_before
    if extent.is_cut_anywhere and span:
        inside = (point.at - previous.at) * (bytes_before - previous.bytes_before)
        return SplitPoint(previous.at + inside // span, bytes_before)
    is_nearer = point.bytes_before - bytes_before < bytes_before - previous.bytes_before
    return point if is_nearer else previous


def _piece(extent: Extent[Key], start: SplitPoint, end: SplitPoint) -> Piece[Key]:
    return Piece(extent.key, start.at, end.at, end.bytes_before - start.bytes_before)
