"""The reading part of the interface of a store: Protocols for programs that only read.

A store open for writing (`lakebed.store.store.Store`), one opened read-only
(`lakebed.store.read_only.ReadOnlyStore`) and a remote one (`lakebed.client.store.RemoteStore`) all
implement `ReadableStore`. Nothing here creates a topic or a log.
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


class ReadableGroup(Protocol):
    """A consumer group of a topic. Thread-safe."""

    @property
    def name(self) -> str: ...

    def lag(self) -> dict[int, int]:
        """The number of unsettled messages, by partition."""

    def describe(self) -> dict[int, GroupPartition]:
        """The state of the group, by partition."""


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

    def group(self, name: str) -> ReadableGroup:
        """Returns one of `groups`."""

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
    def is_enabled(self) -> bool | None:
        """Whether records are kept; None if that is not known."""

    @property
    def damage(self) -> str | None:
        """What is wrong with the log's `log.json`."""

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
        """Returns another byte range of the same version."""

    def read(self) -> bytes:
        """Reads all of it into memory."""


class ReadableBucket(Protocol):
    """A bucket of objects. Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def info(self) -> BucketInfo: ...

    def get(
        self, key: str, *, version_id: str | None = None, byte_range: ByteRange | None = None
    ) -> StoredObject:
        """Opens an object to be read in pieces: `for piece in bucket.get(key): …`."""

    def read(self, key: str, *, version_id: str | None = None) -> bytes:
        """Reads a whole object into memory."""

    def head(self, key: str, *, version_id: str | None = None) -> ObjectInfo:
        """Returns the properties of an object without its data."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[VersionRow]:
        """Iterates over the objects whose keys begin with `prefix`, in key order."""

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", max_keys: int = 1000
    ) -> Page[VersionRow]:
        """Lists one page: up to `max_keys` objects (at most 1,000) and common prefixes."""

    def versions(self, prefix: str = "") -> Iterator[ListedVersion]:
        """Iterates over all versions and delete markers, by key, newest first."""

    def version_page(
        self,
        prefix: str = "",
        *,
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str | None = None,
        max_keys: int = 1000,
    ) -> Page[ListedVersion]:
        """Lists one page of versions and delete markers, and common prefixes.

        The markers are `next_marker` and `next_id` of the page before.
        """


class ReadableAccessKeys(Protocol):
    """The access keys of a store. Thread-safe."""

    def list(self) -> builtins.list[KeyInfo]:
        """Lists all access keys, oldest first."""

    def get(self, access_key: str) -> KeyInfo:
        """Returns one access key. `NoSuchAccessKey` if there is none."""


class ReadableDamage(Protocol):
    """The record of data that was lost. Thread-safe."""

    def ledger(self) -> Ledger:
        """Returns the whole record."""


class Verification(Protocol):
    """Finds damage and changes nothing. Thread-safe."""

    def verify_log(
        self, log: str, *, tier2: bool = False, progress: Progress = no_progress
    ) -> LogReport:
        """Verifies every checksum of a log; with `tier2` those of its objects as well."""

    def verify_manifest(self, log: str, *, progress: Progress = no_progress) -> ManifestReport:
        """Verifies a manifest log and compares it with the segments and their copies."""

    def verify_topic(self, topic: str, *, progress: Progress = no_progress) -> TopicReport: ...

    def verify_objects(
        self, *, bucket: str | None = None, prefix: str = "", progress: Progress = no_progress
    ) -> LakeReport:
        """Verifies all objects, or those of a bucket whose keys begin with `prefix`.

        `progress` is called with the bytes read so far; the total is not known and passed as 0.
        """

    def verify_store(self, *, tier2: bool = True, progress: Progress = no_progress) -> StoreReport:
        """Verifies all logs, topics, groups and objects; with `tier2` the logs' objects as well."""


class ReadableStore(Protocol):
    """A store that can be read. Thread-safe."""

    @property
    def root(self) -> str:
        """The path of the root, as seen by the process that has the store open."""

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
        """Summarises a topic by its files, without opening it. `NotFound` if there is none."""

    def dead_letters(
        self, topic: str, group: str, *, max_messages: int | None = None
    ) -> list[DeadLetter]:
        """Lists the oldest dead letters of a group that were not sent back."""

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

    def log_summary(self, name: str) -> LogSummary:
        """Summarises a log by its files, without reading its sealed records."""

    def tier2_of(self, log: str) -> str:
        """Where the Tier 2 of a log is: a URL, or a folder of the store."""

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Does for logs what `plan_topics` does for topics."""

    def manifest_log(self, name: str) -> ReadableManifestLog | None:
        """Returns the recorded history of a log's segments; None if the log never had a manifest
        log.

        `name` is the name of the log or its stream id. `NotFound` if there is none.
        """

    def buckets(self) -> list[BucketInfo]:
        """Lists all buckets, by name."""

    def open_bucket(self, name: str) -> ReadableBucket:
        """Returns the bucket of that name. `NoSuchBucket` if there is none."""

    def close(self) -> None:
        """Closes the store. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


if TYPE_CHECKING:
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.store import Store

    # The types of what these two hand out are compared, too, down to partitions and pins.
    _READABLE: tuple[type[ReadableStore], ...] = (Store, ReadOnlyStore)
