"""What is read, in lanes: the partitions of topics, or logs. One protocol for both.

A lane's positions rise; `[start, end)` of them is read by one task or by several. The identity of a
topic or a log tells one that was deleted and made again from the one that it was before.
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
    """A partition of a topic; or a log, whose number is 0."""

    name: str
    number: int


class LaneRange(NamedTuple):
    lane: Lane
    start: int
    end: int


class FeedState(NamedTuple):
    """A topic or a log as it stood at one moment."""

    identity: str  # empty if it cannot be told
    bounds: Mapping[Lane, Bounds]


class Rows(NamedTuple):
    """A batch for Spark, and the bytes that were read for it; None if no row can be wanted."""

    batch: pa.RecordBatch | None
    size: int


class Feed(Protocol):
    """Of one open store. Not thread-safe."""

    store: ReadableStore
    is_cut_anywhere: bool  # or only at split points

    def names(self) -> Sequence[str]:
        """Of all topics, or logs, that there are."""

    def state(self, name: str) -> FeedState:
        """`NotFound` if there is no such topic or log."""

    def base(self, lane: Lane, position: int) -> int | None:
        """What `follows` needs to know of a position once it is gone; None if that is nothing."""

    def follows(self, lane: Lane, position: int, base: int) -> bool:
        """Whether what there is begins where that position was: nothing between them is gone."""

    def at_time(self, name: str, moment_us: int) -> Mapping[Lane, int]:
        """All before it is older; the end, if all is."""

    def row_count(self, lane: Lane, start: int, end: int) -> int | None:
        """At most so many rows; None if nobody knows without reading."""

    def advanced(
        self, ranges: Sequence[LaneRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        """Where to stop in each with about that much before it, one row at least: the oldest rows
        first, so that event time advances in all lanes together."""

    def parse(self, value: object) -> int:
        """A position as a user writes it; `InputError` if it is none."""

    def shown(self, position: int) -> str:
        """As a user would write it."""

    def plan(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolve and pin them, unless the duration is 0, and list their split points."""

    def read(
        self, lane: Lane, start: int, end: int, *, columns: Sequence[str], times_us: Interval
    ) -> Iterator[Rows]:
        """In order; batches without a row of those times may be left out."""


def feed_states(feed: Feed, names: Iterable[str]) -> dict[str, FeedState]:
    """All of them in one call; `NotFound` if there is no such topic or log."""
    known = list(names)
    nothing = [WantedRead(name, start=LATEST) for name in known]
    reads = feed.plan(nothing, duration_ms=0, owner="Spark") if known else []
    return {
        name: FeedState(
            read.identity, {Lane(name, each.partition): each.bounds for each in read.ranges}
        )
        for name, read in zip(known, reads, strict=True)
    }


def hold(
    feed: Feed, ranges: Sequence[LaneRange], *, duration_ms: int, owner: str
) -> list[PlannedRead]:
    """Pin them, unless the duration is 0: one call, and a read of one range for each."""
    if not ranges:
        return []
    reads = []
    for (name, number), start, end in ranges:
        edges = PartitionEdges(number, ReadEdge(position=start), ReadEdge(position=end))
        reads.append(WantedRead(name, edges=[edges], partitions=[number]))
    return feed.plan(reads, duration_ms=duration_ms, owner=owner)


def size_bytes(planned: PlannedRange) -> int:
    """About so many bytes are read."""
    return planned.marks[-1].bytes_before - planned.marks[0].bytes_before
