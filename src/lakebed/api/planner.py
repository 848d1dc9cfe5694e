"""Plans reads of topics and logs where their files are: for the HTTP API, and for Spark itself.

A range is pinned before its split points are listed, so that retention leaves it alone; where the
partition begins is looked up again after that, for retention may have been faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from lakebed.aof.format import RECORDS_START
from lakebed.aof.record_id import RecordId
from lakebed.aof.span import oldest
from lakebed.aof.view import SegmentInfo as LogSegmentInfo
from lakebed.api.marks import Inner, log_marks, topic_marks
from lakebed.api.plans import (
    U64_MAX,
    Bounds,
    Mark,
    PartitionEdges,
    PlannedRange,
    PlannedRead,
    ReadEdge,
    WantedRead,
)
from lakebed.api.topics import INT64_MAX
from lakebed.base.errors import NotFound
from lakebed.base.units import US_NS
from lakebed.keratin.view import SegmentInfo
from lakebed.store.pin_file import AnyPin, OffsetRange, SegmentRange

_US_PER_MS = 1000


class Readable(Protocol):
    """A topic, or a log as its only partition."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def is_cut_anywhere(self) -> bool:
        """Whether a read can begin and end at any position, or only at marks."""

    def bounds(self, partition: int) -> Bounds: ...

    def position_at(self, partition: int, timestamp_us: int) -> int:
        """The first message that is not older; the end, if there is none."""

    def marks(self, partition: int, start: int, end: int) -> list[Mark]:
        """From `start` to `end`, both included, rising."""

    def to_pin(self, partition: int, start: int, end: int) -> OffsetRange | SegmentRange: ...


class PinMaker(Protocol):
    """As `lakebed.store.pins.Pins`."""

    def pin_ranges(
        self, ranges: Sequence[OffsetRange | SegmentRange], *, duration_ms: int, owner: str
    ) -> Sequence[AnyPin]: ...

    def release_all(self, pin_ids: Iterable[str]) -> None: ...


def plan_reads(
    wanted: Sequence[tuple[Readable, WantedRead]], *, pins: PinMaker, duration_ms: int, owner: str
) -> list[PlannedRead]:
    """Pins nothing if `duration_ms` is 0. `NotFound` if edges are given of a partition that does
    not exist."""
    resolved = [_resolved(source, read) for source, read in wanted]
    pin_ids: list[str] = []
    if duration_ms:
        to_pin = [
            source.to_pin(each.partition, each.start, each.end)
            for (source, _), ranges in zip(wanted, resolved, strict=True)
            for each in ranges
            if each.start < each.end
        ]
        made = pins.pin_ranges(to_pin, duration_ms=duration_ms, owner=owner) if to_pin else ()
        pin_ids = [pin.pin_id for pin in made]
    try:
        unused = iter(pin_ids)
        return [
            PlannedRead(
                source.identity,
                [
                    _measured(source, each, next(unused, "") if each.start < each.end else "")
                    for each in ranges
                ],
            )
            for (source, _), ranges in zip(wanted, resolved, strict=True)
        ]
    except BaseException:
        pins.release_all(pin_ids)
        raise


def _resolved(source: Readable, read: WantedRead) -> list[PlannedRange]:
    count = source.partition_count
    edges = {each.partition: each for each in read.edges}
    for number in edges:
        if number >= count:
            raise NotFound(f"{source.name}: there is no partition {number}: it has {count}")
    stop = count if read.partition_end is None else min(read.partition_end, count)
    numbers = set(range(max(read.partition_start, 0), stop))
    if read.partitions is not None:
        numbers &= set(read.partitions)
    return [
        _resolved_range(source, read, edges.get(number) or PartitionEdges(number))
        for number in sorted(numbers)
    ]


def _resolved_range(source: Readable, read: WantedRead, edges: PartitionEdges) -> PlannedRange:
    partition = edges.partition
    start_edge, end_edge = edges.start or read.start, edges.end or read.end
    # Moments first: what they are resolved to is within the bounds that are looked up afterwards.
    moments_us = (start_edge.timestamp_us, end_edge.timestamp_us, read.since_us)
    start_at, end_at, since = (
        source.position_at(partition, moment_us) if moment_us else None for moment_us in moments_us
    )
    bounds = source.bounds(partition)
    end = min(_position(end_edge, end_at, bounds), bounds.end)
    start = min(_position(start_edge, start_at, bounds), end)
    start, end = _narrowed(source, read, partition, start, end)
    return PlannedRange(partition, bounds, start=min(max(start, since or 0), end), end=end)


