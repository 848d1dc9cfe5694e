"""Topics, logs and manifest logs in files: read beside their writer, up to what is durable.

Only pins are written.

A topic or a log that was deleted and made again under its name is opened anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lakebed.aof.batch import RecordBatch
from lakebed.aof.identity import load_identity as load_log_identity
from lakebed.aof.paths import LogPaths
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.reader import LogReader
from lakebed.aof.record_id import RecordId
from lakebed.aof.sparse_index import load_index as load_log_index
from lakebed.aof.view import SegmentInfo as LogSegmentInfo
from lakebed.api.planner import Readable, ReadableLog, ReadableTopic, plan_reads
from lakebed.api.plans import Bounds, Mark, PlannedRead, WantedRead
from lakebed.api.topics import TopicRange
from lakebed.base.clock import Clock
from lakebed.base.errors import LakebedError, NotFound
from lakebed.keratin.backlog import PartitionRange, advance_partitions
from lakebed.keratin.index_file import load_index
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.paths import SegmentFile, TopicPaths
from lakebed.keratin.view import SegmentInfo
from lakebed.store.logs import require_log
from lakebed.store.manifest_logs import ManifestLog
from lakebed.store.pins import Pins
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.read_only_topic import ReadOnlyTopic, require_topic


class FilesTopic:
    """An `OpenTopic` of files."""

    def __init__(self, store: ReadOnlyStore, topic: ReadOnlyTopic) -> None:
        self._store = store
        self._topic = topic
        self.name = topic.name
        self.topic_id = topic.identity.topic_id
        self.partition_count = topic.partition_count
        self.readable = ReadableTopic(self.name, self.topic_id, topic.partitions, self._index)

    def bounds(self) -> list[Bounds]:
        return list(map(self.readable.bounds, range(self.partition_count)))

    def marks(self, partition: int, start: int, end: int) -> list[Mark]:
        return self.readable.marks(partition, start, end)

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        return [each.offset_for_time(timestamp_ms) for each in self._topic.partitions]

    def read_batches(self, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        return self._topic.partition(partition).read_batches(start, end)

    def range(self, wanted: TopicRange) -> PartitionRange:
        return PartitionRange(self._topic.partition(wanted.partition), wanted.start, wanted.end)

    def close(self) -> None:
        self._topic.close()

    def _index(self, info: SegmentInfo) -> list[tuple[int, int]]:
        """What the index tells; nothing if there is no good one."""
        path = info.path.removesuffix(SegmentFile.LOG.value) + SegmentFile.INDEX.value
        try:
            entries = load_index(self._store.disk, path, base_offset=info.base_offset)
        except LakebedError:
            return []
        return [(info.base_offset + entry.relative_offset, entry.position) for entry in entries]


class FilesLog:
    """An `OpenLog` of files, in any tier."""

    def __init__(self, store: ReadOnlyStore, name: str, log_id: str) -> None:
        self._store = store
        self._log = ReadOnlyLog(
            store.root, name, disk=store.disk, runner=store.runner, services=store.tiers
        )
        self._reader = LogReader(self._log)
        self.name = name
        self.log_id = log_id
        self.readable = ReadableLog(
            name, log_id, self._look, self._reader.seek_timestamp, self._index
        )

    def bounds(self) -> Bounds:
        return self.readable.bounds(0)

    def bases(self) -> dict[int, int]:
        return {info.segment_id: info.base_offset for info in self._look()[0]}

    def marks(self, start: int, end: int) -> list[Mark]:
        return self.readable.marks(0, start, end)

    def position_for_time(self, timestamp_ns: int) -> int:
        return int(self._reader.seek_timestamp(timestamp_ns))

    def read_batches(self, start: int, end: int) -> Iterator[RecordBatch]:
        return self._reader.read_batches(RecordId(start), RecordId(end))

    def close(self) -> None:
        self._reader.close()
        self._log.close()

    def _look(self) -> tuple[Sequence[LogSegmentInfo], RecordId]:
        # The end first: the segments that are listed after it contain it.
        durable_end = self._log.durable_end()
        self._log.refresh()
        return self._log.segments(), durable_end

    def _index(self, info: LogSegmentInfo) -> list[int]:
        """A segment that is elsewhere, or not sealed, has none."""
        if info.tier or not info.is_sealed:
            return []
        entries = load_log_index(self._store.disk, info.path, segment_id=info.segment_id)
        return [entry.offset for entry in entries]


class _Opened(NamedTuple):
    topics: dict[str, FilesTopic]
    logs: dict[str, FilesLog]


class FilesStore:
    """An `OpenStore` of a root."""

    def __init__(self, store: ReadOnlyStore) -> None:
        """Closes the store with itself."""
        self._store = store
        self._opened = _Opened({}, {})

    @property
    def clock(self) -> Clock:
        return self._store.runner.clock

    @property
    def pins(self) -> Pins:
        return self._store.pins

    def topics(self) -> Sequence[str]:
        return self._store.topics.names()

    def topic(self, name: str) -> FilesTopic:
        store, known = self._store, self._opened.topics.get(name)
        identity = require_topic(store.disk, TopicPaths(store.root, name))
        if known is not None:
            now = (identity.topic_id, identity.partition_count)
            if now == (known.topic_id, known.partition_count):
                return known
            known.close()
        topic = ReadOnlyTopic(
            store.root,
            name,
            disk=store.disk,
            runner=store.runner,
            group_config=store.group_config,
        )
        self._opened.topics[name] = FilesTopic(store, topic)
        return self._opened.topics[name]

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        opened = {read.name: self.topic(read.name).readable for read in reads}
        return self._plan(opened, reads, duration_ms, owner)

    def advance_topics(
        self, ranges: Sequence[TopicRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        return advance_partitions(
            [self.topic(each.topic).range(each) for each in ranges],
            messages_max=rows_max,
            bytes_max=bytes_max,
        )

    def logs(self) -> Sequence[str]:
        return self._store.logs()

    def log(self, name: str) -> FilesLog:
        store, known = self._store, self._opened.logs.get(name)
        require_log(store.disk, store.root, name)
        log_id = self._log_id(name)
        if known is not None:
            if known.log_id == log_id:
                return known
            known.close()
        self._opened.logs[name] = FilesLog(store, name, log_id)
        return self._opened.logs[name]

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        opened = {read.name: self.log(read.name).readable for read in reads}
        return self._plan(opened, reads, duration_ms, owner)

    def manifest(self, log: str) -> ManifestLog | None:
        return self._store.manifest_log(log)

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._store.close)
            for topic in self._opened.topics.values():
                stack.callback(topic.close)
            for log in self._opened.logs.values():
                stack.callback(log.close)
            self._opened.topics.clear()
            self._opened.logs.clear()

    def __enter__(self) -> FilesStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plan(
        self,
        opened: Mapping[str, Readable],
        reads: Sequence[WantedRead],
        duration_ms: int,
        owner: str,
    ) -> list[PlannedRead]:
        wanted = [(opened[read.name], read) for read in reads]
        return plan_reads(wanted, pins=self.pins, duration_ms=duration_ms, owner=owner)

    def _log_id(self, name: str) -> str:
        try:
            return load_log_identity(self._store.disk, LogPaths(self._store.root, name)).stream
        except NotFound:
            return ""
