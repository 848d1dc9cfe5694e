"""What is read, in lanes: the partitions of topics, or logs. One protocol for both.

A lane's positions rise; `[start, end)` of them is read by one task or by several. The identity of a
topic or a log tells one that was deleted and made again from the one that it was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakebed.spark.filters import Interval
from lakebed.spark.places.protocol import Bounds, Mark, OpenStore


class Lane(NamedTuple):
    """A partition of a topic; or a log, whose number is 0."""

    name: str
    number: int


class LaneRange(NamedTuple):
    lane: Lane
    start: int
    end: int


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

    def identity(self, name: str) -> str:
        """Of now; empty if it cannot be told. `NotFound` if there is no such topic or log."""

    def lanes(self, name: str) -> Sequence[Lane]: ...

    def bounds(self, lane: Lane) -> Bounds: ...

    def base(self, lane: Lane, position: int) -> int | None:
        """What `follows` needs to know of a position once it is gone; None if that is nothing."""

    def follows(self, lane: Lane, position: int, base: int) -> bool:
        """Whether what there is begins where that position was: nothing between them is gone."""

    def marks(self, lane: Lane, start: int, end: int) -> list[Mark]: ...

    def at_time(self, lane: Lane, moment_us: int) -> int:
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

    def pin(self, lane: Lane, start: int, end: int, *, duration_ms: int, owner: str) -> str:
        """The id of a new pin."""

    def read(
        self, lane: Lane, start: int, end: int, *, columns: Sequence[str], times_us: Interval
    ) -> Iterator[Rows]:
        """In order; batches without a row of those times may be left out."""
