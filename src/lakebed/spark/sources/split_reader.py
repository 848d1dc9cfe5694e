"""Reads a split in a worker: its pieces one after another, while all of them are pinned.

A pin keeps retention from removing data. A running task of a batch query renews the pins of the
whole plan for a minute at a time (or for `pinSeconds`, if that is set), because other tasks may
still be waiting. So all pins of a query are gone that long after its last task, whether that
succeeded or not. If one task alone reads everything under a pin, it releases the pin when it has
succeeded. The pins of a stream are released when its micro-batch is committed. If a pin is gone
(because a plan is used again), the task pins its own ranges again, and checks that their data still
exists.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.base.runner import ThreadRunner
from lakebed.spark.errors import DataLost
from lakebed.spark.filters import Interval
from lakebed.spark.sources.edges import lost
from lakebed.spark.sources.feed import Feed, FeedState, LaneRange, hold
from lakebed.spark.sources.settings import Kind, ReadSettings
from lakebed.spark.sources.split_plan import ReadPiece, Split, pin_ids_of, release
from lakebed.store.split_points import Bounds

_RENEWALS = 3  # how many times a pin is renewed within its duration

_log = logging.getLogger(__name__)


def read_split(
    kind: Kind, settings: ReadSettings, split: object, *, times_us: Interval
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a split. Batches without a row in `times_us` may be left out.

    If a plan is empty, Spark passes an object that is not a `Split`; that has no rows.
    """
    if not isinstance(split, Split):
        return
    with settings.opened(kind) as feed, _PinRenewal(feed, kind, settings, split) as renewal:
        states = {name: feed.state(name) for name in {piece.lane.name for piece in split.pieces}}
        for piece in split.pieces:
            state = states[piece.lane.name]
            yield from _PieceReader(feed, kind, settings, piece, state).batches(times_us)
        renewal.release()
    spare_modules()


@cache
def spare_modules() -> None:
    """Excludes all objects that exist now from garbage collection, once per process.

    pyspark runs a collection after each task; scanning all loaded modules took longer than reading
    several megabytes.
    """
    gc.freeze()


class _PinRenewal:
    """Keeps the pins of a plan from expiring while one of its tasks runs.

    A thread renews them, because the task may be blocked for a long time by the consumer of its
    rows.
    """

    def __init__(self, feed: Feed, kind: Kind, settings: ReadSettings, split: Split) -> None:
        self._pins = feed.store.pins
        self._feed = feed
        self._owner = f"Spark: {kind.source}, a task"
        self._duration_ms = settings.kept_ms
        self._releases = not settings.is_stream
        self._pieces = split.pieces
        self._pin_ids = list(split.pin_ids)
        self._own: list[str] = []  # pins that replace those that were gone
        self._runner: ThreadRunner | None = None
        self._is_begun = False  # false at the first step, when no renewal is due

    def __enter__(self) -> _PinRenewal:
        if self._duration_ms:
            self._renew()
            self._pin_missing()
            self._runner = ThreadRunner()
            self._runner.spawn("lakebed-spark-pins", self._step)
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close()
        release(self._feed, self._own)

    def release(self) -> None:
        """Releases the pins of ranges that only this task reads. Call it after all rows were read.

        Does nothing for a stream, whose pins are released by the commit.
        """
        if self._releases:
            release(self._feed, [piece.pin_id for piece in self._pieces if piece.is_whole])

    def _pin_missing(self) -> None:
        gone = [piece for piece in self._pieces if piece.pin_id not in self._pin_ids]
        if gone:
            ranges = [LaneRange(piece.lane, piece.start, piece.end) for piece in gone]
            held = hold(self._feed, ranges, duration_ms=self._duration_ms, owner=self._owner)
            self._own = pin_ids_of(held)
            self._pin_ids += self._own

    def _step(self) -> int:
        # A renewal that fails is tried again before the pins expire.
        if self._is_begun:
            with contextlib.suppress(LakebedError):
                self._renew()
        self._is_begun = True
        return self._duration_ms * NS_PER_MS // _RENEWALS

    def _renew(self) -> None:
        if self._pin_ids:
            self._pin_ids = self._pins.renew_all(self._pin_ids, duration_ms=self._duration_ms)


class _PieceReader:
    def __init__(
        self, feed: Feed, kind: Kind, settings: ReadSettings, piece: ReadPiece, state: FeedState
    ) -> None:
        self._feed = feed
        self._kind = kind
        self._settings = settings
        self._piece = piece
        self._state = state

    def batches(self, times_us: Interval) -> Iterator[pa.RecordBatch]:
        piece, row_count, size = self._piece, 0, 0
        try:
            start = self._checked_start()
            if start >= piece.end:
                return
            for batch, read_bytes in self._feed.read(
                piece.lane,
                start,
                piece.end,
                columns=self._settings.columns,
                times_us=times_us,
            ):
                size += read_bytes
                if batch is not None:
                    row_count += batch.num_rows
                    yield batch
        finally:
            event(
                _log,
                "spark_read",
                source=self._kind.source,
                name=piece.lane.name,
                partition=piece.lane.number,
                start=self._feed.shown(piece.start),
                end=self._feed.shown(piece.end),
                rows=row_count,
                bytes=size,
            )

    def _checked_start(self) -> int:
        """Returns the position at which to start reading.

        Raises `DataLost` if the topic or log was replaced, or ends before the end of the range. If
        the start of the range was removed, raises `DataLost` too, or with failOnDataLoss=false
        returns the first existing position.
        """
        feed, piece, name = self._feed, self._piece, self._piece.lane.name
        identity, fails = self._state.identity, self._settings.fails_on_loss
        if identity and piece.identity and identity != piece.identity:
            raise DataLost(
                f"{name}: it was deleted and created again after the query was planned; "
                "run the query again"
            )
        bounds = self._state.bounds.get(piece.lane, Bounds(0, 0))
        if bounds.end < piece.end:
            raise DataLost(
                f"{feed.label(piece.lane)}: it ends at "
                f"{feed.shown(bounds.end)}, before the planned end {feed.shown(piece.end)} of the "
                "read: it was replaced, or restored from a backup, after the read was "
                "planned; run the query again, or start the stream with a new checkpoint"
            )
        if bounds.start > piece.start and fails:
            raise lost(feed, piece.lane, requested=piece.start, first=bounds.start)
        return max(bounds.start, piece.start)
