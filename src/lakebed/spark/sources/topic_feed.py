"""Reads topics for Spark, by partition. Positions are offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from lakebed.api.read_surface import ReadableStore, ReadableTopic
from lakebed.base.errors import InputError
from lakebed.base.units import shown
from lakebed.keratin.backlog import bytes_of
from lakebed.keratin.message_batch import MessageBatch
from lakebed.spark.arrow import messages
from lakebed.spark.filters import Interval
from lakebed.spark.sources.feed import FeedState, Lane, LaneRange, Rows
from lakebed.store.read_plan import PlannedRead, TopicRange, WantedRead

_US_PER_MS = 1000

Value = TypeVar("Value")


class TopicFeed:
    """Reads the topics of one open store; implements `Feed`."""

    is_cut_anywhere = True

    def __init__(self, store: ReadableStore, batch_bytes_max: int | None = None) -> None:
        self.store = store
        self._batch_bytes_max = batch_bytes_max
        self._topics: dict[str, ReadableTopic] = {}

    def names(self) -> Sequence[str]:
        return self.store.topics.names()

    def state(self, name: str) -> FeedState:
        self._topics[name] = topic = self.store.topics.open(name)
        return FeedState(topic.topic_id, _by_lane(name, topic.bounds()))

    def base(self, lane: Lane, position: int) -> int | None:  # noqa: ARG002 - see Feed
        return None

    def follows(self, lane: Lane, position: int, base: int) -> bool:  # noqa: ARG002 - see Feed
        return False

    def at_time(self, name: str, moment_us: int) -> Mapping[Lane, int]:
        if moment_us <= 0:
            return {lane: bounds.start for lane, bounds in self.state(name).bounds.items()}
        timestamp_ms = -(-moment_us // _US_PER_MS)
        return _by_lane(name, self._topic(name).offsets_for_time(timestamp_ms))

    def row_count(self, lane: Lane, start: int, end: int) -> int | None:  # noqa: ARG002 - see Feed
        return end - start

    def advanced(
        self, ranges: Sequence[LaneRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        topic_ranges = [TopicRange(*lane, start, end) for lane, start, end in ranges]
        return self.store.topics.advance(topic_ranges, max_messages=rows_max, max_bytes=bytes_max)

    def parse(self, value: object) -> int:
        if type(value) is not int or value < 0:
            raise InputError(
                f"{shown(value)} is not an offset: it must be a whole number of at least 0"
            )
        return value

    def label(self, lane: Lane) -> str:
        return f"{lane.name}, partition {lane.number}"

    def shown(self, position: int) -> str:
        return str(position)

    def plan(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        return self.store.plan_topics(reads, duration_ms=duration_ms, owner=owner)

    def read(
        self, lane: Lane, start: int, end: int, *, columns: Sequence[str], times_us: Interval
    ) -> Iterator[Rows]:
        sizes = _Sizes()
        partition = self._topic(lane.name).partition(lane.number)
        batches = partition.read_batches(start, end, batch_bytes_max=self._batch_bytes_max)
        counted = sizes.counted(batches, times_us)
        for batch in messages.record_batches(
            counted, topic=lane.name, partition=lane.number, columns=columns
        ):
            yield Rows(batch, sizes.take())
        yield Rows(None, sizes.take())

    def _topic(self, name: str) -> ReadableTopic:
        """Returns the topic as `state` last opened it. Opens it if it was never opened."""
        if name not in self._topics:
            self.state(name)
        return self._topics[name]


def _by_lane(name: str, values: Sequence[Value]) -> dict[Lane, Value]:
    return {Lane(name, number): value for number, value in enumerate(values)}


class _Sizes:
    """Drops batches that cannot have a message in the time range, and counts the bytes of all
    batches.
    """

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
    is_after_start = times_us.start is None or last >= times_us.start
    return is_after_start and (times_us.end is None or first < times_us.end)
