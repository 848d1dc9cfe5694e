"""Planned reads: one call resolves positions, pins ranges and lists their split points.

Any number of topics or logs is planned at once. A log is planned as a topic that has one partition;
positions are offsets, or record ids as plain numbers.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from lakebed.api.operation import Operation
from lakebed.api.topics import Count

U64_MAX: Final = (1 << 64) - 1
Unsigned = Annotated[int, Meta(ge=0)]  # of 64 bits, which is more than `Meta` can say


class Bounds(NamedTuple):
    """What can be read now, `[start, end)`: a list of two numbers."""

    start: int
    end: int


class Mark(NamedTuple):
    """A place that reading can begin at, and how many bytes are before it, counted from any place:
    a list of two numbers."""

    at: int
    bytes_before: int


class ReadEdge(Struct, frozen=True, forbid_unknown_fields=True):
    """A position, else the first message at or after a moment, else one end of what there is."""

    position: Unsigned | None = None
    timestamp_us: Count | None = None  # since 1970
    is_latest: bool = False  # else the earliest


EARLIEST: Final = ReadEdge()
LATEST: Final = ReadEdge(is_latest=True)


class PartitionEdges(Struct, frozen=True, forbid_unknown_fields=True):
    """Edges of one partition, in place of those of its topic."""

    partition: Count
    start: ReadEdge | None = None
    end: ReadEdge | None = None


class WantedRead(Struct, frozen=True, forbid_unknown_fields=True):
    """What is wanted of a topic or a log: all of it by default."""

    name: str
    start: ReadEdge = EARLIEST
    end: ReadEdge = LATEST
    edges: list[PartitionEdges] = []  # `NotFound` if there is no such partition
    partitions: list[int] | None = None  # only those of them that there are
    partition_start: int = 0  # and only from this number on
    partition_end: int | None = None  # and before this one
    position_start: Unsigned | None = None  # nothing before it is wanted
    position_end: Unsigned | None = None  # nothing from there on is wanted
    since_us: Count | None = None  # nothing before the first message of that moment is wanted


class PlanReads(Struct, frozen=True, forbid_unknown_fields=True):
    reads: list[WantedRead]
    owner: Annotated[str, Meta(min_length=1, max_length=200)]
    duration_ms: Annotated[int, Meta(ge=0, le=7 * 24 * 3600 * 1000)]  # of the pins; 0: none


class PlannedRange(Struct, frozen=True):
    """What is read of a partition: `[start, end)`, which may begin before what there is."""

    partition: int
    bounds: Bounds  # that the positions were resolved within
    start: int
    end: int
    pin_id: str = ""  # empty if nothing is pinned
    first: int = 0  # where the partition began after the range was pinned
    marks: list[Mark] = []  # of what there is of the range, both ends included


class PlannedRead(Struct, frozen=True):
    identity: str  # another one, if it was deleted and made again; empty if it cannot be told
    ranges: list[PlannedRange]  # by partition


class PlannedReads(Struct, frozen=True):
    reads: list[PlannedRead]  # in the order of the plan


PLAN_TOPICS: Final = Operation(
    "plan_topics", "POST", "/v1/plans/topics",
    "Resolve and pin what is going to be read of any number of topics, and list its split points",
    PlannedReads, body=PlanReads, tag="topics", is_repeatable=True,
)  # fmt: skip
PLAN_LOGS: Final = Operation(
    "plan_logs", "POST", "/v1/plans/logs",
    "Resolve and pin what is going to be read of any number of logs, and list its split points",
    PlannedReads, body=PlanReads, tag="logs", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (PLAN_TOPICS, PLAN_LOGS)
