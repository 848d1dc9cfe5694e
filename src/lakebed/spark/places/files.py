"""Topics, logs and manifest logs in files: read beside their writer, up to what is durable.

Only pins are written.

A topic or a log that was deleted and made again under its name is opened anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from lakebed.aof.batch import RecordBatch
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import Clock
from lakebed.keratin.message_batch import MessageBatch
from lakebed.store.manifest_logs import ManifestLog
from lakebed.store.pins import Pins
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.read_only_topic import ReadOnlyTopic
from lakebed.store.read_plan import PlannedRead, TopicRange, WantedRead
from lakebed.store.read_planner import LogSource, TopicSource, log_index, topic_index
from lakebed.store.split_points import Bounds, Mark


class FilesTopic:
    """An `OpenTopic` of files."""

    def __init__(self, store: ReadOnlyStore, topic: ReadOnlyTopic) -> None:
        self._store = store
        self._topic = topic
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.partition_count = topic.partition_count

    def bounds(self) -> list[Bounds]:
        return self._topic.bounds()

    def marks(self, partition: int, start: int, end: int) -> list[Mark]:
        source = TopicSource(self._topic, partial(topic_index, self._store.disk))
        return source.marks(partition, start, end)

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        return self._topic.offsets_for_time(timestamp_ms)

    def read_batches(self, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        return self._topic.partition(partition).read_batches(start, end)


class FilesLog:
    """An `OpenLog` of files, in any tier."""

    def __init__(self, store: ReadOnlyStore, log: ReadOnlyLog) -> None:
        self._log = log
        self._source = LogSource(log, partial(log_index, store.disk))
        self.name = log.name
        self.log_id = self._source.identity

    def bounds(self) -> Bounds:
        return self._source.bounds(0)

    def bases(self) -> dict[int, int]:
        return {info.segment_id: info.base_offset for info in self._log.segments_and_end()[0]}

    def marks(self, start: int, end: int) -> list[Mark]:
        return self._source.marks(0, start, end)

    def position_for_time(self, timestamp_ns: int) -> int:
        return int(self._log.seek_timestamp(timestamp_ns))

    def read_batches(self, start: int, end: int) -> Iterator[RecordBatch]:
        return self._log.read_batches(RecordId(start), RecordId(end))


class FilesStore:
    """An `OpenStore` of a root."""

    def __init__(self, store: ReadOnlyStore) -> None:
        """Closes the store with itself."""
        self._store = store

    @property
    def clock(self) -> Clock:
        return self._store.runner.clock

    @property
    def pins(self) -> Pins:
        return self._store.pins

    def topics(self) -> Sequence[str]:
        return self._store.topics.names()

    def topic(self, name: str) -> FilesTopic:
        return FilesTopic(self._store, self._store.topics.open(name))

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        return self._store.plan_topics(reads, duration_ms=duration_ms, owner=owner)

    def advance_topics(
        self, ranges: Sequence[TopicRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        return self._store.topics.advance(ranges, messages_max=rows_max, bytes_max=bytes_max)

    def logs(self) -> Sequence[str]:
        return self._store.logs()

    def log(self, name: str) -> FilesLog:
        return FilesLog(self._store, self._store.log(name))

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        return self._store.plan_logs(reads, duration_ms=duration_ms, owner=owner)

    def manifest(self, log: str) -> ManifestLog | None:
        return self._store.manifest_log(log)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> FilesStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
