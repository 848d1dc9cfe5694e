"""The request and the result of planning reads of topics or logs.

One request plans any number of topics or logs. A log is planned like a topic with one partition.
Positions are offsets of a topic, or record ids of a log as plain numbers.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.kernels.arguments import I64_MAX
from lakebed.store.split_points import Bounds, SplitPoint

U64_MAX: Final = (1 << 64) - 1
Count = Annotated[int, Meta(ge=0, le=I64_MAX)]
Unsigned = Annotated[int, Meta(ge=0)]  # 64 bits; `Meta` cannot express so large a maximum


class ReadEdge(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a read begins or ends in a partition.

    If `position` is given, it is that position. If only `timestamp_us` is given, it is the first
    message at or after that time, or the end of the partition if there is none. If neither is
    given, it is the beginning of the partition, or its end if `is_latest` is set.
    """

    position: Unsigned | None = None
    timestamp_us: Count | None = None  # since 1970
    is_latest: bool = False  # not used if `position` or `timestamp_us` is given


EARLIEST: Final = ReadEdge()
LATEST: Final = ReadEdge(is_latest=True)


class PartitionEdges(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a read begins and ends in one partition, instead of the edges of the whole read.

    If `start` or `end` is None, that edge of the whole read applies.
    """

    partition: Count
    start: ReadEdge | None = None
    end: ReadEdge | None = None


class WantedRead(Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a topic or log to read; all of it by default."""

    name: str
    start: ReadEdge = EARLIEST
    end: ReadEdge = LATEST
    edges: list[PartitionEdges] = []  # other edges for some partitions, which must exist
    partitions: list[int] | None = None  # read only these, if they exist
    partition_start: int = 0  # read only partitions from this number on
    partition_end: int | None = None  # read only partitions before this number
    position_start: Unsigned | None = None  # nothing before this position is needed
    position_end: Unsigned | None = None  # nothing from this position on is needed
    since_us: Count | None = None  # nothing before the first message at or after this is needed


class PlannedRange(Struct, frozen=True):
    """The range of positions `[start, end)` to read from a partition.

    `start` may be before the oldest message that still exists.
    """

    partition: int
    bounds: Bounds  # the readable range when the positions were resolved
    start: int
    end: int
    pin_id: str = ""  # empty if nothing is pinned
    first: int = 0  # where the partition began after the range was pinned
    marks: list[SplitPoint] = []  # of the part of the range that still exists, with both ends


class PlannedRead(Struct, frozen=True):
    identity: str  # changes if the topic or log is created again; empty if unknown
    ranges: list[PlannedRange]  # sorted by partition


class TopicRange(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages `[start, end)` of a partition."""

    topic: str
    partition: int
    start: Count
    end: Count
