"""Logs as lanes: positions are record ids, and a read begins and ends where a record does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lakebed.aof.batch import RecordBatch
from lakebed.aof.format import next_base_offset
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import InputError
from lakebed.base.oldest_first import Chunk, Items, Limit, advance
from lakebed.base.units import US_NS, shown
from lakebed.kernels.arguments import I64_MAX
from lakebed.spark.arrow import records
from lakebed.spark.filters import Interval
from lakebed.spark.places.protocol import OpenLog, OpenStore
from lakebed.spark.sources.feed import Lane, LaneRange, Look, Rows
from lakebed.store.read_plan import PlannedRead, WantedRead
from lakebed.store.split_points import Mark


class LogFeed:
    """A `Feed` of logs."""

    is_cut_anywhere = False

    def __init__(self, store: OpenStore) -> None:
        self.store = store

    def names(self) -> Sequence[str]:
        return self.store.logs()

    def look(self, name: str) -> Look:
        log = self.store.log(name)
        return Look(log.log_id, {Lane(name, 0): log.bounds()})

    def base(self, lane: Lane, position: int) -> int | None:
        """Where the position's segment begins in the log."""
        return self.store.log(lane.name).bases().get(RecordId(position).segment_index)

    def follows(self, lane: Lane, position: int, base: int) -> bool:
        bases, here = self.store.log(lane.name).bases(), RecordId(position)
        first = min(bases, default=0)
        is_next = first == here.segment_index + 1
        return is_next and bases[first] == next_base_offset(base, here.segment_offset)

    def marks(self, lane: Lane, start: int, end: int) -> list[Mark]:
        return self.store.log(lane.name).marks(start, end)

    def at_time(self, name: str, moment_us: int) -> Mapping[Lane, int]:
        log = self.store.log(name)
        if moment_us <= 0:
            return {Lane(name, 0): log.bounds().start}
        return {Lane(name, 0): log.position_for_time(moment_us * US_NS)}

    def row_count(self, lane: Lane, start: int, end: int) -> int | None:  # noqa: ARG002 - see Feed
        return None

    def advanced(
        self, ranges: Sequence[LaneRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        """Read to find out: where records end is written nowhere else."""
        backlogs = [_LogBacklog(self.store.log(lane.name), *rest) for lane, *rest in ranges]
        return advance(backlogs, Limit(rows_max, bytes_max))

    def parse(self, value: object) -> int:
        if isinstance(value, str) or type(value) is int:
            return int(RecordId.parse(str(value)))
        raise InputError(f"{shown(value)} is no record id")

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
        for batch in self.store.log(lane.name).read_batches(start, end):
            size = _bytes_of(batch)
            if is_narrow and not _can_have(batch, times_us):
                yield Rows(None, size)
                continue
            for found in records.record_batches([batch], log=lane.name, columns=columns):
                yield Rows(found, size)
                size = 0


class _LogBacklog:
    """A `Backlog` of the records `[start, end)`; a batch of them is a chunk."""

    def __init__(self, log: OpenLog, start: int, end: int) -> None:
        self._log = log
        self.start = start
        self._end = end
        first, *_, last = log.marks(start, end)
        self.weight = max(last.bytes_before - first.bytes_before, 1)

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
        """With where the next one begins."""
        before: RecordBatch | None = None
        for batch in self._log.read_batches(start, self._end) if start < self._end else ():
            if before is not None:
                yield before, int(batch.record_id(0))
            before = batch
        if before is not None:
            yield before, self._end


def _can_have(batch: RecordBatch, times_us: Interval) -> bool:
    stamps = np.asarray(batch.timestamps)
    if stamps.max() > I64_MAX:  # Spark sees other numbers than the log has
        return True
    first, last = int(stamps.min()) // US_NS, int(stamps.max()) // US_NS
    is_behind = times_us.start is None or last >= times_us.start
    return is_behind and (times_us.end is None or first < times_us.end)


def _bytes_of(batch: RecordBatch) -> int:
    return int(batch.lengths[-1]) + int(batch.offsets[-1]) - int(batch.offsets[0])
