"""Reads logs for Spark. Positions are record ids; a read starts and ends at record boundaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from lakebed.aof.format import next_base_offset
from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.api.read_surface import ReadableLog, ReadableStore
from lakebed.base.errors import InputError
from lakebed.base.oldest_first import Chunk, Items, Limit, advance
from lakebed.base.units import US_NS, shown
from lakebed.kernels.arguments import I64_MAX
from lakebed.spark.arrow import records
from lakebed.spark.filters import Interval
from lakebed.spark.sources.feed import FeedState, Lane, LaneRange, Rows, hold, size_bytes
from lakebed.store.read_plan import PlannedRead, WantedRead
from lakebed.store.read_planner import log_identity
from lakebed.store.split_points import log_bounds


class LogFeed:
    """Reads the logs of one open store; implements `Feed`."""

    is_cut_anywhere = False

    def __init__(self, store: ReadableStore, batch_bytes_max: int | None = None) -> None:
        self.store = store
        self._batch_bytes_max = batch_bytes_max

    def names(self) -> Sequence[str]:
        return self.store.logs()

    def state(self, name: str) -> FeedState:
        log = self.store.open_log(name)
        bounds = log_bounds(*log.segments_and_end())
        return FeedState(log_identity(log.stream_id), {Lane(name, 0): bounds})

    def base(self, lane: Lane, position: int) -> int | None:
        """Returns the base offset of the segment of this position.

        Returns None if the segment does not exist.
        """
        return self._bases(lane).get(RecordId(position).segment_index)

    def follows(self, lane: Lane, position: int, base: int) -> bool:
        bases, record_id = self._bases(lane), RecordId(position)
        first = min(bases, default=0)
        is_next = first == record_id.segment_index + 1
        return is_next and bases[first] == next_base_offset(base, record_id.segment_offset)

    def at_time(self, name: str, moment_us: int) -> Mapping[Lane, int]:
        if moment_us <= 0:
            return {lane: bounds.start for lane, bounds in self.state(name).bounds.items()}
        record_id = self.store.open_log(name).seek_timestamp(moment_us * US_NS)
        return {Lane(name, 0): int(record_id)}

    def row_count(self, lane: Lane, start: int, end: int) -> int | None:  # noqa: ARG002 - see Feed
        return None

    def advanced(
        self, ranges: Sequence[LaneRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        """Returns the position in each range at which a micro-batch should stop.

        This reads the records, because record boundaries are not stored elsewhere.
        """
        backlogs = []
        for (lane, start, end), read in zip(
            ranges, hold(self, ranges, duration_ms=0, owner="Spark"), strict=True
        ):
            (planned,) = read.ranges
            batches = partial(self._batches, self.store.open_log(lane.name))
            backlogs.append(_LogBacklog(batches, start, end, weight=max(size_bytes(planned), 1)))
        return advance(backlogs, Limit(rows_max, bytes_max))

    def parse(self, value: object) -> int:
        if isinstance(value, str) or type(value) is int:
            return int(RecordId.parse(str(value)))
        raise InputError(f"{shown(value)} is not a record id: use segment:offset, for example 3:64")

    def label(self, lane: Lane) -> str:
        return f"log {lane.name}"

    def shown(self, position: int) -> str:
        return str(RecordId(position))

    def plan(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        return self.store.plan_logs(reads, duration_ms=duration_ms, owner=owner)

    def read(
        self, lane: Lane, start: int, end: int, *, columns: Sequence[str], times_us: Interval
    ) -> Iterator[Rows]:
        is_narrow = times_us != Interval()
        for batch in self._batches(self.store.open_log(lane.name), start, end):
            size = _bytes_of(batch)
            if is_narrow and not _can_have(batch, times_us):
                yield Rows(None, size)
                continue
            for rows in records.record_batches([batch], log=lane.name, columns=columns):
                yield Rows(rows, size)
                size = 0

    def _batches(self, log: ReadableLog, start: int, end: int) -> Iterator[RecordBatch]:
        first, stop = RecordId(start), RecordId(end)
        return log.read_batches(first, stop, batch_bytes_max=self._batch_bytes_max)

    def _bases(self, lane: Lane) -> dict[int, int]:
        """Returns the base offset of each existing segment, by segment id."""
        segments, _ = self.store.open_log(lane.name).segments_and_end()
        return {info.segment_id: info.base_offset for info in segments}


class _LogBacklog:
    """The records of a log at the positions `[start, end)`; implements `Backlog`.

    Each batch of records that the log returns is one chunk of the backlog.
    """

    def __init__(
        self,
        read_batches: Callable[[int, int], Iterator[RecordBatch]],
        start: int,
        end: int,
        *,
        weight: int,
    ) -> None:
        self._read_batches = read_batches
        self.start = start
        self._end = end
        self.weight = weight

    def chunks(self) -> Iterator[Chunk]:
        newest = 0
        for batch, end in self._batches(self.start):
            newest = max(newest, *map(int, batch.timestamps))
            yield Chunk(end, len(batch), sum(map(int, batch.lengths)), newest)

    def items(self, start: int) -> Iterator[Items]:
        for batch, end in self._batches(start):
            ends = [int(batch.record_id(index)) for index in range(1, len(batch))]
            yield Items(
                [*ends, end], list(map(int, batch.timestamps)), list(map(int, batch.lengths))
            )

    def _batches(self, start: int) -> Iterator[tuple[RecordBatch, int]]:
        """Yields each batch from `start` on, with the position at which the next batch starts (for
        the last batch: the end of the backlog).
        """
        previous: RecordBatch | None = None
        for batch in self._read_batches(start, self._end) if start < self._end else ():
            if previous is not None:
                yield previous, int(batch.record_id(0))
            previous = batch
        if previous is not None:
            yield previous, self._end


def _can_have(batch: RecordBatch, times_us: Interval) -> bool:
    stamps = np.asarray(batch.timestamps)
    if stamps.max() > I64_MAX:  # negative in Spark, so a filter on the signed numbers may match
        return True
    first, last = int(stamps.min()) // US_NS, int(stamps.max()) // US_NS
    is_after_start = times_us.start is None or last >= times_us.start
    return is_after_start and (times_us.end is None or first < times_us.end)


def _bytes_of(batch: RecordBatch) -> int:
    return int(batch.lengths[-1]) + int(batch.offsets[-1]) - int(batch.offsets[0])
