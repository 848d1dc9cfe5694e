"""Plans reads of topics and logs: resolves positions, pins ranges and lists their split points.

A range is pinned before its split points are listed, so that retention does not remove it. After
that the beginning of the partition is read again, because retention may have moved it before the
pin was in effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from lakebed.aof.format import RECORDS_START
from lakebed.aof.manifest.paths import stream_name
from lakebed.aof.record_id import RecordId
from lakebed.aof.sparse_index import load_index as load_log_index
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.files import Disk
from lakebed.base.units import US_NS
from lakebed.keratin.index_file import load_index
from lakebed.keratin.paths import index_path
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels.arguments import I64_MAX
from lakebed.store.pin_file import OffsetRange, SegmentRange
from lakebed.store.pins import Pins
from lakebed.store.read_plan import (
    U64_MAX,
    PartitionEdges,
    PlannedRange,
    PlannedRead,
    ReadEdge,
    WantedRead,
)
from lakebed.store.split_points import (
    Bounds,
    Inner,
    SplitPoint,
    log_bounds,
    log_split_points,
    topic_bounds,
    topic_split_points,
)

_US_PER_MS = 1000


class ReadSource(Protocol):
    """A topic or a log whose read is planned; a log counts as one partition."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def is_cut_anywhere(self) -> bool:
        """Whether a range can be narrowed to any position; if not, only to split points."""

    def bounds(self, partition: int) -> Bounds: ...

    def position_at(self, partition: int, timestamp_us: int) -> int:
        """Returns the position of the first message at or after a time, or else the end."""

    def split_points(self, partition: int, start: int, end: int) -> list[SplitPoint]:
        """Returns the split points from `start` to `end`, both included, in order."""

    def to_pin(self, partition: int, start: int, end: int) -> OffsetRange | SegmentRange: ...


def plan_reads(
    reads: Sequence[WantedRead],
    open_source: Callable[[str], ReadSource],
    *,
    pins: Pins,
    duration_ms: int,
    owner: str,
) -> list[PlannedRead]:
    """Resolves the positions of all reads, pins their ranges and lists their split points.

    `open_source` is called once for each topic or log. Pins nothing if `duration_ms` is 0. Raises
    `NotFound` if a read has edges for a partition that does not exist.
    """
    opened = {name: open_source(name) for name in dict.fromkeys(read.name for read in reads)}
    sources_and_reads = [(opened[read.name], read) for read in reads]
    resolved = [_resolved(source, read) for source, read in sources_and_reads]
    pin_ids: list[str] = []
    if duration_ms:
        to_pin = [
            source.to_pin(planned.partition, planned.start, planned.end)
            for (source, _), ranges in zip(sources_and_reads, resolved, strict=True)
            for planned in ranges
            if planned.start < planned.end
        ]
        new_pins = pins.pin_ranges(to_pin, duration_ms=duration_ms, owner=owner) if to_pin else ()
        pin_ids = [pin.pin_id for pin in new_pins]
    try:
        unused = iter(pin_ids)
        return [
            PlannedRead(
                source.identity,
                [
                    _measured(
                        source, planned, next(unused, "") if planned.start < planned.end else ""
                    )
                    for planned in ranges
                ],
            )
            for (source, _), ranges in zip(sources_and_reads, resolved, strict=True)
        ]
    except BaseException:
        pins.release_all(pin_ids)
        raise


def _resolved(source: ReadSource, read: WantedRead) -> list[PlannedRange]:
    count = source.partition_count
    edges = {partition_edges.partition: partition_edges for partition_edges in read.edges}
    for number in edges:
        if number >= count:
            raise NotFound(
                f"{source.name}: there is no partition {number} (the topic or log has {count})"
            )
    stop = count if read.partition_end is None else min(read.partition_end, count)
    numbers = set(range(max(read.partition_start, 0), stop))
    if read.partitions is not None:
        numbers &= set(read.partitions)
    return [
        _resolved_range(source, read, edges.get(number) or PartitionEdges(number))
        for number in sorted(numbers)
    ]


def _resolved_range(source: ReadSource, read: WantedRead, edges: PartitionEdges) -> PlannedRange:
    partition = edges.partition
    start_edge, end_edge = edges.start or read.start, edges.end or read.end
    # Times are resolved first, so that the results are within the bounds, which are read later.
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
    source: ReadSource, read: WantedRead, partition: int, start: int, end: int
) -> tuple[int, int]:
    """Narrows a range to the `position_start` and `position_end` of the read.

    If the source can be cut only at split points, the range begins at the last split point up to
    `position_start`, and ends at the first split point from `position_end` on.
    """
    first, stop = read.position_start, read.position_end
    # Record ids above `I64_MAX` are shown to users as negative numbers, which cannot be compared.
    if end > I64_MAX or (first is None and stop is None):
        return start, end
    if source.is_cut_anywhere:
        return max(start, first or 0), end if stop is None else min(end, stop)
    places = [point.at for point in source.split_points(partition, start, end)]
    if first is not None:
        start = max([place for place in places if place <= first], default=start)
    if stop is not None:
        end = min([place for place in places if place >= stop], default=end)
    return start, end


