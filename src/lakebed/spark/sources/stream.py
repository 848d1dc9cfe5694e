"""A streaming read of topics or logs: how far each micro-batch goes, and what is pinned for it.

Runs in one process for as long as the query does, which has the store open; the tasks open it on
their own. A micro-batch is pinned when it is planned, and released when Spark has committed it, or
asks for what comes after it. What was not done when the query ended stays pinned until that
expires: a restart reads it again.
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
    """Plain until it is asked for something: a copy of it travels to the workers, for `read`."""

    kind: ClassVar[Kind]

    def __init__(self, settings: ReadSettings) -> None:
        self.settings = settings
        self._opened: Feed | None = None
        self._target: Progress | None = None  # of a query that takes what is there now, and ends
        self._pinned: list[tuple[Mapping[str, Any], Sequence[str]]] = []  # by the micro-batch's end

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, all of these
        feed, start = self._feed(), self.settings.start
        positions, now = {}, self._now()
        for name, look in now.items():
            start.check_lanes(name, look.bounds)
            for lane, at in start.positions(feed, name, look.bounds).items():
                bounds = look.bounds[lane]
                if at < bounds.start and self.settings.fails_on_loss:
                    raise lost(feed, lane, wanted=at, first=bounds.start)
                positions[lane] = min(max(at, bounds.start), bounds.end)
        bases = self._bases(positions)
        return encode_progress(Progress(_identities(now), positions, bases))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Rows first; bytes are kept to as well if both were asked for."""
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
        self.commit(start)  # Spark asks for more when it has done with what was up to there
        begun, now = decode_progress(start), self._now()
        latest = _latest(now)
        starts = self._starts(begun, latest, now)
        ends = self._within_target(latest).positions
        open_lanes = [lane for lane in starts if starts[lane] < ends.get(lane, 0)]
        moved = self._moved(open_lanes, starts, ends, now)
        starts |= moved
        open_lanes = [lane for lane in open_lanes if starts[lane] < ends[lane]]
        if isinstance(limit, ReadMinRows) and self._target is None:
            counts = [self._target_position(lane, starts, ends) for lane in open_lanes]
            if sum(counts) < limit.min_rows:
                return start
        if not open_lanes and not moved:
            return start
        positions = dict(starts)
        positions |= self._limited(open_lanes, starts, ends, limit)
        return encode_progress(begun.moved(latest.identities, positions, self._bases(positions)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Split]:
        begun, ended = decode_progress(start), decode_progress(end)
        portions = []
        now = self._feed_states({lane.name for lane in ended.positions})
        starts = self._starts(begun, ended, now)
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
        """Let go what was pinned up to there."""
        last = max((i for i, one in enumerate(self._pinned) if one[0] == end), default=-1)
        for _, pin_ids in self._pinned[: last + 1]:
            release(self._feed(), pin_ids)
        del self._pinned[: last + 1]

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.store.close()
        self._opened = None

    # How far.

    def _limited(
        self,
        lanes: Sequence[Lane],
        starts: Mapping[Lane, int],
        ends: Mapping[Lane, int],
        limit: ReadLimit,
    ) -> dict[Lane, int]:
        """Where the micro-batch ends, in each lane that has something."""
        rows_max, bytes_max = self._limits(limit)
        if rows_max is None and bytes_max is None:
            return {lane: ends[lane] for lane in lanes}
        ranges = [LaneRange(lane, starts[lane], ends[lane]) for lane in lanes]
        positions = self._feed().advanced(ranges, rows_max=rows_max, bytes_max=bytes_max)
        return dict(zip(lanes, positions, strict=True))

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """Rows and bytes. Spark's limit counts; of two that were asked for it knows only one."""
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows, self.settings.bytes_max
        if isinstance(limit, ReadMaxBytes):
            return None, limit.max_bytes
        return None, None

    def _target_position(
        self, lane: Lane, starts: Mapping[Lane, int], ends: Mapping[Lane, int]
    ) -> int:
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

    # Where.

    def _now(self) -> dict[str, FeedState]:
        """`NotFound` if one of them is missing."""
        return all_feed_states(self._feed(), self.kind, self.settings.names)

    def _feed_states(self, names: Iterable[str]) -> dict[str, FeedState]:
        """Those that there are."""
        names = list(names)
        with contextlib.suppress(NotFound):
            return feed_states(self._feed(), names)
        found = {}
        for name in names:
            with contextlib.suppress(NotFound):
                found[name] = self._feed().state(name)
        return found

    def _starts(
        self, begun: Progress, ended: Progress, now: Mapping[str, FeedState]
    ) -> dict[Lane, int]:
        """Where each lane is read from: lanes that are new from their beginning."""
        found = {}
        for lane, end in ended.positions.items():
            before, after = begun.identities.get(lane.name, ""), ended.identities.get(lane.name, "")
            is_other = bool(before and after and before != after)
            at = begun.positions.get(lane)
            if (is_other or (at is not None and at > end)) and self.settings.fails_on_loss:
                raise DataLost(
                    f"{lane.name}: it was deleted and made again since the stream's checkpoint; "
                    "begin a new checkpoint, or go on with what there is by failOnDataLoss=false"
                )
            if at is None or is_other or at > end:
                at = min(_first(lane, now), end)
            found[lane] = self._resumed(lane, at, begun.bases.get(lane), _first(lane, now))
        return found

    def _resumed(self, lane: Lane, at: int, base: int | None, first: int) -> int:
        """The same place, said differently, if what stood before it is all that is gone."""
        if base is None or at >= first or not self._feed().follows(lane, at, base):
            return at
        return first

    def _bases(self, positions: Mapping[Lane, int]) -> dict[Lane, int]:
        found = {lane: self._feed().base(lane, at) for lane, at in positions.items()}
        return {lane: base for lane, base in found.items() if base is not None}

    def _moved(
        self,
        lanes: Sequence[Lane],
        starts: Mapping[Lane, int],
        ends: Mapping[Lane, int],
        now: Mapping[str, FeedState],
    ) -> dict[Lane, int]:
        """Where those go on whose start is gone; `DataLost` if that is an error."""
        feed, found = self._feed(), {}
        for lane in lanes:
            first = _first(lane, now)
            if starts[lane] < first and self.settings.fails_on_loss:
                raise lost(feed, lane, wanted=starts[lane], first=first)
            if starts[lane] < first:
                found[lane] = min(first, ends[lane])
        return found

    def _is_same(self, name: str, identity: str, look: FeedState | None) -> bool:
        """Whether it is still the one that the micro-batch was made of; `DataLost` if not."""
        now = "gone" if look is None else look.identity
        if not identity or not now or now == identity:
            return True
        if self.settings.fails_on_loss:
            raise DataLost(
                f"{name}: it was deleted, or made again, before the stream had read it; "
                "go on with what there is by failOnDataLoss=false"
            )
        return False

    def _feed(self) -> Feed:
        if self._opened is None:
            self._opened = self.kind.open_feed(self.settings.backend)
        return self._opened


def _identities(now: Mapping[str, FeedState]) -> dict[str, str]:
    return {name: look.identity for name, look in now.items()}


def _latest(now: Mapping[str, FeedState]) -> Progress:
    ends = {lane: bounds.end for look in now.values() for lane, bounds in look.bounds.items()}
    return Progress(_identities(now), ends)


def _first(lane: Lane, now: Mapping[str, FeedState]) -> int:
    """Where it begins; 0 if there is no such lane any more."""
    look = now.get(lane.name)
    bounds = None if look is None else look.bounds.get(lane)
    return 0 if bounds is None else bounds.start
