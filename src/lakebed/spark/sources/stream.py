"""Streaming reads of topics and logs: how far each micro-batch goes, and what is pinned for it.

A lane is a partition of a topic, or a log. The reader runs in one process for as long as the query,
with the store open; tasks open the store themselves. The data of a micro-batch is pinned when it is
planned, so that retention keeps it. The pins are released when Spark has committed the micro-batch
or requests the next one. If the query ends before that, the pins stay until they expire, and a
restart reads the micro-batch again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from lakebed.base.errors import NotFound
from lakebed.kernels.arguments import I64_MAX
from lakebed.spark.errors import DataLost
from lakebed.spark.filters import Interval
from lakebed.spark.sources.edges import lost
from lakebed.spark.sources.feed import Feed, FeedState, Lane, LaneRange, feed_states
from lakebed.spark.sources.progress import Progress, decode_progress, encode_progress
from lakebed.spark.sources.settings import Kind, ReadSettings, all_feed_states
from lakebed.spark.sources.split_plan import Portion, Split, plan, release
from lakebed.spark.sources.split_reader import read_split


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream that reads topics or logs.

    It opens the store only when it is used, because Spark sends a copy to the workers for `read`.
    """

    kind: ClassVar[Kind]

    def __init__(self, settings: ReadSettings) -> None:
        self.settings = settings
        self._opened: Feed | None = None
        self._target: Progress | None = None  # where a query with the trigger AvailableNow ends
        self._pinned: list[
            tuple[Mapping[str, Any], Sequence[str]]
        ] = []  # end of a micro-batch, and its pins

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - names given by Spark
        feed, start = self._feed(), self.settings.start
        positions, now = {}, self._now()
        for name, state in now.items():
            start.check_lanes(name, state.bounds)
            for lane, at in start.positions(feed, name, state.bounds).items():
                bounds = state.bounds[lane]
                if at < bounds.start and self.settings.fails_on_loss:
                    raise lost(feed, lane, requested=at, first=bounds.start)
                positions[lane] = min(max(at, bounds.start), bounds.end)
        bases = self._bases(positions)
        return encode_progress(Progress(_identities(now), positions, bases))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns the limit of rows or, if there is none, of bytes for a micro-batch.

        If both are set, `_limits` applies the limit of bytes too.
        """
        if self.settings.rows_max is not None:
            return ReadMaxRows(self.settings.rows_max)
        if self.settings.bytes_max is not None:
            return ReadMaxBytes(self.settings.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = _latest(self._now())

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return encode_progress(_latest(self._now()))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self.commit(start)  # Spark requests more only after it has processed everything up to here
        progress, now = decode_progress(start), self._now()
        latest = _latest(now)
        starts = self._starts(progress, latest, now)
        ends = self._within_target(latest).positions
        open_lanes = [lane for lane in starts if starts[lane] < ends.get(lane, 0)]
        moved = self._moved(open_lanes, starts, ends, now)
        starts |= moved
        open_lanes = [lane for lane in open_lanes if starts[lane] < ends[lane]]
        if isinstance(limit, ReadMinRows) and self._target is None:
            counts = [self._row_count(lane, starts, ends) for lane in open_lanes]
            if sum(counts) < limit.min_rows:
                return start
        if not open_lanes and not moved:
            return start
        positions = dict(starts)
        positions |= self._limited(open_lanes, starts, ends, limit)
        return encode_progress(progress.moved(latest.identities, positions, self._bases(positions)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Split]:
        started, ended = decode_progress(start), decode_progress(end)
        portions = []
        now = self._feed_states({lane.name for lane in ended.positions})
        starts = self._starts(started, ended, now)
        for lane, stop in sorted(ended.positions.items()):
            identity = ended.identities.get(lane.name, "")
            if starts[lane] < stop and self._is_same(lane.name, identity, now.get(lane.name)):
                portions.append(Portion(lane, identity, starts[lane], stop, is_start_given=True))
        splits = plan(self._feed(), self.kind, self.settings, portions)
        pin_ids = splits[0].pin_ids if splits else ()
        self._pinned.append((end, pin_ids))
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self.kind, self.settings, partition, times_us=Interval())

    def commit(self, end: dict[str, Any]) -> None:
        """Releases the pins of all micro-batches up to the one with this end."""
        last = max((i for i, pinned in enumerate(self._pinned) if pinned[0] == end), default=-1)
        for _, pin_ids in self._pinned[: last + 1]:
            release(self._feed(), pin_ids)
        del self._pinned[: last + 1]

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.store.close()
        self._opened = None

    # How far a micro-batch goes.

    def _limited(
        self,
        lanes: Sequence[Lane],
        starts: Mapping[Lane, int],
        ends: Mapping[Lane, int],
        limit: ReadLimit,
    ) -> dict[Lane, int]:
        """Returns where the micro-batch ends in each of these partitions or logs, to stay within
        the limit.
        """
        rows_max, bytes_max = self._limits(limit)
        if rows_max is None and bytes_max is None:
            return {lane: ends[lane] for lane in lanes}
        ranges = [LaneRange(lane, starts[lane], ends[lane]) for lane in lanes]
        positions = self._feed().advanced(ranges, rows_max=rows_max, bytes_max=bytes_max)
        return dict(zip(lanes, positions, strict=True))

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """Returns the maximum numbers of rows and bytes; None means no limit.

        If Spark passes a limit of rows, the limit of bytes is taken from the settings.
        """
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows, self.settings.bytes_max
        if isinstance(limit, ReadMaxBytes):
            return None, limit.max_bytes
        return None, None

    def _row_count(self, lane: Lane, starts: Mapping[Lane, int], ends: Mapping[Lane, int]) -> int:
        count = self._feed().row_count(lane, starts[lane], ends[lane])
        return I64_MAX if count is None else count

    def _within_target(self, latest: Progress) -> Progress:
        if self._target is None:
            return latest
        target = self._target.positions
        ends = {
            lane: min(at, target[lane]) for lane, at in latest.positions.items() if lane in target
        }
        return Progress(latest.identities, ends)

    # Where lanes start and end.

    def _now(self) -> dict[str, FeedState]:
        """Returns the current states of all topics or logs of the stream.

        Raises `NotFound` if one of them does not exist.
        """
        return all_feed_states(self._feed(), self.kind, self.settings.names)

    def _feed_states(self, names: Iterable[str]) -> dict[str, FeedState]:
        """Returns the current states of those topics or logs that exist."""
        names = list(names)
        with contextlib.suppress(NotFound):
            return feed_states(self._feed(), names)
        states = {}
        for name in names:
            with contextlib.suppress(NotFound):
                states[name] = self._feed().state(name)
        return states

    def _starts(
        self, started: Progress, ended: Progress, now: Mapping[str, FeedState]
    ) -> dict[Lane, int]:
        """Returns the position in each partition or log at which a micro-batch starts.

        `started` is where the last micro-batch ended, and `ended` is where this one ends at the
        latest. Partitions and logs that are not in `started` are read from their first position. If
        a topic or log was replaced, or ends before `started`, raises `DataLost` if lost data is an
        error; otherwise it is read from its first position.
        """
        starts = {}
        for lane, end in ended.positions.items():
            before, after = (
                started.identities.get(lane.name, ""),
                ended.identities.get(lane.name, ""),
            )
            is_other = bool(before and after and before != after)
            at = started.positions.get(lane)
            if (is_other or (at is not None and at > end)) and self.settings.fails_on_loss:
                raise DataLost(
                    f"{lane.name}: it was deleted and created again after the stream's checkpoint, "
                    "or restored from an older backup; start with a new checkpoint, or set "
                    "failOnDataLoss=false to continue with what exists"
                )
            if at is None or is_other or at > end:
                at = min(_first(lane, now), end)
            starts[lane] = self._resumed(lane, at, started.bases.get(lane), _first(lane, now))
        return starts

    def _resumed(self, lane: Lane, at: int, base: int | None, first: int) -> int:
        """Returns the position at which to resume reading a partition or log.

        That is `at`, or `first`, the first existing position, if there never was data between the
        two.
        """
        if base is None or at >= first or not self._feed().follows(lane, at, base):
            return at
        return first

    def _bases(self, positions: Mapping[Lane, int]) -> dict[Lane, int]:
        bases = {lane: self._feed().base(lane, at) for lane, at in positions.items()}
        return {lane: base for lane, base in bases.items() if base is not None}

    def _moved(
        self,
        lanes: Sequence[Lane],
        starts: Mapping[Lane, int],
        ends: Mapping[Lane, int],
        now: Mapping[str, FeedState],
    ) -> dict[Lane, int]:
        """Returns where to continue in those partitions or logs whose data at `starts` was removed.

        If there are any and lost data is an error, raises `DataLost`.
        """
        feed, moved = self._feed(), {}
        for lane in lanes:
            first = _first(lane, now)
            if starts[lane] < first and self.settings.fails_on_loss:
                raise lost(feed, lane, requested=starts[lane], first=first)
            if starts[lane] < first:
                moved[lane] = min(first, ends[lane])
        return moved

    def _is_same(self, name: str, identity: str, state: FeedState | None) -> bool:
        """Returns whether the topic or log is still the one that the micro-batch was planned for.

        An unknown identity counts as the same. If it is another one, or is gone, raises `DataLost`
        if lost data is an error.
        """
        now = "gone" if state is None else state.identity
        if not identity or not now or now == identity:
            return True
        if self.settings.fails_on_loss:
            raise DataLost(
                f"{name}: it was deleted, or deleted and created again, before the stream had read "
                "it; set failOnDataLoss=false to continue with what exists"
            )
        return False

    def _feed(self) -> Feed:
        if self._opened is None:
            self._opened = self.kind.open_feed(self.settings.backend)
        return self._opened


def _identities(now: Mapping[str, FeedState]) -> dict[str, str]:
    return {name: state.identity for name, state in now.items()}


def _latest(now: Mapping[str, FeedState]) -> Progress:
    ends = {lane: bounds.end for state in now.values() for lane, bounds in state.bounds.items()}
    return Progress(_identities(now), ends)


def _first(lane: Lane, now: Mapping[str, FeedState]) -> int:
    """Returns the first existing position of a partition or log, or 0 if it no longer exists."""
    state = now.get(lane.name)
    bounds = None if state is None else state.bounds.get(lane)
    return 0 if bounds is None else bounds.start
