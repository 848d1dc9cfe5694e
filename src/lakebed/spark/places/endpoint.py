"""Topics, logs and manifest logs behind the HTTP API: raw bytes, verified again here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.base.clock import Clock, SystemClock
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import MIB
from lakebed.client.manifest_log import RemoteManifestLog
from lakebed.client.pins import RemotePins
from lakebed.client.store import RemoteStore
from lakebed.client.topic import RemoteTopic
from lakebed.keratin.message_batch import MessageBatch
from lakebed.spark.places.endpoint_log import EndpointLog
from lakebed.store.read_plan import PlannedRead, TopicRange, WantedRead
from lakebed.store.split_points import Bounds, Mark, topic_marks

FETCH_BYTES = 8 * MIB  # of one answer: fewer round trips than a client's that follows


class EndpointTopic:
    """An `OpenTopic` of a store elsewhere."""

    def __init__(self, topic: RemoteTopic) -> None:
        self._topic = topic
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.partition_count = topic.partition_count

    def bounds(self) -> list[Bounds]:
        return self._topic.bounds()

    def marks(self, partition: int, start: int, end: int) -> list[Mark]:
        segments = self._topic.partition(partition).segments()
        return topic_marks(segments, lambda _: (), start=start, end=end)

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        return self._topic.offsets_for_time(timestamp_ms)

    def read_batches(self, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        remote = self._topic.partition(partition)
        return remote.read_batches(start, end, batch_bytes_max=FETCH_BYTES)


class EndpointStore:
    """An `OpenStore` elsewhere."""

    def __init__(self, store: RemoteStore) -> None:
        """Closes the store with itself."""
        self._store = store
        self._clock = SystemClock()
        self._runner = ThreadRunner()  # for its locks: no task is started

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def pins(self) -> RemotePins:
        return self._store.pins

    def topics(self) -> Sequence[str]:
        return self._store.topics.names()

    def topic(self, name: str) -> EndpointTopic:
        return EndpointTopic(self._store.topics.open(name))

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

    def log(self, name: str) -> EndpointLog:
        return EndpointLog(self._store.open_log(name))

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        return self._store.plan_logs(reads, duration_ms=duration_ms, owner=owner)

    def manifest(self, log: str) -> RemoteManifestLog | None:
        return self._store.manifest_log(log)

    def close(self) -> None:
        self._store.close()
        self._runner.close()

    def __enter__(self) -> EndpointStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
