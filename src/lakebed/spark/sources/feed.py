"""The interface through which Spark sources read topics and logs.

A lane is a partition of a topic, or a log. Its positions (offsets, or record ids as numbers)
increase; a range `[start, end)` is read by one or several tasks. The identity of a topic or log
changes when it is deleted and created again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakebed.api.read_surface import ReadableStore
from lakebed.spark.filters import Interval
from lakebed.store.read_plan import (
    LATEST,
    PartitionEdges,
    PlannedRange,
    PlannedRead,
    ReadEdge,
    WantedRead,
)
from lakebed.store.split_points import Bounds


class Lane(NamedTuple):
    """A partition of a topic, or a log. The number of a log is 0."""

    name: str
    number: int


class LaneRange(NamedTuple):
    lane: Lane
    start: int
    end: int


class FeedState(NamedTuple):
    """The state of a topic or log at one moment: its identity, and the start and end of its
    partitions.

    A log counts as one partition.
    """

    identity: str  # empty if unknown
    bounds: Mapping[Lane, Bounds]


class Rows(NamedTuple):
    """A batch of rows for Spark, and the number of bytes that were read since the previous batch.

    `batch` is None if there are only bytes to report. These may be bytes of data that was left out
    because it cannot match the filters.
    """

    batch: pa.RecordBatch | None
    size: int


class Feed(Protocol):
    """Reads either the topics or the logs of one open store. Not thread-safe.

    A lane is a partition of a topic, or a log.
    """

    store: ReadableStore
    is_cut_anywhere: bool  # whether a read can be cut at any position, not only at split points

    def names(self) -> Sequence[str]:
        """Returns the names of all topics, or of all logs, of the store."""

    def state(self, name: str) -> FeedState:
        """Returns the current state of a topic or log. Raises `NotFound` if it does not exist."""

    def base(self, lane: Lane, position: int) -> int | None:
        """Returns the number that a later call of `follows` needs for this position.

        Returns None if there is no such number, or if it is not known.
        """

    def follows(self, lane: Lane, position: int, base: int) -> bool:
        """Returns whether the oldest existing data directly follows the position.

        If so, nothing between them was removed. `base` is what `base` returned for the position,
        before the data there was removed.
        """

    def at_time(self, name: str, moment_us: int) -> Mapping[Lane, int]:
        """Returns the position before which all data is older than `moment_us`, by partition.

        A log counts as one partition. If all data of a partition is older, the position is its end.
        """

    def row_count(self, lane: Lane, start: int, end: int) -> int | None:
        """Returns an upper bound of the number of rows in a range, or None if it is unknown
        without reading.
        """

    def advanced(
        self, ranges: Sequence[LaneRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        """Returns the position in each range at which a micro-batch should stop.

        Up to these positions, all ranges together have at most about `rows_max` rows and
        `bytes_max` bytes, but at least one row. None means no limit. The oldest rows are taken
        first, so that event time advances evenly in all partitions.
        """

    def parse(self, value: object) -> int:
        """Parses a position as users write it: an offset or a record id.

        Raises `InputError` if it is invalid.
        """

    def label(self, lane: Lane) -> str:
        """Returns the name of a partition or log, for messages to people."""

    def shown(self, position: int) -> str:
        """Formats a position as users write it: an offset or a record id."""

    def plan(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolves the requested reads to ranges with split points, and pins the ranges.

        A pin keeps retention from removing the data for `duration_ms`. If that is 0, nothing is
        pinned. Raises `NotFound` if a topic, log or partition does not exist.
        """

    def read(
        self, lane: Lane, start: int, end: int, *, columns: Sequence[str], times_us: Interval
    ) -> Iterator[Rows]:
        """Yields the rows of a range in order. Batches without a row in `times_us` may be left
        out.
        """


def feed_states(feed: Feed, names: Iterable[str]) -> dict[str, FeedState]:
    """Returns the current states of these topics or logs, with one call to the store.

    Raises `NotFound` if one of them does not exist.
    """
    all_names = list(names)
    empty_reads = [WantedRead(name, start=LATEST) for name in all_names]
    reads = feed.plan(empty_reads, duration_ms=0, owner="Spark") if all_names else []
    return {
        name: FeedState(
            read.identity,
            {Lane(name, planned.partition): planned.bounds for planned in read.ranges},
        )
        for name, read in zip(all_names, reads, strict=True)
    }


def hold(
    feed: Feed, ranges: Sequence[LaneRange], *, duration_ms: int, owner: str
) -> list[PlannedRead]:
    """Pins the ranges with one call to the store, and returns a planned read for each range.

    A pin keeps retention from removing the data for `duration_ms`. If that is 0, nothing is pinned.
    """
    if not ranges:
        return []
    reads = []
    for (name, number), start, end in ranges:
        edges = PartitionEdges(number, ReadEdge(position=start), ReadEdge(position=end))
        reads.append(WantedRead(name, edges=[edges], partitions=[number]))
    return feed.plan(reads, duration_ms=duration_ms, owner=owner)


def size_bytes(planned: PlannedRange) -> int:
    """Returns the approximate size of a planned range in bytes."""
    return planned.marks[-1].bytes_before - planned.marks[0].bytes_before
