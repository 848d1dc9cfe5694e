"""What is read, in lanes: the partitions of topics, or logs. One protocol for both.

A lane's positions rise; `[start, end)` of them is read by one task or by several. The identity of a
topic or a log tells one that was deleted and made again from the one that it was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakebed.spark.filters import Interval
from lakebed.spark.places.protocol import OpenStore
from lakebed.store.read_plan import LATEST, PlannedRead, WantedRead
from lakebed.store.split_points import Bounds, Mark


class Lane(NamedTuple):
    """A partition of a topic; or a log, whose number is 0."""

    name: str
    number: int


class LaneRange(NamedTuple):
    lane: Lane
    start: int
    end: int


class Look(NamedTuple):
    """A topic or a log as it stood at one moment."""

    identity: str  # empty if it cannot be told
    bounds: Mapping[Lane, Bounds]


class Rows(NamedTuple):
    """A batch for Spark, and the bytes that were read for it; None if no row can be wanted."""

    batch: pa.RecordBatch | None
    size: int


class Feed(Protocol):
    """Of one open store. Not thread-safe."""

    store: OpenStore
    is_cut_anywhere: bool  # or only at marks

    def names(self) -> Sequence[str]:
        """Of all topics, or logs, that there are."""

    def look(self, name: str) -> Look:
        """`NotFound` if there is no such topic or log."""

    def base(self, lane: Lane, position: int) -> int | None:
        """What `follows` needs to know of a position once it is gone; None if that is nothing."""

    def follows(self, lane: Lane, position: int, base: int) -> bool:
        """Whether what there is begins where that position was: nothing between them is gone."""

    def marks(self, lane: Lane, start: int, end: int) -> list[Mark]: ...

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


def looks(feed: Feed, names: Iterable[str]) -> dict[str, Look]:
    """All of them in one call; `NotFound` if there is no such topic or log."""
    known = list(names)
    nothing = [WantedRead(name, start=LATEST) for name in known]
    reads = feed.plan(nothing, duration_ms=0, owner="Spark") if known else []
    return {
        name: Look(read.identity, {Lane(name, each.partition): each.bounds for each in read.ranges})
        for name, read in zip(known, reads, strict=True)
    }
