"""Which messages or records a job is about: between positions, between moments, or all of them.

    Span(start={None: 100}, end={None: 200})     # offsets of every partition
    Span(start={2: 17}, partitions=(2,))
    Span(start={None: "3:64"})                   # of a log
    Span(time_start_us=…, time_end_us=…)         # by the messages' own timestamps

Ranges are half-open. A span is resolved once, where the job is started: what is appended
afterwards is no part of it, also if Spark repeats a task. Positions that are gone are `DataLost`;
those that are not there yet are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakebed.base.errors import InputError, NotFound
from lakebed.base.units import MIB
from lakebed.spark.backends import Backend, backend_options
from lakebed.spark.sources.feed import Feed, Lane
from lakebed.store.split_points import Bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakebed.spark.sources.settings import Kind

TASK_BYTES = 64 * MIB  # of what is read: large enough for a task, and small enough for progress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Positions = Mapping[int | None, int | str]
"""By partition; None is every partition that has none of its own."""


@dataclass(frozen=True)
class Origin:
    """A topic, or a log."""

    name: str
    is_log: bool = False

    @property
    def kind(self) -> Kind:
        if self.is_log:
            from lakebed.spark.sources.aof import LOGS

            return LOGS
        from lakebed.spark.sources.topic import TOPICS

        return TOPICS


@dataclass(frozen=True, kw_only=True)
class Span:
    """Everything by default."""

    start: Positions = field(default_factory=dict)
    end: Positions = field(default_factory=dict)
    time_start_us: int | None = None
    time_end_us: int | None = None
    partitions: tuple[int, ...] = ()  # none: all of them

    def __post_init__(self) -> None:
        start, end = self.time_start_us, self.time_end_us
        if start is not None and end is not None and start > end:
            raise InputError("a range of time ends before it begins")


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A span of what was there when it was looked at."""

    backend: Backend
    origin: Origin
    span: Span
    ranges: Mapping[int, tuple[int | str, int | str]]  # of each partition
    row_count: int  # at most, of a span of time; 0: nobody knows
    size_bytes: int  # about

    @property
    def partition_count(self) -> int:
        return len(self.ranges)

    def options(self) -> dict[str, str]:
        """Of a read that reads no more than that."""
        name = self.origin.name
        starts = {str(number): start for number, (start, _) in self.ranges.items()}
        ends = {str(number): end for number, (_, end) in self.ranges.items()}
        return backend_options(self.backend) | {
            self.origin.kind.noun: name,
            "startingOffsets": json.dumps({name: starts}),
            "endingOffsets": json.dumps({name: ends}),
            "partitionBytes": str(TASK_BYTES),
        }

    def read(self, spark: SparkSession, **options: str) -> DataFrame:
        """Of one partition in their order, also over tasks."""
        from pyspark.sql.functions import col, lit

        given = self.options() | options
        frame = spark.read.format(self.origin.kind.source).options(**given).load()
        if self.span.time_start_us is not None:
            frame = frame.where(col("timestamp") >= lit(_moment(self.span.time_start_us)))
        if self.span.time_end_us is not None:
            frame = frame.where(col("timestamp") < lit(_moment(self.span.time_end_us)))
        return frame


def resolve(backend: Backend, origin: Origin, span: Span) -> Resolved:
    """`NotFound` if there is no such topic or log, or no such partition of it."""
    from lakebed.spark.sources.feed import LaneRange, hold, size_bytes
    from lakebed.spark.sources.settings import feed_state

    kind = origin.kind
    feed = kind.open_feed(backend)
    with feed.store:
        look = feed_state(feed, kind, origin.name)
        _check_numbers(span, origin, count=len(look.bounds))
        ranges, wanted = {}, []
        times: Mapping[Lane, int] = {}
        if span.time_start_us is not None:
            times = feed.at_time(origin.name, span.time_start_us)
        for lane, bounds in look.bounds.items():
            start, end = _range(feed, lane, span, bounds, since=times.get(lane, 0))
            ranges[lane.number] = _shown_position(start, origin), _shown_position(end, origin)
            if start < end:
                wanted.append(LaneRange(lane, start, end))
        held = hold(feed, wanted, duration_ms=0, owner="Spark")
    return Resolved(
        backend=backend,
        origin=origin,
        span=span,
        ranges=ranges,
        row_count=sum(feed.row_count(*each) or 0 for each in wanted),
        size_bytes=sum(size_bytes(planned) for read in held for planned in read.ranges),
    )


def _check_numbers(span: Span, origin: Origin, *, count: int) -> None:
    for number in (*span.partitions, *span.start, *span.end):
        if number is not None and not 0 <= number < count:
            raise NotFound(f"{origin.name}: there is no partition {number}: it has {count}")


def _range(feed: Feed, lane: Lane, span: Span, bounds: Bounds, *, since: int) -> tuple[int, int]:
    """What was asked for, up to the end of now; a start that is gone stays, and is missed later."""
    start = max(_position(feed, span.start, lane, bounds.start), since)
    end = min(_position(feed, span.end, lane, bounds.end), bounds.end)
    if span.partitions and lane.number not in span.partitions:
        end = start = bounds.end
    # Messages need not be in the order of their times: an end by time is no position.
    return min(start, end), end


def _position(feed: Feed, positions: Positions, lane: Lane, otherwise: int) -> int:
    said = positions.get(lane.number, positions.get(None))
    return otherwise if said is None else feed.parse(said)


def _shown_position(position: int, origin: Origin) -> int | str:
    """As an option has it: numbers of more than 53 bits are no friends of JSON."""
    return str(position) if origin.is_log else position


def _moment(moment_us: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=moment_us)
    except OverflowError:
        raise InputError(f"{moment_us} µs since 1970 is no time that Spark knows") from None
