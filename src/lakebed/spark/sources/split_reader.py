"""Reading a split, in a worker: its pieces one after the other, all of them while they are pinned.

While a task of a batch query runs, it renews the pins of the whole plan, for a minute each time:
other tasks may wait for their turn. So all pins of a query are gone a minute after its last task,
whatever ended it; a task that read all that is pinned by a pin releases it at once. The pins of a
stream are released when its micro-batch is committed. If a pin is gone (the plan is used again),
the task pins what it reads itself, and looks whether that is still there.
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

_RENEWALS = 3  # in the time that a pin lasts

_log = logging.getLogger(__name__)


def read_split(
    kind: Kind, settings: ReadSettings, split: object, *, times_us: Interval
) -> Iterator[pa.RecordBatch]:
    """Its rows. Spark calls for a split that is none if the plan has none: that is empty."""
    if not isinstance(split, Split):
        return
    with settings.opened(kind) as feed, _PinRenewal(feed, kind, settings, split) as keeping:
        looks = {name: feed.state(name) for name in {piece.lane.name for piece in split.pieces}}
        for piece in split.pieces:
            look = looks[piece.lane.name]
            yield from _PieceReader(feed, kind, settings, piece, look).batches(times_us)
        keeping.release()
    spare_modules()


@cache
def spare_modules() -> None:
    """Have the collector pass over what is loaded by now, once in a process: pyspark collects after
    each task, and all the modules took longer than to read some megabytes."""
    gc.freeze()


class _PinRenewal:
    """Keeps what was pinned for a plan from expiring while one of its tasks runs.

    A thread renews: the task itself may be held up for long by those it hands its rows to.
    """

    def __init__(self, feed: Feed, kind: Kind, settings: ReadSettings, split: Split) -> None:
        self._pins = feed.store.pins
        self._feed = feed
        self._owner = f"Spark: {kind.source}, a task"
        self._duration_ms = settings.kept_ms
        self._releases = not settings.is_stream
        self._pieces = split.pieces
        self._pin_ids = list(split.pin_ids)
        self._own: list[str] = []  # pins in place of those that were gone
        self._runner: ThreadRunner | None = None
        self._is_begun = False  # of the thread, when nothing is due yet

    def __enter__(self) -> _PinRenewal:
        if self._duration_ms:
            self._renew()
            self._pin_what_is_not()
            self._runner = ThreadRunner()
            self._runner.spawn("lakebed-spark-pins", self._step)
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close()
        release(self._feed, self._own)

    def release(self) -> None:
        """All was read: nobody else needs what only this task was to read."""
        if self._releases:
            release(self._feed, [piece.pin_id for piece in self._pieces if piece.is_whole])

    def _pin_what_is_not(self) -> None:
        gone = [piece for piece in self._pieces if piece.pin_id not in self._pin_ids]
        if gone:
            ranges = [LaneRange(piece.lane, piece.start, piece.end) for piece in gone]
            held = hold(self._feed, ranges, duration_ms=self._duration_ms, owner=self._owner)
            self._own = pin_ids_of(held)
            self._pin_ids += self._own

    def _step(self) -> int:
        # What cannot be renewed now is tried again before it expires.
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
        self, feed: Feed, kind: Kind, settings: ReadSettings, piece: ReadPiece, look: FeedState
    ) -> None:
        self._feed = feed
        self._kind = kind
        self._settings = settings
        self._piece = piece
        self._look = look

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
        """Where to read from; `DataLost` if not all of it is there any more."""
        feed, piece, name = self._feed, self._piece, self._piece.lane.name
        identity, fails = self._look.identity, self._settings.fails_on_loss
        if identity and piece.identity and identity != piece.identity:
            raise DataLost(f"{name}: it was deleted and made again since the query was planned")
        bounds = self._look.bounds.get(piece.lane, Bounds(0, 0))
        if bounds.end < piece.end:
            raise DataLost(
                f"{name}, partition {piece.lane.number}: it ends at {feed.shown(bounds.end)}, and "
                f"was to be read up to {feed.shown(piece.end)}: it is not what it was"
            )
        if bounds.start > piece.start and fails:
            raise lost(feed, piece.lane, wanted=piece.start, first=bounds.start)
        return max(bounds.start, piece.start)
