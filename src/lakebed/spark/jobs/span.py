"""The range of messages or records that a job reads: by position, by time, or everything.

    Span(start={None: 100}, end={None: 200})     # offsets of every partition
    Span(start={2: 17}, partitions=(2,))
    Span(start={None: "3:64"})                   # of a log
    Span(time_start_us=…, time_end_us=…)         # by the messages' own timestamps

Positions are offsets of a topic, or record ids of a log. Ranges include their start and exclude
their end. A span is resolved to positions once, when the job starts: later appends are not part of
the span, even if Spark repeats a task. Reading positions that were removed raises `DataLost`;
positions that do not exist yet are ignored.
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

TASK_BYTES = 64 * MIB  # per task: large enough to be worth a task, small enough to show progress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Positions = Mapping[int | None, int | str]
"""Positions by partition; the key None stands for all partitions that are not listed."""


@dataclass(frozen=True)
class Origin:
    """The topic or log that a job reads."""

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
    """A range of positions and times. By default it includes everything."""

    start: Positions = field(default_factory=dict)
    end: Positions = field(default_factory=dict)
    time_start_us: int | None = None
    time_end_us: int | None = None
    partitions: tuple[int, ...] = ()  # empty: all of them

    def __post_init__(self) -> None:
        start, end = self.time_start_us, self.time_end_us
        if start is not None and end is not None and start > end:
            raise InputError("the time range to read ends before it starts")


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A span of a topic or log, converted to positions when the job started."""

    backend: Backend
    origin: Origin
    span: Span
    ranges: Mapping[int, tuple[int | str, int | str]]  # by partition
    row_count: int  # an upper bound; 0 if unknown
    size_bytes: int  # approximate

    @property
    def partition_count(self) -> int:
        return len(self.ranges)

    def options(self) -> dict[str, str]:
        """Returns the options with which Spark's data source reads exactly the positions of this
        span.
        """
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
        """Returns a frame with the messages or records of the span.

        The rows of one partition are in order, within a task and from task to task.
        """
        from pyspark.sql.functions import col, lit

        all_options = self.options() | options
        frame = spark.read.format(self.origin.kind.source).options(**all_options).load()
        if self.span.time_start_us is not None:
            frame = frame.where(col("timestamp") >= lit(_moment(self.span.time_start_us)))
        if self.span.time_end_us is not None:
            frame = frame.where(col("timestamp") < lit(_moment(self.span.time_end_us)))
        return frame


def resolve(backend: Backend, origin: Origin, span: Span) -> Resolved:
    """Converts the span to positions, and estimates how many rows and bytes it has.

    Raises `NotFound` if the topic, the log or a partition of the span does not exist, and
    `InputError` if a position is not valid.
    """
    from lakebed.spark.sources.feed import LaneRange, hold, size_bytes
    from lakebed.spark.sources.settings import feed_state

    kind = origin.kind
    feed = kind.open_feed(backend)
    with feed.store:
        state = feed_state(feed, kind, origin.name)
        _check_numbers(span, origin, count=len(state.bounds))
        ranges, lane_ranges = {}, []
        times: Mapping[Lane, int] = {}
        if span.time_start_us is not None:
            times = feed.at_time(origin.name, span.time_start_us)
        for lane, bounds in state.bounds.items():
            start, end = _range(feed, lane, span, bounds, since=times.get(lane, 0))
            ranges[lane.number] = _shown_position(start, origin), _shown_position(end, origin)
            if start < end:
                lane_ranges.append(LaneRange(lane, start, end))
        reads = hold(feed, lane_ranges, duration_ms=0, owner="Spark")
    return Resolved(
        backend=backend,
        origin=origin,
        span=span,
        ranges=ranges,
        row_count=sum(feed.row_count(*lane_range) or 0 for lane_range in lane_ranges),
        size_bytes=sum(size_bytes(planned) for read in reads for planned in read.ranges),
    )


def _check_numbers(span: Span, origin: Origin, *, count: int) -> None:
    for number in (*span.partitions, *span.start, *span.end):
        if number is not None and not 0 <= number < count:
            raise NotFound(
                f"{origin.name}: partition {number} does not exist (number of partitions: {count})"
            )


def _range(feed: Feed, lane: Lane, span: Span, bounds: Bounds, *, since: int) -> tuple[int, int]:
    """Returns the positions of the span in a partition or log, up to its current end at most.

    The range is empty if the span does not include the partition. A start that was removed is
    returned unchanged, so that the read raises `DataLost`. `since` is the position at which the
    span's time range starts, or 0.
    """
    start = max(_position(feed, span.start, lane, bounds.start), since)
    end = min(_position(feed, span.end, lane, bounds.end), bounds.end)
    if span.partitions and lane.number not in span.partitions:
        end = start = bounds.end
    # Timestamps need not be in order, so the end of a time range gives no position.
    return min(start, end), end


def _position(feed: Feed, positions: Positions, lane: Lane, default: int) -> int:
    position = positions.get(lane.number, positions.get(None))
    return default if position is None else feed.parse(position)


def _shown_position(position: int, origin: Origin) -> int | str:
    """Returns the position as it is written in an option of the data source.

    Positions of logs become text, because JSON numbers are exact only up to 53 bits.
    """
    return str(position) if origin.is_log else position


def _moment(moment_us: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=moment_us)
    except OverflowError:
        raise InputError(
            f"{moment_us} µs since 1970 is outside the range of Spark's timestamps"
        ) from None
