"""Plans which task reads which ranges of topics or logs: pins the ranges, then cuts them into
splits.

A lane is a partition of a topic, or a log. A range is pinned before it is planned, so that
retention keeps it. After that its start is checked again, because retention may have removed data
before the pin. If requested data is gone, `DataLost` is raised, unless the read is allowed to
continue with what is left.
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
    """The range of a partition or log that a query is to read."""

    lane: Lane
    identity: str
    start: int
    end: int
    is_start_given: (
        bool  # whether the start was requested: only then is missing data there an error
    )


class _HeldPortion(NamedTuple):
    portion: Portion
    planned: PlannedRange


class ReadPiece(NamedTuple):
    """The range of a partition or log that one task reads."""

    lane: Lane
    identity: str
    start: int
    end: int
    size: int  # approximate bytes
    pin_id: str
    is_whole: bool  # whether no other task reads data under this pin


class Split(InputPartition):
    """The pieces that one task reads, and the pins of the whole plan.

    Each task renews all pins, because other tasks may start much later.
    """

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
        """The approximate size of the pieces in bytes."""
        return sum(piece.size for piece in self.pieces)


def plan_batch(feed: Feed, kind: Kind, settings: ReadSettings, limits: ReadFilter) -> list[Split]:
    """Plans a batch read: pins what the options and filters select, and cuts it into splits.

    Returns an empty list if there is nothing to read. Plans any number of partitions or logs with
    one call to the store. Raises `NotFound` if a topic, log or partition does not exist. Unless
    failOnDataLoss=false, raises `DataLost` if requested data is gone, or if a requested position is
    after the end.
    """
    reads = _plan(feed, kind, settings, _requests(feed, settings, limits))
    with _released_on_failure(feed, reads):
        held = [
            _HeldPortion(_read_requests(feed, settings, name, read, planned), planned)
            for name, read in zip(settings.names, reads, strict=True)
            for planned in read.ranges
        ]
        held = [pinned for pinned in held if pinned.portion.start < pinned.portion.end]
        return _cut(feed, kind, settings, held)


def plan(
    feed: Feed, kind: Kind, settings: ReadSettings, portions: Iterable[Portion]
) -> list[Split]:
    """Plans a read of these portions: pins them, and cuts them into splits.

    Returns an empty list if there is nothing to read. Raises `DataLost` if a portion ends beyond
    the current end of its partition or log, or if its start was removed and that is an error (see
    `Portion.is_start_given`).
    """
    nonempty = [portion for portion in portions if portion.start < portion.end]
    ranges = [LaneRange(portion.lane, portion.start, portion.end) for portion in nonempty]
    reads = hold(feed, ranges, duration_ms=settings.pin_ms, owner=_owner(kind))
    with _released_on_failure(feed, reads):
        held = []
        for portion, read in zip(nonempty, reads, strict=True):
            (planned,) = read.ranges
            if planned.end < portion.end:
                raise DataLost(
                    f"{feed.label(portion.lane)}: it ends at "
                    f"{feed.shown(planned.end)}, before the planned end "
                    f"{feed.shown(portion.end)} of the read: it was replaced, or "
                    "restored from a backup, after the read was planned; run the query again, or "
                    "start the stream with a new checkpoint"
                )
            held.append(_HeldPortion(portion, planned))
        return _cut(feed, kind, settings, held)


def pin_ids_of(reads: Iterable[PlannedRead]) -> list[str]:
    return [planned.pin_id for read in reads for planned in read.ranges if planned.pin_id]


def release(feed: Feed, pin_ids: Iterable[str]) -> None:
    """Releases pins. Errors are ignored, because pins that are not released expire."""
    valid = [pin_id for pin_id in pin_ids if pin_id]
    if valid:
        with contextlib.suppress(LakebedError):
            feed.store.pins.release_all(valid)


def _requests(feed: Feed, settings: ReadSettings, limits: ReadFilter) -> list[WantedRead]:
    start, end = settings.start, settings.end
    starts, ends = start.requested_by_lane(feed), end.requested_by_lane(feed)
    since_us = limits.times_us.start
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
            partitions=_partitions(limits, name),
            partition_start=limits.number_interval.start or 0,
            partition_end=limits.number_interval.end,
            position_start=_unsigned(limits.positions.start),
            position_end=_unsigned(limits.positions.end),
            since_us=None if since_us is None else min(max(since_us, 0), INT64_MAX),
        )
        for name in settings.names
    ]


def _partitions(limits: ReadFilter, name: str) -> list[int] | None:
    if limits.names is not None and name not in limits.names:
        return []
    return None if limits.numbers is None else sorted(limits.numbers)


def _unsigned(position: int | None) -> int | None:
    """Clamps a position to the range of unsigned 64-bit numbers, or returns None for None.

    This is needed because filters may compare with any number.
    """
    return None if position is None else min(max(position, 0), U64_MAX)


def _plan(
    feed: Feed, kind: Kind, settings: ReadSettings, requests: Sequence[WantedRead]
) -> list[PlannedRead]:
    """Resolves and pins the requested reads.

    If a topic or log does not exist, raises `NotFound` with a list of the names that exist.
    """
    try:
        return feed.plan(requests, duration_ms=settings.pin_ms, owner=_owner(kind))
    except NotFound as error:
        existing = feed.names()
        if all(name in existing for name in settings.names):
            raise
        raise not_found(kind, error, existing) from None


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
            f"{feed.label(lane)}: position {feed.shown(last)} was requested, but "
            f"the end is {feed.shown(bounds.end)}; to read what exists, set "
            "failOnDataLoss=false"
        )
    # Data that is removed at the current start is only an error if it was requested.
    is_requested = named[0] is not None or (
        start.moment_us is not None and planned.start != bounds.start
    )
    return Portion(lane, read.identity, planned.start, planned.end, is_requested)


def _cut(
    feed: Feed, kind: Kind, settings: ReadSettings, held: Sequence[_HeldPortion]
) -> list[Split]:
    extents = []
    for portion, planned in held:
        remaining = _still_there(feed, settings, portion, first=planned.first)
        key = _HeldPortion(remaining, planned)
        extents.append(Extent(key, planned.marks, is_cut_anywhere=feed.is_cut_anywhere))
    cut_pieces = split(
        extents, bytes_max=settings.partition_bytes, count_min=settings.partitions_min
    )
    used = {piece.key.planned.pin_id for pieces in cut_pieces for piece in pieces}
    pin_ids = [planned.pin_id for _, planned in held if planned.pin_id]
    release(feed, [pin_id for pin_id in pin_ids if pin_id not in used])
    pin_ids = [pin_id for pin_id in pin_ids if pin_id in used]
    splits = [Split([_read_piece(piece) for piece in pieces], pin_ids) for pieces in cut_pieces]
    total = sum(part.size for part in splits)
    event(_log, "spark_planned", source=kind.source, splits=len(splits), bytes=total)
    return splits


def _still_there(feed: Feed, settings: ReadSettings, portion: Portion, *, first: int) -> Portion:
    if portion.start >= first:
        return portion
    if portion.is_start_given and settings.fails_on_loss:
        raise lost(feed, portion.lane, requested=portion.start, first=first)
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
