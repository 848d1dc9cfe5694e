"""The protocol through which topics and logs are read, in lanes. A lane is a partition of a topic,
or a log.

The positions of a lane increase; a range `[start, end)` is read by one or several tasks. The
identity of a topic or log changes when it is deleted and created again.
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
    """A partition of a topic, or a log, whose number is 0."""

    name: str
    number: int


class LaneRange(NamedTuple):
    lane: Lane
    start: int
    end: int


class FeedState(NamedTuple):
    """The state of a topic or log at one moment."""

    identity: str  # empty if unknown
    bounds: Mapping[Lane, Bounds]


class Rows(NamedTuple):
    """A batch for Spark, and the bytes read for it. `batch` is None if no row can match."""

    batch: pa.RecordBatch | None
    size: int


class Feed(Protocol):
    """Reads the topics or the logs of one open store. Not thread-safe."""

    store: ReadableStore
    is_cut_anywhere: bool  # otherwise only at split points

    def names(self) -> Sequence[str]:
        """Returns the names of all topics or logs."""

    def state(self, name: str) -> FeedState:
        """Raises `NotFound` if there is no such topic or log."""

    def base(self, lane: Lane, position: int) -> int | None:
        """Returns what `follows` needs to know about a position once it is removed, or None."""

    def follows(self, lane: Lane, position: int, base: int) -> bool:
        """Returns whether the oldest data directly follows the position, so that nothing in
        between was removed.
        """

    def at_time(self, name: str, moment_us: int) -> Mapping[Lane, int]:
        """Returns, for each lane, the position before which everything is older than
        `moment_us`, or the end.
        """

    def row_count(self, lane: Lane, start: int, end: int) -> int | None:
        """Returns an upper bound of the number of rows, or None if that needs a read."""

    def advanced(
        self, ranges: Sequence[LaneRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        """Returns where to stop in each range so that about that much is read, at least one row.

        The oldest rows come first, so that event time advances evenly in all lanes.
        """

    def parse(self, value: object) -> int:
        """Parses a position as users write it. Raises `InputError`."""

    def shown(self, position: int) -> str:
        """Formats a position as users write it."""

    def plan(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolves and pins the reads (no pin if the duration is 0), and returns their split
        points.
        """

    def read(
        self, lane: Lane, start: int, end: int, *, columns: Sequence[str], times_us: Interval
    ) -> Iterator[Rows]:
        """Yields the rows in order. Batches without a row in `times_us` may be left out."""


def feed_states(feed: Feed, names: Iterable[str]) -> dict[str, FeedState]:
    """Returns the states of all of these with one call.

    Raises `NotFound` if a topic or log does not exist.
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
    """Pins the ranges with one call (no pin if the duration is 0).

    Returns a read for each range.
    """
    if not ranges:
        return []
    reads = []
    for (name, number), start, end in ranges:
        edges = PartitionEdges(number, ReadEdge(position=start), ReadEdge(position=end))
        reads.append(WantedRead(name, edges=[edges], partitions=[number]))
    return feed.plan(reads, duration_ms=duration_ms, owner=owner)


def size_bytes(planned: PlannedRange) -> int:
    """Returns about how many bytes are read."""
    return planned.marks[-1].bytes_before - planned.marks[0].bytes_before