def _position(edge: ReadEdge, at: int | None, bounds: Bounds) -> int:
    if edge.position is not None:
        return edge.position
    if edge.timestamp_us is not None:
        return bounds.start if at is None else at
    return bounds.end if edge.is_latest else bounds.start


def _narrowed(
    source: Readable, read: WantedRead, partition: int, start: int, end: int
) -> tuple[int, int]:
    """Without what is before `position_start` and from `position_end` on, as far as cuts allow."""
    first, stop = read.position_start, read.position_end
    if end > INT64_MAX or (first is None and stop is None):  # above that readers see other numbers
        return start, end
    if source.is_cut_anywhere:
        return max(start, first or 0), end if stop is None else min(end, stop)
    places = [mark.at for mark in source.marks(partition, start, end)]
    if first is not None:
        start = max([place for place in places if place <= first], default=start)
    if stop is not None:
        end = min([place for place in places if place >= stop], default=end)
    return start, end


def _measured(source: Readable, planned: PlannedRange, pin_id: str) -> PlannedRange:
    first = source.bounds(planned.partition).start
    start = min(max(planned.start, first), planned.end)
    marks = source.marks(planned.partition, start, planned.end)
    return replace(planned, pin_id=pin_id, first=first, marks=marks)


class PartitionToRead(Protocol):
    """What a plan needs of a partition."""

    def start_offset(self) -> int: ...

    def high_watermark(self) -> int: ...

    def segments(self) -> Sequence[SegmentInfo]: ...

    def offset_for_time(self, timestamp_ms: int) -> int: ...


class ReadableTopic:
    """A `Readable` of a topic, open for writing or for reading."""

    is_cut_anywhere = True

    def __init__(
        self,
        name: str,
        identity: str,
        partitions: Sequence[PartitionToRead],
        index_of: Callable[[SegmentInfo], Inner] = lambda _: (),
    ) -> None:
        """`index_of` gives split points within a segment; without it segments are cut evenly."""
        self.name = name
        self.identity = identity
        self.partition_count = len(partitions)
        self._partitions = partitions
        self._index_of = index_of

    def bounds(self, partition: int) -> Bounds:
        found = self._partitions[partition]
        start = found.start_offset()
        return Bounds(start, max(start, found.high_watermark()))

    def position_at(self, partition: int, timestamp_us: int) -> int:
        return self._partitions[partition].offset_for_time(-(-timestamp_us // _US_PER_MS))

    def marks(self, partition: int, start: int, end: int) -> list[Mark]:
        segments = self._partitions[partition].segments()
        return topic_marks(segments, self._index_of, start=start, end=end)

    def to_pin(self, partition: int, start: int, end: int) -> OffsetRange:
        return OffsetRange(self.name, partition, start, end)


class ReadableLog:
    """A `Readable` of a log, open for writing or for reading."""

    is_cut_anywhere = False
    partition_count = 1

    def __init__(
        self,
        name: str,
        identity: str,
        look: Callable[[], tuple[Sequence[LogSegmentInfo], RecordId]],
        seek: Callable[[int], RecordId],
        index_of: Callable[[LogSegmentInfo], Iterable[int]] = lambda _: (),
    ) -> None:
        """`look` returns the segments, which contain the durable end, and the durable end.

        `index_of` gives split points within a segment; without it segments are not cut.
        """
        self.name = name
        self.identity = identity
        self._look = look
        self._seek = seek
        self._index_of = index_of

    def bounds(self, partition: int) -> Bounds:  # noqa: ARG002 - it has one
        return log_bounds(*self._look())

    def position_at(self, partition: int, timestamp_us: int) -> int:  # noqa: ARG002
        return int(self._seek(min(timestamp_us * US_NS, U64_MAX)))

    def marks(self, partition: int, start: int, end: int) -> list[Mark]:  # noqa: ARG002
        segments, durable_end = self._look()
        return log_marks(segments, self._index_of, durable_end=durable_end, start=start, end=end)

    def to_pin(self, partition: int, start: int, end: int) -> SegmentRange:  # noqa: ARG002
        first, last = RecordId(start), RecordId(end)
        is_last_read = last.segment_offset > RECORDS_START
        stop = last.segment_index + is_last_read
        return SegmentRange(self.name, first.segment_index, max(stop, first.segment_index + 1))


def log_bounds(segments: Sequence[LogSegmentInfo], durable_end: RecordId) -> Bounds:
    """Where the oldest record begins, and the durable end."""
    start = oldest(segments) if segments else durable_end
    return Bounds(int(min(start, durable_end)), int(durable_end))
