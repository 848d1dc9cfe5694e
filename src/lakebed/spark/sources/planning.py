"""What is read by which task: ranges of lanes, pinned first, then cut to splits.

A range is pinned before it is planned, so that retention leaves it alone; after that its start is
looked at again, for retention may have been faster. What was asked for and is gone is `DataLost`,
unless the read is to go on with what is left.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.kernels.arguments import I64_MAX
from lakebed.spark.errors import DataLost
from lakebed.spark.filters import Wanted
from lakebed.spark.sources.edges import lost
from lakebed.spark.sources.feed import Feed, Lane, LaneRange, Look
from lakebed.spark.sources.settings import Kind, ReadSettings, look_at
from lakebed.spark.splits import Extent, Piece, split

_log = logging.getLogger(__name__)


class Portion(NamedTuple):
    """What is wanted of a lane."""

    lane: Lane
    identity: str
    start: int
    end: int
    is_start_given: bool  # by somebody who wants all from there on


class _HeldPortion(NamedTuple):
    portion: Portion
    pin_id: str  # empty if nothing is pinned


class ReadPiece(NamedTuple):
    """What one task reads of a lane."""

    lane: Lane
    identity: str
    start: int
    end: int
    size: int  # about so many bytes
    pin_id: str
    is_whole: bool  # no other task reads what is pinned


class Split(InputPartition):
    """What one task reads, and the pins of the whole plan: its tasks renew them all, for some may
    not have begun for long."""

    def __init__(self, pieces: Sequence[ReadPiece], pin_ids: Sequence[str]) -> None:
        super().__init__((tuple(pieces), tuple(pin_ids)))

    @property
    def pieces(self) -> tuple[ReadPiece, ...]:
        return self.value[0]  # type: ignore[no-any-return]

    @property
    def pin_ids(self) -> tuple[str, ...]:
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
        look = look_at(feed, kind, name)
        for edge in (settings.start, settings.end):
            edge.check_lanes(name, look.bounds)
        starts = settings.start.positions(feed, name, look.bounds)
        ends = settings.end.positions(feed, name, look.bounds)
        times: Mapping[Lane, int] = {}
        if wanted.times_us.start is not None:
            times = feed.at_time(name, wanted.times_us.start)
        for lane in look.bounds:
            if wanted.has_lane(*lane):
                portion = _asked(feed, settings, lane, look, start=starts[lane], end=ends[lane])
                found.append(_narrowed(feed, portion, wanted, times.get(lane)))
    return found


def plan(
    feed: Feed, kind: Kind, settings: ReadSettings, portions: Iterable[Portion]
) -> list[Split]:
    """Pinned, and cut. Empty if there is nothing to read."""
    wanted = [portion for portion in portions if portion.start < portion.end]
    held = feed.hold(
        [LaneRange(portion.lane, portion.start, portion.end) for portion in wanted],
        duration_ms=settings.pin_ms,
        owner=f"Spark: {kind.source}",
    )
    pin_ids = [each.pin_id for each in held if each.pin_id]
    try:
        extents = []
        for portion, each in zip(wanted, held, strict=True):
            left = _still_there(feed, settings, portion, first=each.first)
            key = _HeldPortion(left, each.pin_id)
            extents.append(Extent(key, each.marks, is_cut_anywhere=feed.is_cut_anywhere))
        found = split(
            extents, bytes_max=settings.partition_bytes, count_min=settings.partitions_min
        )
        kept = {piece.key.pin_id for pieces in found for piece in pieces}
        release(feed, [pin_id for pin_id in pin_ids if pin_id not in kept])
    except BaseException:
        release(feed, pin_ids)
        raise
    pin_ids = [pin_id for pin_id in pin_ids if pin_id in kept]
    splits = [Split([_read_piece(piece) for piece in pieces], pin_ids) for pieces in found]
    total = sum(one.size for one in splits)
    event(_log, "spark_planned", source=kind.source, splits=len(splits), bytes=total)
    return splits


def release(feed: Feed, pin_ids: Iterable[str]) -> None:
    """As far as it can be: what is left expires."""
    known = [pin_id for pin_id in pin_ids if pin_id]
    if known:
        with contextlib.suppress(LakebedError):
            feed.store.pins.release_all(known)


def _asked(
    feed: Feed, settings: ReadSettings, lane: Lane, look: Look, *, start: int, end: int
) -> Portion:
    bounds = look.bounds[lane]
    if settings.fails_on_loss and max(start, end) > bounds.end:
        raise DataLost(
            f"{lane.name}, partition {lane.number}: {feed.shown(max(start, end))} was asked for, "
            f"and it ends at {feed.shown(bounds.end)}; read what is there with failOnDataLoss=false"
        )
    end = min(end, bounds.end)
    # Where it begins now is not missed if it goes, unless it was asked for.
    is_given = start != bounds.start or settings.start.is_named(lane)
    return Portion(lane, look.identity, min(start, end), end, is_given)


def _narrowed(feed: Feed, portion: Portion, wanted: Wanted, since: int | None) -> Portion:
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
    if since is not None:
        start = max(start, since)
    return portion._replace(start=min(start, end), end=end)


def _still_there(feed: Feed, settings: ReadSettings, portion: Portion, *, first: int) -> Portion:
    if portion.start >= first:
        return portion
    if portion.is_start_given and settings.fails_on_loss:
        raise lost(feed, portion.lane, wanted=portion.start, first=first)
    return portion._replace(start=min(first, portion.end))


def _read_piece(piece: Piece[_HeldPortion]) -> ReadPiece:
    portion, pin_id = piece.key
    return ReadPiece(
        lane=portion.lane,
        identity=portion.identity,
        start=piece.start,
        end=piece.end,
        size=piece.size,
        pin_id=pin_id,
        is_whole=(piece.start, piece.end) == (portion.start, portion.end),
    )
