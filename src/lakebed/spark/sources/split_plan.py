"""What is read by which task: ranges of lanes, pinned first, then cut to splits.

A range is pinned before it is planned, so that retention leaves it alone; after that its start is
looked at again, for retention may have been faster. What was asked for and is gone is `DataLost`,
unless the read is to go on with what is left.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from lakebed.api.topics import INT64_MAX
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.events import event
from lakebed.spark.errors import DataLost
from lakebed.spark.filters import ReadFilter
from lakebed.spark.sources.edges import lost
from lakebed.spark.sources.feed import Feed, Lane, LaneRange, hold
from lakebed.spark.sources.settings import Kind, ReadSettings, not_found
from lakebed.spark.splits import Extent, Piece, split
from lakebed.store.read_plan import (
    U64_MAX,
    PartitionEdges,
    PlannedRange,
    PlannedRead,
    WantedRead,
)

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
    planned: PlannedRange


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


def plan_batch(feed: Feed, kind: Kind, settings: ReadSettings, wanted: ReadFilter) -> list[Split]:
    """What the options and the filters leave, pinned, and cut. Empty if there is nothing to read.

    One call to the store, however many lanes there are.
    """
    reads = _plan(feed, kind, settings, _requests(feed, settings, wanted))
    with _released_on_failure(feed, reads):
        held = [
            _HeldPortion(_read_requests(feed, settings, name, read, planned), planned)
            for name, read in zip(settings.names, reads, strict=True)
            for planned in read.ranges
        ]
        held = [each for each in held if each.portion.start < each.portion.end]
        return _cut(feed, kind, settings, held)


def plan(
    feed: Feed, kind: Kind, settings: ReadSettings, portions: Iterable[Portion]
) -> list[Split]:
    """Pinned, and cut. Empty if there is nothing to read."""
    wanted = [portion for portion in portions if portion.start < portion.end]
    ranges = [LaneRange(portion.lane, portion.start, portion.end) for portion in wanted]
    reads = hold(feed, ranges, duration_ms=settings.pin_ms, owner=_owner(kind))
    with _released_on_failure(feed, reads):
        held = []
        for portion, read in zip(wanted, reads, strict=True):
            (planned,) = read.ranges
            if planned.end < portion.end:
                raise DataLost(
                    f"{portion.lane.name}, partition {portion.lane.number}: it ends at "
                    f"{feed.shown(planned.end)}, and was to be read up to "
                    f"{feed.shown(portion.end)}: it is not what it was"
                )
            held.append(_HeldPortion(portion, planned))
        return _cut(feed, kind, settings, held)


def pin_ids_of(reads: Iterable[PlannedRead]) -> list[str]:
    return [planned.pin_id for read in reads for planned in read.ranges if planned.pin_id]


def release(feed: Feed, pin_ids: Iterable[str]) -> None:
    """As far as it can be: what is left expires."""
    known = [pin_id for pin_id in pin_ids if pin_id]
    if known:
        with contextlib.suppress(LakebedError):
            feed.store.pins.release_all(known)


def _requests(feed: Feed, settings: ReadSettings, wanted: ReadFilter) -> list[WantedRead]:
    start, end = settings.start, settings.end
    starts, ends = start.requested_by_lane(feed), end.requested_by_lane(feed)
    since_us = wanted.times_us.start
    return [
        WantedRead(
            name,
            start.requested(),
            end.requested(),
            edges=[
                PartitionEdges(lane.number, starts.get(lane), ends.get(lane))
                for lane in {**starts, **ends}
                if lane.name == name
            ],
            partitions=_partitions(wanted, name),
            partition_start=wanted.number_interval.start or 0,
            partition_end=wanted.number_interval.end,
            position_start=_unsigned(wanted.positions.start),
            position_end=_unsigned(wanted.positions.end),
            since_us=None if since_us is None else min(max(since_us, 0), INT64_MAX),
        )
        for name in settings.names
    ]


def _partitions(wanted: ReadFilter, name: str) -> list[int] | None:
    if wanted.names is not None and name not in wanted.names:
        return []
    return None if wanted.numbers is None else sorted(wanted.numbers)


def _unsigned(position: int | None) -> int | None:
    """Filters may compare with any number."""
    return None if position is None else min(max(position, 0), U64_MAX)


def _plan(
    feed: Feed, kind: Kind, settings: ReadSettings, requests: Sequence[WantedRead]
) -> list[PlannedRead]:
    """`NotFound`, saying what there is."""
    try:
        return feed.plan(requests, duration_ms=settings.pin_ms, owner=_owner(kind))
    except NotFound as error:
        known = feed.names()
        if all(name in known for name in settings.names):
            raise
        raise not_found(kind, error, known) from None


def _owner(kind: Kind) -> str:
    return f"Spark: {kind.source}"


@contextlib.contextmanager
def _released_on_failure(feed: Feed, reads: Iterable[PlannedRead]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        release(feed, pin_ids_of(reads))
        raise


def _read_requests(
    feed: Feed, settings: ReadSettings, name: str, read: PlannedRead, planned: PlannedRange
) -> Portion:
    lane, bounds, start = Lane(name, planned.partition), planned.bounds, settings.start
    named = [edge.named(feed, lane) for edge in (start, settings.end)]
    last = max((position for position in named if position is not None), default=0)
    if settings.fails_on_loss and last > bounds.end:
        raise DataLost(
            f"{lane.name}, partition {lane.number}: {feed.shown(last)} was asked for, "
            f"and it ends at {feed.shown(bounds.end)}; read what is there with failOnDataLoss=false"
        )
    # Where it begins now is not missed if it goes, unless it was asked for.
    is_given = named[0] is not None or (
        start.moment_us is not None and planned.start != bounds.start
    )
    return Portion(lane, read.identity, planned.start, planned.end, is_given)


def _cut(
    feed: Feed, kind: Kind, settings: ReadSettings, held: Sequence[_HeldPortion]
) -> list[Split]:
    extents = []
    for portion, planned in held:
        left = _still_there(feed, settings, portion, first=planned.first)
        key = _HeldPortion(left, planned)
        extents.append(Extent(key, planned.marks, is_cut_anywhere=feed.is_cut_anywhere))
    found = split(extents, bytes_max=settings.partition_bytes, count_min=settings.partitions_min)
    kept = {piece.key.planned.pin_id for pieces in found for piece in pieces}
    pin_ids = [planned.pin_id for _, planned in held if planned.pin_id]
    release(feed, [pin_id for pin_id in pin_ids if pin_id not in kept])
    pin_ids = [pin_id for pin_id in pin_ids if pin_id in kept]
    splits = [Split([_read_piece(piece) for piece in pieces], pin_ids) for pieces in found]
    total = sum(one.size for one in splits)
    event(_log, "spark_planned", source=kind.source, splits=len(splits), bytes=total)
    return splits


def _still_there(feed: Feed, settings: ReadSettings, portion: Portion, *, first: int) -> Portion:
    if portion.start >= first:
        return portion
    if portion.is_start_given and settings.fails_on_loss:
        raise lost(feed, portion.lane, wanted=portion.start, first=first)
    return portion._replace(start=min(first, portion.end))


def _read_piece(piece: Piece[_HeldPortion]) -> ReadPiece:
    portion, planned = piece.key
    return ReadPiece(
        lane=portion.lane,
        identity=portion.identity,
        start=piece.start,
        end=piece.end,
        size=piece.size,
        pin_id=planned.pin_id,
        is_whole=(piece.start, piece.end) == (portion.start, portion.end),
    )