def _measured(source: ReadSource, planned: PlannedRange, pin_id: str) -> PlannedRange:
    first = source.bounds(planned.partition).start
    start = min(max(planned.start, first), planned.end)
    points = source.split_points(planned.partition, start, planned.end)
    return replace(planned, pin_id=pin_id, first=first, marks=points)


class PartitionToPlan(Protocol):
    """The methods of a partition that planning uses."""

    def start_offset(self) -> int: ...

    def high_watermark(self) -> int: ...

    def segments(self) -> Sequence[PartitionSegment]: ...

    def offset_for_time(self, timestamp_ms: int) -> int: ...


class TopicToPlan(Protocol):
    """The properties of a topic that planning uses."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> str: ...

    @property
    def partitions(self) -> Sequence[PartitionToPlan]: ...


class LogToPlan(Protocol):
    """The properties and methods of a log that planning uses."""

    @property
    def name(self) -> str: ...

    @property
    def stream_id(self) -> int | None: ...

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]: ...

    def seek_timestamp(self, timestamp_ns: int) -> RecordId: ...


class TopicSource:
    """A `ReadSource` for a topic that is open for writing or read-only."""

    is_cut_anywhere = True

    def __init__(
        self, topic: TopicToPlan, index_of: Callable[[PartitionSegment], Inner] = lambda _: ()
    ) -> None:
        """`index_of` returns split points inside a segment; by default it returns none.

        Between two split points, the bytes of the topic are assumed to be spread evenly.
        """
        self.name = topic.name
        self.identity = topic.topic_id
        self._partitions = topic.partitions
        self.partition_count = len(self._partitions)
        self._index_of = index_of

    def bounds(self, partition: int) -> Bounds:
        log = self._partitions[partition]
        return topic_bounds(log.start_offset(), log.high_watermark())

    def position_at(self, partition: int, timestamp_us: int) -> int:
        return self._partitions[partition].offset_for_time(-(-timestamp_us // _US_PER_MS))

    def split_points(self, partition: int, start: int, end: int) -> list[SplitPoint]:
        segments = self._partitions[partition].segments()
        return topic_split_points(segments, self._index_of, start=start, end=end)

    def to_pin(self, partition: int, start: int, end: int) -> OffsetRange:
        return OffsetRange(self.name, partition, start, end)


class LogSource:
    """A `ReadSource` for a log that is open for writing or read-only."""

    is_cut_anywhere = False
    partition_count = 1

    def __init__(
        self, log: LogToPlan, index_of: Callable[[SegmentInfo], Iterable[int]] = lambda _: ()
    ) -> None:
        """`index_of` returns split points inside a segment; by default it returns none."""
        self.name = log.name
        self.identity = log_identity(log.stream_id)
        self._log = log
        self._index_of = index_of

    def bounds(self, partition: int) -> Bounds:  # noqa: ARG002 - a log has only one
        return log_bounds(*self._log.segments_and_end())

    def position_at(self, partition: int, timestamp_us: int) -> int:  # noqa: ARG002
        return int(self._log.seek_timestamp(min(timestamp_us * US_NS, U64_MAX)))

    def split_points(self, partition: int, start: int, end: int) -> list[SplitPoint]:  # noqa: ARG002
        segments, durable_end = self._log.segments_and_end()
        return log_split_points(
            segments, self._index_of, durable_end=durable_end, start=start, end=end
        )

    def to_pin(self, partition: int, start: int, end: int) -> SegmentRange:  # noqa: ARG002
        first, last = RecordId(start), RecordId(end)
        is_last_read = last.segment_offset > RECORDS_START
        stop = last.segment_index + is_last_read
        return SegmentRange(self.name, first.segment_index, max(stop, first.segment_index + 1))


def log_identity(stream_id: int | None) -> str:
    """Returns the text that identifies a log in a plan; empty if its stream id is not known."""
    return "" if stream_id is None else stream_name(stream_id)


def topic_index(disk: Disk, info: PartitionSegment) -> list[tuple[int, int]]:
    """Returns the offsets and the byte positions of the records in a segment's index.

    Returns an empty list if the index is missing or damaged.
    """
    try:
        entries = load_index(disk, index_path(info.path), base_offset=info.base_offset)
    except LakebedError:
        return []
    return [(info.base_offset + entry.relative_offset, entry.position) for entry in entries]


def log_index(disk: Disk, info: SegmentInfo) -> list[int]:
    """Returns the segment offsets of the records in a segment's index.

    Returns an empty list unless the segment is sealed and in Tier 0 and its index is valid.
    """
    if info.tier or not info.is_sealed:
        return []
    entries = load_log_index(disk, info.path, segment_id=info.segment_id)
    return [entry.offset for entry in entries]
