"""What is read by which task: ranges of lanes, pinned first, then cut to splits.

A range is pinned before it is planned, so that retention leaves it alone; after that its start is
looked at again, for retention may have been faster. What was asked for and is gone is `DataLost`,
unless the read is to go on with what is left.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.kernels.arguments import I64_MAX
from lakebed.spark.errors import DataLost
from lakebed.spark.filters import Wanted
from lakebed.spark.sources.edges import lost
from lakebed.spark.sources.feed import Feed, Lane
from lakebed.spark.sources.settings import Kind, ReadSettings, require_lanes
from lakebed.spark.splits import Extent, Piece, split

_log = logging.getLogger(__name__)


class Portion(NamedTuple):
    """What is wanted of a lane."""

    lane: Lane
    identity: str
    start: int
    end: int
    is_start_given: bool  # by somebody who wants all from there on


class Held(NamedTuple):
    """A portion that is pinned, or nothing is to be pinned."""

    portion: Portion
    pin_id: str


class ReadPiece(NamedTuple):
    """What one task reads of a lane."""

    lane: Lane
    identity: str
    start: int
    end: int
    size: int  # about so many bytes
    pin_id: str


class Pins(NamedTuple):
    """Of a whole plan: its tasks renew them all, for some may not have begun for long."""

    pin_ids: tuple[str, ...]
    pinned_ms: int


class Split(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: Sequence[ReadPiece], pins: Pins) -> None:
        super().__init__((tuple(pieces), pins))

    @property
    def pieces(self) -> tuple[ReadPiece, ...]:
        return self.value[0]  # type: ignore[no-any-return]

    @property
    def pins(self) -> Pins:
        return self.value[1]  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """About so many bytes."""
        return sum(piece.size for piece in self.pieces)


def wanted_portions(
    feed: Feed, kind: Kind, settings: ReadSettings, wanted: Wanted
) -> list[Portion]:
    """Of a batch read: what the options and the filters leave."""
    found = []
    for name in settings.names:
        require_lanes(feed, kind, name)
        identity, lanes = feed.identity(name), feed.lanes(name)
        for edge in (settings.start, settings.end):
            edge.check_lanes(name, lanes)
        for lane in lanes:
            if wanted.has_lane(*lane):
                portion = _asked(feed, settings, lane, identity)
                found.append(_narrowed(feed, portion, wanted))
    return found


def plan(
    feed: Feed, kind: Kind, settings: ReadSettings, portions: Iterable[Portion]
) -> list[Split]:
    """Pinned, and cut. Empty if there is nothing to read."""
    held: list[Held] = []
    now_ms = feed.store.clock.wall_ns() // NS_PER_MS
    try:
        for portion in portions:
            one = _hold(feed, kind, settings, portion)
            if one is not None:
                held.append(one)
        extents = [_extent(feed, one) for one in held]
        found = split(
            extents, bytes_max=settings.partition_bytes, count_min=settings.partitions_min
        )
    except BaseException:
        release(feed, [one.pin_id for one in held])
        raise
    pins = Pins(tuple(one.pin_id for one in held if one.pin_id), now_ms)
    splits = [Split([_read_piece(piece) for piece in pieces], pins) for pieces in found]
    total = sum(one.size for one in splits)
    event(_log, "spark_planned", source=kind.source, splits=len(splits), bytes=total)
    return splits


def release(feed: Feed, pin_ids: Iterable[str]) -> None:
    """As far as it can be: what is left expires."""
    for pin_id in pin_ids:
        if pin_id:
            with contextlib.suppress(LakebedError):
                feed.store.pins.release(pin_id)


def _asked(feed: Feed, settings: ReadSettings, lane: Lane, identity: str) -> Portion:
    bounds = feed.bounds(lane)
    start = settings.start.position(feed, lane, bounds)
    end = settings.end.position(feed, lane, bounds)
    if settings.fails_on_loss and max(start, end) > bounds.end:
        raise DataLost(
            f"{lane.name}, partition {lane.number}: {feed.shown(max(start, end))} was asked for, "
            f"and it ends at {feed.shown(bounds.end)}; read what is there with failOnDataLoss=false"
        )
    end = min(end, bounds.end)
    # Where it begins now is not missed if it goes, unless it was asked for.
    is_given = start != bounds.start or settings.start.is_named(lane)
    return Portion(lane, identity, min(start, end), end, is_given)


def _narrowed(feed: Feed, portion: Portion, wanted: Wanted) -> Portion:
    """Without what no filter lets through, as far as the indexes tell."""
    lane, start, end = portion.lane, portion.start, portion.end
    positions = wanted.positions
    if end <= I64_MAX:  # behind that Spark sees other numbers than the log has
        if feed.is_cut_anywhere:
            start = max(start, positions.start or start)
            end = end if positions.end is None else min(end, positions.end)
        elif positions.start is not None or positions.end is not None:
            places = [mark.at for mark in feed.marks(lane, start, end)]
            if positions.start is not None:
                start = max([one for one in places if one <= positions.start], default=start)
            if positions.end is not None:
                end = min([one for one in places if one >= positions.end], default=end)
    if wanted.times_us.start is not None and start < end:
        start = max(start, feed.at_time(lane, wanted.times_us.start))
    return portion._replace(start=min(start, end), end=end)


def _hold(feed: Feed, kind: Kind, settings: ReadSettings, portion: Portion) -> Held | None:
    """None if there is nothing to read in it."""
    if portion.start >= portion.end:
        return None
    pin_id = ""
    if settings.pin_ms:
        pin_id = feed.pin(
            portion.lane,
            portion.start,
            portion.end,
            duration_ms=settings.pin_ms,
            owner=f"Spark: {kind.source}",
        )
    try:
        portion = _still_there(feed, settings, portion)
    except BaseException:
        release(feed, [pin_id])
        raise
    if portion.start >= portion.end:
        release(feed, [pin_id])
        return None
    return Held(portion, pin_id)


def _still_there(feed: Feed, settings: ReadSettings, portion: Portion) -> Portion:
    first = feed.bounds(portion.lane).start
    if portion.start >= first:
        return portion
    if portion.is_start_given and settings.fails_on_loss:
        raise lost(feed, portion.lane, wanted=portion.start, first=first)
    return portion._replace(start=min(first, portion.end))


def _extent(feed: Feed, held: Held) -> Extent[Held]:
    portion = held.portion
    marks = feed.marks(portion.lane, portion.start, portion.end)
    return Extent(held, marks, is_cut_anywhere=feed.is_cut_anywhere)


def _read_piece(piece: Piece[Held]) -> ReadPiece:
    portion, pin_id = piece.key
    return ReadPiece(
        lane=portion.lane,
        identity=portion.identity,
        start=piece.start,
        end=piece.end,
        size=piece.size,
        pin_id=pin_id,
    )
