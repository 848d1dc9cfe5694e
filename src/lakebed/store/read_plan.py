"""What is going to be read of topics and logs, and how it was resolved, pinned and measured.

Any number of topics or logs is planned at once. A log is planned as a topic that has one partition;
positions are offsets, or record ids as plain numbers.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.kernels.arguments import I64_MAX
from lakebed.store.split_points import Bounds, SplitPoint

U64_MAX: Final = (1 << 64) - 1
Count = Annotated[int, Meta(ge=0, le=I64_MAX)]
Unsigned = Annotated[int, Meta(ge=0)]  # of 64 bits, which is more than `Meta` can say


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
    """The part of a topic or log to read; all of it by default."""

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


class PlannedRange(Struct, frozen=True):
    """What is read of a partition: `[start, end)`, which may begin before what there is."""

    partition: int
    bounds: Bounds  # that the positions were resolved within
    start: int
    end: int
    pin_id: str = ""  # empty if nothing is pinned
    first: int = 0  # where the partition began after the range was pinned
    marks: list[SplitPoint] = []  # of what there is of the range, both ends included


class PlannedRead(Struct, frozen=True):
    identity: str  # changes if it is deleted and created again; empty if unknown
    ranges: list[PlannedRange]  # by partition


class TopicRange(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages `[start, end)` of a partition."""

    topic: str
    partition: int
    start: Count
    end: Count
