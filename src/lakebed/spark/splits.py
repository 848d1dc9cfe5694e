"""Cuts ranges into a few large splits of about equal size in bytes. Does no I/O.

A task takes tens of milliseconds however little it reads, so small ranges share a split and large
ranges are cut. A split has about `bytes_max` bytes at most. It may be larger if a range has no
split point near the place where it should be cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from lakebed.base.units import MIB
from lakebed.store.split_points import SplitPoint

BYTES_WORTH_A_TASK = 4 * MIB
_SLACK = 8  # a piece smaller than an eighth of a split is not cut off

Key = TypeVar("Key")


class Extent(NamedTuple, Generic[Key]):
    """A range to read: from its first split point to its last."""

    key: Key
    split_points: Sequence[SplitPoint]
    is_cut_anywhere: bool  # may also be cut between two split points

    @property
    def size(self) -> int:
        return self.split_points[-1].bytes_before - self.split_points[0].bytes_before


class Piece(NamedTuple, Generic[Key]):
    """A part of an extent: the positions `[start, end)`, and its approximate size in bytes."""

    key: Key
    start: int
    end: int
    size: int


def split(
    extents: Sequence[Extent[Key]], *, bytes_max: int, count_min: int
) -> list[list[Piece[Key]]]:
    """Assigns the extents, in order, to splits of about `bytes_max` bytes at most. Returns the
    pieces of each split.

    `count_min` is the number of tasks that run in parallel. If there is enough data (at least 4 MiB
    per split, and enough split points), the number of splits is a multiple of it, so that all cores
    finish at about the same time.
    """
    extents = [
        extent for extent in extents if extent.split_points[0].at < extent.split_points[-1].at
    ]
    total = sum(extent.size for extent in extents)
    needed = max(-(-total // bytes_max), 1)
    even = -(-needed // count_min) * count_min
    count = max(needed, min(even, total // BYTES_WORTH_A_TASK))
    slack = total // count // _SLACK
    splits: list[list[Piece[Key]]] = [[]]
    done, boundary = 0, 1  # bytes assigned so far, and the number of the split being filled
    for extent in extents:
        start = extent.split_points[0]
        while True:
            room = total * boundary // count - done
            remaining = extent.split_points[-1].bytes_before - start.bytes_before
            if boundary == count or remaining <= room + slack:
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
    return [pieces for pieces in splits if pieces]


def place_at(extent: Extent[Key], bytes_before: int) -> SplitPoint:
    """Returns the position in the extent that has about `bytes_before` bytes before it.

    The position is a split point of the extent, or lies between two split points if the extent can
    be cut anywhere.
    """
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
