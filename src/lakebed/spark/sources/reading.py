"""Reading a split, in a worker: its pieces one behind the other, each of them while it is pinned.

While a task reads, it renews the pins of the whole plan in good time: other tasks may wait for
their turn. If one is gone (the plan is used again, hours later), the task pins what it reads
itself, and looks whether that is still there.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import NotFound
from lakebed.base.events import event
from lakebed.spark.errors import DataLost
from lakebed.spark.filters import Interval
from lakebed.spark.sources.edges import lost
from lakebed.spark.sources.feed import Feed
from lakebed.spark.sources.planning import Pins, ReadPiece, Split, release
from lakebed.spark.sources.settings import Kind, ReadSettings

_RENEWALS = 3  # in the time that a pin lasts

_log = logging.getLogger(__name__)


def read_split(
    kind: Kind, settings: ReadSettings, split: object, *, times_us: Interval
) -> Iterator[pa.RecordBatch]:
    """Its rows. Spark calls for a split that is none if the plan has none: that is empty."""
    if not isinstance(split, Split):
        return
    with settings.opened(kind) as feed:
        keeping = _Keeping(feed, kind, settings, split.pins)
        try:
            for piece in split.pieces:
                yield from _PieceReading(feed, kind, settings, piece, keeping).batches(times_us)
        finally:
            keeping.end()
    spare_modules()


@cache
def spare_modules() -> None:
    """Have the collector pass over what is loaded by now, once in a process: pyspark collects after
    each task, and all the modules took longer than to read some megabytes."""
    gc.freeze()


class _Keeping:
    """Keeps what was pinned for a plan from expiring, while one of its tasks reads."""

    def __init__(self, feed: Feed, kind: Kind, settings: ReadSettings, pins: Pins) -> None:
        self._feed = feed
        self._kind = kind
        self._pin_ms = settings.pin_ms
        self._kept = set(pins.pin_ids)
        self._own: dict[ReadPiece, str] = {}  # pins in place of those that were gone
        self._renew_at_ms = pins.pinned_ms + self._pin_ms // _RENEWALS

    def keep(self, piece: ReadPiece) -> None:
        """To be called now and then; that piece is being read."""
        if not self._pin_ms:
            return
        now_ms = self._feed.store.clock.wall_ns() // NS_PER_MS
        if now_ms >= self._renew_at_ms:
            self._renew_at_ms = now_ms + self._pin_ms // _RENEWALS
            self._kept = {one for one in self._kept if self._is_renewed(one)}
        if self._own.get(piece, piece.pin_id) not in self._kept:
            self._own[piece] = pin_id = self._feed.pin(
                piece.lane,
                piece.start,
                piece.end,
                duration_ms=self._pin_ms,
                owner=f"Spark: {self._kind.source}, a task",
            )
            self._kept.add(pin_id)

    def end(self) -> None:
        release(self._feed, self._own.values())

    def _is_renewed(self, pin_id: str) -> bool:
        try:
            self._feed.store.pins.renew(pin_id, duration_ms=self._pin_ms)
        except NotFound:
            return False
        return True


class _PieceReading:
    def __init__(
        self, feed: Feed, kind: Kind, settings: ReadSettings, piece: ReadPiece, keeping: _Keeping
    ) -> None:
        self._feed = feed
        self._kind = kind
        self._settings = settings
        self._piece = piece
        self._keeping = keeping

    def batches(self, times_us: Interval) -> Iterator[pa.RecordBatch]:
        piece, row_count, size = self._piece, 0, 0
        try:
            self._keeping.keep(piece)
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
                self._keeping.keep(piece)
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
        identity, fails = feed.identity(name), self._settings.fails_on_loss
        if identity and piece.identity and identity != piece.identity:
            raise DataLost(f"{name}: it was deleted and made again since the query was planned")
        bounds = feed.bounds(piece.lane)
        if bounds.end < piece.end:
            raise DataLost(
                f"{name}, partition {piece.lane.number}: it ends at {feed.shown(bounds.end)}, and "
                f"was to be read up to {feed.shown(piece.end)}: it is not what it was"
            )
        if bounds.start > piece.start and fails:
            raise lost(feed, piece.lane, wanted=piece.start, first=bounds.start)
        return max(bounds.start, piece.start)
