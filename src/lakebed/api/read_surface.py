"""The reading part of the interface of a store: Protocols for programs that only read.

A store open for writing (`lakebed.store.store.Store`), one opened read-only
(`lakebed.store.read_only.ReadOnlyStore`) and a remote one (`lakebed.client.store.RemoteStore`) all
implement `ReadableStore`. Nothing here creates a topic or a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self

from lakebed.aof.follower import RecordIterator
from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.damage import OnSkipped
from lakebed.keratin.follower import MessageIterator
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.reader import FetchedRecords
from lakebed.keratin.view import PartitionSegment
from lakebed.store.pin_file import Pin
from lakebed.store.read_plan import PlannedRead, TopicRange, WantedRead
from lakebed.store.split_points import Bounds
from lakebed.store.topic_follower import FollowedPartition


class ReadablePartition(Protocol):
    """A partition that can be read. Thread-safe; each iterator is for one thread."""

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...

    def segments(self) -> Sequence[PartitionSegment]:
        """Lists the segments, oldest first."""

    def start_offset(self) -> int:
        """The offset of the first message that can be read."""

    def high_watermark(self) -> int:
        """The offset after the last durable message."""

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Waits until the high watermark is beyond `offset`; False after `timeout` seconds."""

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """Iterates over the messages from an offset on."""

    def read_batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[MessageBatch]:
        """Iterates over the messages of `[start, end)` in columnar batches; over all by default.

        Raises `OffsetOutOfRange` at once if `start` is no longer there.
        """

    def read(
        self, start: int | None = None, end: int | None = None, *, skip_damage: bool = False
    ) -> Iterator[Message]:
        """Iterates over the messages of `[start, end)`."""

    def follow(self, start: int | None = None) -> MessageIterator:
        """Iterates over the messages from `start` on and waits for new ones."""

    def fetch(self, offset: int, *, max_bytes: int) -> FetchedRecords:
        """Returns raw records from an offset on, as stored in the log."""

    def get(self, offset: int) -> Message: ...

    def offset_for_time(self, timestamp_ms: int) -> int:
        """The first offset at or after a time; the high watermark if there is none."""


class MessageFollower(Protocol):
    """Follows several partitions of a topic. For one thread."""

    @property
    def positions(self) -> dict[int, int]:
        """The offset after the last returned message, by partition."""

    def next_batch(self, timeout: float | None = None) -> FollowedPartition | None:
        """Waits for the next messages; None if `timeout` seconds pass first."""

    def close(self) -> None:
        """Stops following. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class ReadableTopic(Protocol):
    """A topic that can be read. Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> str:
        """Identifies the topic: changes if it is deleted and created again.

        Empty if the server is of an older release that does not report it.
        """

    @property
    def config(self) -> TopicConfig: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def partitions(self) -> Sequence[ReadablePartition]: ...

    def partition(self, number: int) -> ReadablePartition:
        """Returns one partition. `NotFound` if there is none with that number."""

    def bounds(self) -> list[Bounds]:
        """The readable offsets of each partition when the topic was opened, or later."""

    def follow(self, starts: Mapping[int, int] | None = None) -> MessageFollower:
        """Follows all partitions, waiting for new messages.

        `starts` maps the partitions to follow to their first offsets; by default all partitions are
        followed from their oldest messages.
        """

    def groups(self) -> list[str]:
        """The names of its consumer groups."""

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """For every partition, the first offset at or after a time, or its end."""


class ReadableTopics(Protocol):
    """The topics of a store, for reading. Thread-safe."""

    def names(self) -> list[str]: ...

    def open(self, name: str) -> ReadableTopic:
        """Opens a topic as it is now. `NotFound` if there is none."""

    def advance(
        self, ranges: Sequence[TopicRange], *, max_messages: int | None, max_bytes: int | None
    ) -> list[int]:
        """Computes where to stop in each range so that event time advances evenly across them."""


class ReadableLog(Protocol):
    """A log that can be read. Thread-safe; each iterator is for one thread."""

    @property
    def name(self) -> str: ...

    @property
    def stream_id(self) -> int | None:
        """Identifies the log: changes if it is deleted and created again.

        None if it is not recorded.
        """

    def get(self, record_id: RecordId) -> Record:
        """Reads one record. `NotFound` if no durable record has that id."""

    def read(self, start: RecordId | None = None, end: RecordId | None = None) -> Iterator[Record]:
        """Iterates over the durable records of `[start, end)`, oldest first."""

    def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
    ) -> Iterator[RecordBatch]:
        """Iterates over them in columnar batches. `NotFound` if `start` is no longer there."""

    def read_backward(self, start: RecordId | None = None) -> Iterator[Record]:
        """Iterates over the durable records before `start`, newest first."""

    def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """The position of the first record that is not older; the durable end if there is none."""

    def follow(self, start: RecordId | None = None) -> RecordIterator:
        """Iterates over the records from `start` (or the oldest) on and waits for new ones."""

    def segments(self) -> Sequence[SegmentInfo]: ...

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """Returns all current segments and the durable end, which they contain."""

    def durable_end(self) -> RecordId: ...

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Waits until the durable end is beyond `position`; False after `timeout` seconds."""


class ReadableManifestLog(Protocol):
    """A manifest log, read with the engine's own reader."""

    @property
    def log(self) -> str: ...

    @property
    def stream(self) -> str: ...

    @property
    def reader(self) -> ManifestReader: ...

    def files(self) -> list[ManifestFile]:
        """Lists its current chunks and snapshots."""


class ReadPins(Protocol):
    """Pins protect ranges from retention while they are read. Thread-safe."""

    def pin(
        self, log: str, *, segment_start: int, segment_end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pins segments of a log: `[segment_start, segment_end)`."""

    def pin_offsets(
        self, topic: str, partition: int, *, start: int, end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pins offsets of a partition: `[start, end)`."""

    def renew(self, pin_id: str, *, duration_ms: int) -> Pin:
        """Extends a pin to `duration_ms` from now."""

    def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]:
        """Extends pins to about `duration_ms` from now; returns the ids of those that still
        existed.
        """

    def release(self, pin_id: str) -> None:
        """Removes a pin."""

    def release_all(self, pin_ids: Iterable[str]) -> None:
        """Removes pins as far as possible; any that remain expire."""

    def active(self) -> list[Pin]:
        """Lists the pins of logs that have not expired."""

    def active_offsets(self) -> list[Pin]:
        """Lists the pins of topics that have not expired."""


class ReadableStore(Protocol):
    """A store that can be read. Thread-safe."""

    @property
    def topics(self) -> ReadableTopics: ...

    @property
    def pins(self) -> ReadPins: ...

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolves a read of topics, pins it unless `duration_ms` is 0, and lists its split points.

        One call covers any number of topics.
        """

    def logs(self) -> list[str]:
        """The names of all logs."""

    def open_log(self, name: str) -> ReadableLog:
        """Opens a log as it is now. `NotFound` if there is none."""

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Does for logs what `plan_topics` does for topics."""

    def manifest_log(self, name: str) -> ReadableManifestLog | None:
        """Returns the recorded history of a log's segments; None if the log never had a manifest
        log.

        `name` is the name of the log or its stream id. `NotFound` if there is none.
        """

    def close(self) -> None:
        """Closes the store. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


if TYPE_CHECKING:
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.store import Store

    # The types of what these two hand out are compared, too, down to partitions and pins.
    _READABLE: tuple[type[ReadableStore], ...] = (Store, ReadOnlyStore)
