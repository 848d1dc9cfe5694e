"""Partitions of topics as lanes: positions are offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lakebed.api.topics import TopicRange
from lakebed.base.errors import InputError
from lakebed.base.units import shown
from lakebed.keratin.backlog import bytes_of
from lakebed.keratin.message_batch import MessageBatch
from lakebed.spark.arrow import messages
from lakebed.spark.filters import Interval
from lakebed.spark.places.protocol import Bounds, Mark, OpenStore, OpenTopic
from lakebed.spark.sources.feed import Lane, LaneRange, Rows

_US_PER_MS = 1000


class TopicFeed:
    """A `Feed` of topics."""

    is_cut_anywhere = True

    def __init__(self, store: OpenStore) -> None:
        self.store = store

    def names(self) -> Sequence[str]:
        return self.store.topics()

    def identity(self, name: str) -> str:
        return self._topic(name).topic_id

    def lanes(self, name: str) -> Sequence[Lane]:
        return [Lane(name, number) for number in range(self._topic(name).partition_count)]

    def bounds(self, lane: Lane) -> Bounds:
        return self._topic(lane.name).bounds(lane.number)

    def base(self, lane: Lane, position: int) -> int | None:  # noqa: ARG002 - see Feed
        return None

    def follows(self, lane: Lane, position: int, base: int) -> bool:  # noqa: ARG002 - see Feed
        return False

    def marks(self, lane: Lane, start: int, end: int) -> list[Mark]:
        return self._topic(lane.name).marks(lane.number, start, end)

    def at_time(self, lane: Lane, moment_us: int) -> int:
        if moment_us <= 0:
            return self.bounds(lane).start
        timestamp_ms = -(-moment_us // _US_PER_MS)
        return self._topic(lane.name).offset_for_time(lane.number, timestamp_ms)

    def row_count(self, lane: Lane, start: int, end: int) -> int | None:  # noqa: ARG002 - see Feed
        return end - start

    def advanced(
        self, ranges: Sequence[LaneRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        wanted = [TopicRange(*lane, start, end) for lane, start, end in ranges]
        return self.store.advance_topics(wanted, rows_max=rows_max, bytes_max=bytes_max)

    def parse(self, value: object) -> int:
        if type(value) is not int or value < 0:
            raise InputError(f"{shown(value)} is no offset")
        return value

    def shown(self, position: int) -> str:
        return str(position)

    def pin(self, lane: Lane, start: int, end: int, *, duration_ms: int, owner: str) -> str:
        return self.store.pins.pin_offsets(
            lane.name, lane.number, start=start, end=end, duration_ms=duration_ms, owner=owner
        ).pin_id

    def read(
        self, lane: Lane, start: int, end: int, *, columns: Sequence[str], times_us: Interval
    ) -> Iterator[Rows]:
        sizes = _Sizes()
        batches = self._topic(lane.name).read_batches(lane.number, start, end)
        wanted = sizes.counted(batches, times_us)
        for found in messages.record_batches(
            wanted, topic=lane.name, partition=lane.number, columns=columns
        ):
            yield Rows(found, sizes.take())
        yield Rows(None, sizes.take())

    def _topic(self, name: str) -> OpenTopic:
        return self.store.topic(name)


class _Sizes:
    """Counts what passes by; leaves out what has no message of the wanted times."""

    def __init__(self) -> None:
        self._size = 0

    def take(self) -> int:
        size, self._size = self._size, 0
        return size

    def counted(
        self, batches: Iterator[MessageBatch], times_us: Interval
    ) -> Iterator[MessageBatch]:
        is_narrow = times_us != Interval()
        for batch in batches:
            self._size += bytes_of(batch)
            if not is_narrow or _can_have(batch, times_us):
                yield batch


def _can_have(batch: MessageBatch, times_us: Interval) -> bool:
    stamps = np.asarray(batch.timestamps_ms)
    first, last = int(stamps.min()) * _US_PER_MS, int(stamps.max()) * _US_PER_MS
    is_behind = times_us.start is None or last >= times_us.start
    return is_behind and (times_us.end is None or first < times_us.end)
