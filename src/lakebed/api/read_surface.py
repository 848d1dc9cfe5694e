"""What can be read of a store: the Protocols that its embedded and its remote classes match.

A store that is open for writing (`lakebed.store.store.Store`), one that is only read
(`lakebed.store.read_only.ReadOnlyStore`) and a remote one (`lakebed.client.store.RemoteStore`) are
each a `ReadableStore`, and a program that only reads takes any of them. Nothing here creates a
topic or a log.
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
    """Thread-safe; an iterator it gave belongs to one thread."""

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...

    def segments(self) -> Sequence[PartitionSegment]:
        """Oldest first."""

    def start_offset(self) -> int:
        """The first message that may be read."""

    def high_watermark(self) -> int:
        """The offset after the last durable message."""

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Until the high watermark is larger than that; False if the seconds passed first."""

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """The messages from that offset on, one by one."""

    def read_batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[MessageBatch]:
        """The messages of `[start, end)` as columns; all there are by default.

        `OffsetOutOfRange`, at once, if there is no such start any more.
        """

    def read(
        self, start: int | None = None, end: int | None = None, *, skip_damage: bool = False
    ) -> Iterator[Message]:
        """The messages of `[start, end)`, one by one."""

    def follow(self, start: int | None = None) -> MessageIterator:
        """The messages from there on, waiting for more when there are none."""

    def fetch(self, offset: int, *, max_bytes: int) -> FetchedRecords:
        """Raw records from that offset on, as they stand in the log."""

    def get(self, offset: int) -> Message: ...

    def offset_for_time(self, timestamp_ms: int) -> int:
        """The first message at or after that moment; the high watermark if there is none."""


class MessageFollower(Protocol):
    """Follows several partitions of a topic. For one thread."""

    @property
    def positions(self) -> dict[int, int]:
        """The offset after the last messages given out, by partition."""

    def next_batch(self, timeout: float | None = None) -> FollowedPartition | None:
        """The next messages; waits for one. None if the seconds passed first."""

    def close(self) -> None:
        """Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class ReadableTopic(Protocol):
    """Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> str:
        """Another one, if the topic was deleted and created again; empty if a server of an older
        release does not say."""

    @property
    def config(self) -> TopicConfig: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def partitions(self) -> Sequence[ReadablePartition]: ...

    def partition(self, number: int) -> ReadablePartition:
        """`NotFound` if there is none of that number."""

    def bounds(self) -> list[Bounds]:
        """The offsets that each partition can be read at, as of when the topic was opened or
        later."""

    def follow(self, starts: Mapping[int, int] | None = None) -> MessageFollower:
        """The messages of all partitions, waiting for more when there are none.

        `starts` are where to begin, by partition, and which of them are followed; by default all
        of them from their oldest messages on.
        """

    def groups(self) -> list[str]:
        """The names of its consumer groups."""

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """The first message of every partition at or after that moment; else where it ends."""


class ReadableTopics(Protocol):
    """Thread-safe."""

    def names(self) -> list[str]: ...

    def open(self, name: str) -> ReadableTopic:
        """The topic as it is now; `NotFound` if there is none."""

    def advance(
        self, ranges: Sequence[TopicRange], *, max_messages: int | None, max_bytes: int | None
    ) -> list[int]:
        """Where to stop in each range so that event time advances in all of them together."""


class ReadableLog(Protocol):
    """Thread-safe; an iterator it gave belongs to one thread."""

    @property
    def name(self) -> str: ...

    @property
    def stream_id(self) -> int | None:
        """Another one, if the log was deleted and created again; None if nothing says which."""

    def get(self, record_id: RecordId) -> Record: ...

    def read(self, start: RecordId | None = None, end: RecordId | None = None) -> Iterator[Record]:
        """The durable records of `[start, end)`, oldest first."""

    def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
    ) -> Iterator[RecordBatch]:
        """The same as columns, many at a time. `NotFound` if there is no such start any more."""

    def read_backward(self, start: RecordId | None = None) -> Iterator[Record]:
        """The durable records before `start`, newest first."""

    def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """Where the first record is that is not older; the durable end if there is none."""

    def follow(self, start: RecordId | None = None) -> RecordIterator:
        """Records from `start` (or the oldest) on, waiting for new ones."""

    def segments(self) -> Sequence[SegmentInfo]: ...

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """All segments as they are now, and the durable end, which they contain."""

    def durable_end(self) -> RecordId: ...

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Until the durable end is beyond `position`; False if the seconds passed first."""


class ReadableManifestLog(Protocol):
    """A manifest log, read by the engine's own reader."""

    @property
    def log(self) -> str: ...

    @property
    def stream(self) -> str: ...

    @property
    def reader(self) -> ManifestReader: ...

    def files(self) -> list[ManifestFile]:
        """Its chunks and snapshots of now."""


class ReadPins(Protocol):
    """Keep what is read from retention, for a while. Thread-safe."""

    def pin(
        self, log: str, *, segment_start: int, segment_end: int, duration_ms: int, owner: str
    ) -> Pin: ...

    def pin_offsets(
        self, topic: str, partition: int, *, start: int, end: int, duration_ms: int, owner: str
    ) -> Pin: ...

    def renew(self, pin_id: str, *, duration_ms: int) -> Pin: ...

    def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]:
        """Let them last about that long from now; which of them were there."""

    def release(self, pin_id: str) -> None: ...

    def release_all(self, pin_ids: Iterable[str]) -> None:
        """Remove them, as far as it can be done: what is left expires."""

    def active(self) -> list[Pin]: ...

    def active_offsets(self) -> list[Pin]: ...


class ReadableStore(Protocol):
    """Thread-safe."""

    @property
    def topics(self) -> ReadableTopics: ...

    @property
    def pins(self) -> ReadPins: ...

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolve what is going to be read of topics, pin it unless `duration_ms` is 0, and list
        its split points: one call, however many they are."""

    def logs(self) -> list[str]:
        """The names of all logs."""

    def open_log(self, name: str) -> ReadableLog:
        """The log as it is now; `NotFound` if there is none."""

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """As `plan_topics`, of logs."""

    def manifest_log(self, name: str) -> ReadableManifestLog | None:
        """What was recorded of the log's segments; None if it never had such records.

        By the log's name, or its stream id; `NotFound` if there is none.
        """

    def close(self) -> None:
        """Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


if TYPE_CHECKING:
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.store import Store

    # The types of what these two hand out are compared, too, down to partitions and pins.
    _READABLE: tuple[type[ReadableStore], ...] = (Store, ReadOnlyStore)
