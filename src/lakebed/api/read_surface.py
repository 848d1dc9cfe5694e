"""What can be read of a store: the Protocols that its embedded and its remote classes match.

A store that is open for writing (`lakebed.store.store.Store`), one that is only read
(`lakebed.store.read_only.ReadOnlyStore`) and a remote one (`lakebed.client.store.RemoteStore`) are
each a `ReadableStore`, and a program that only reads takes any of them. Nothing here creates a
topic or a log.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self

from lakebed.aof.follower import RecordIterator
from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.damage_ledger import Ledger
from lakebed.base.progress import Progress, no_progress
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.damage import OnSkipped
from lakebed.keratin.follower import MessageIterator
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.reader import FetchedRecords
from lakebed.keratin.view import PartitionSegment
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import BucketInfo, KeyInfo, ObjectInfo, Page
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.verification_report import Report as LakeReport
from lakebed.store.dead_letters import DeadLetter
from lakebed.store.log_check import LogReport
from lakebed.store.manifest_verification import ManifestReport
from lakebed.store.pin_file import Pin
from lakebed.store.read_plan import PlannedRead, TopicRange, WantedRead
from lakebed.store.split_points import Bounds
from lakebed.store.store_check import StoreReport
from lakebed.store.summary import LogSummary
from lakebed.store.topic_follower import FollowedPartition
from lakebed.store.topic_summary import TopicSummary
from lakebed.store.topic_verification import TopicReport
from lakebed.store.version import StoreVersion
from lakebed.stroma.description import GroupPartition


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


class ReadableGroup(Protocol):
    """Thread-safe."""

    @property
    def name(self) -> str: ...

    def lag(self) -> dict[int, int]:
        """How many messages are not settled, by partition."""

    def describe(self) -> dict[int, GroupPartition]:
        """By partition."""


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

    def group(self, name: str) -> ReadableGroup:
        """One of `groups`."""

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
    def is_enabled(self) -> bool | None:
        """Whether records are kept; None if that is not known."""

    @property
    def damage(self) -> str | None:
        """What is wrong with the log's `log.json`."""

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


class StoredObject(Protocol):
    """An object that is being read: `for piece in bucket.get(key)`."""

    @property
    def info(self) -> ObjectInfo: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[memoryview]: ...

    def between(self, start: int, end: int) -> StoredObject:
        """Other bytes of the same version."""

    def read(self) -> bytes:
        """All of it."""


class ReadableBucket(Protocol):
    """Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def info(self) -> BucketInfo: ...

    def get(
        self, key: str, *, version_id: str | None = None, byte_range: ByteRange | None = None
    ) -> StoredObject:
        """The object, to be read in pieces: `for piece in bucket.get(key): …`."""

    def read(self, key: str, *, version_id: str | None = None) -> bytes:
        """All of an object that fits in memory."""

    def head(self, key: str, *, version_id: str | None = None) -> ObjectInfo: ...

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[VersionRow]:
        """Objects whose keys begin with `prefix`, by key; pages are fetched as they are needed."""

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", max_keys: int = 1000
    ) -> Page[VersionRow]:
        """One page, with the common prefixes up to the delimiter; it has a thousand at most."""

    def versions(self, prefix: str = "") -> Iterator[ListedVersion]:
        """All versions and delete markers, by key, the newest first."""

    def version_page(
        self,
        prefix: str = "",
        *,
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str | None = None,
        max_keys: int = 1000,
    ) -> Page[ListedVersion]:
        """One page of all versions and delete markers after the markers of the page before it, with
        the common prefixes up to the delimiter."""


class ReadableAccessKeys(Protocol):
    """Thread-safe."""

    def list(self) -> builtins.list[KeyInfo]:
        """The oldest first."""

    def get(self, access_key: str) -> KeyInfo:
        """`NoSuchAccessKey` if there is none."""


class ReadableDamage(Protocol):
    """Thread-safe."""

    def ledger(self) -> Ledger:
        """All that is on record."""


class Verification(Protocol):
    """Finds damage and changes nothing. Thread-safe."""

    def verify_log(
        self, log: str, *, tier2: bool = False, progress: Progress = no_progress
    ) -> LogReport:
        """Read all of a log, with `tier2` its objects as well."""

    def verify_manifest(self, log: str, *, progress: Progress = no_progress) -> ManifestReport:
        """Read the manifest log of a log and compare it with the segments and their copies."""

    def verify_topic(self, topic: str, *, progress: Progress = no_progress) -> TopicReport: ...

    def verify_objects(
        self, *, bucket: str | None = None, prefix: str = "", progress: Progress = no_progress
    ) -> LakeReport:
        """Read all objects, or those of a bucket whose keys begin with `prefix`.

        `progress` gets the bytes that were read; how many there are is not known, and given as 0.
        """

    def verify_store(self, *, tier2: bool = True, progress: Progress = no_progress) -> StoreReport:
        """Read all logs, topics, groups and objects; with `tier2` the objects of logs as well."""


class ReadableStore(Protocol):
    """Thread-safe."""

    @property
    def root(self) -> str:
        """The folder, as the program that has it open calls it."""

    @property
    def version(self) -> StoreVersion | None:
        """What `store.json` says; None if there is none."""

    @property
    def damage(self) -> ReadableDamage: ...

    @property
    def keys(self) -> ReadableAccessKeys:
        """Access keys: who may use the store over TCP, and over S3."""

    @property
    def maintenance(self) -> Verification: ...

    @property
    def topics(self) -> ReadableTopics: ...

    @property
    def pins(self) -> ReadPins: ...

    def topic_summary(self, name: str) -> TopicSummary:
        """What the files of a topic report; `NotFound` if there is none."""

    def dead_letters(
        self, topic: str, group: str, *, max_messages: int | None = None
    ) -> list[DeadLetter]:
        """The oldest dead letters of a group that were not sent back, up to `max_messages`."""

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolve what is going to be read of topics, pin it unless `duration_ms` is 0, and list
        its split points: one call, however many they are."""

    def logs(self) -> list[str]:
        """The names of all logs."""

    def open_log(self, name: str) -> ReadableLog:
        """The log as it is now; `NotFound` if there is none."""

    def log_summary(self, name: str) -> LogSummary:
        """What the files of a log report, without reading its sealed records."""

    def tier2_of(self, log: str) -> str:
        """Where the Tier 2 of a log is: a URL, or a folder of the store."""

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """As `plan_topics`, of logs."""

    def manifest_log(self, name: str) -> ReadableManifestLog | None:
        """What was recorded of the log's segments; None if it never had such records.

        By the log's name, or its stream id; `NotFound` if there is none.
        """

    def buckets(self) -> list[BucketInfo]:
        """All of them, by name."""

    def open_bucket(self, name: str) -> ReadableBucket:
        """`NoSuchBucket` if there is none."""

    def close(self) -> None:
        """Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


if TYPE_CHECKING:
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.store import Store

    # The types of what these two hand out are compared, too, down to partitions and pins.
    _READABLE: tuple[type[ReadableStore], ...] = (Store, ReadOnlyStore)
