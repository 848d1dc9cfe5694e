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
        """Lists the segments of the partition, oldest first."""

    def start_offset(self) -> int:
        """The first offset that can be read. There may be no message at that offset."""

    def high_watermark(self) -> int:
        """The offset after the last durable message."""

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Waits until the high watermark is beyond `offset`. Returns False if `timeout` seconds
        pass first."""

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """Iterates over the messages from `offset` to the current end, up to the given limits.

        The first message is returned whatever its size.
        """

    def read_batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[MessageBatch]:
        """Iterates over the messages of `[start, end)` in columnar batches; by default over all
        messages.

        If `start` is before the start offset or after the high watermark, the call itself raises
        `OffsetOutOfRange`, before the first batch. With `skip_damage`, skips damaged messages, and
        calls `on_skipped` for each skipped range. A remote partition does not support
        `skip_damage`, and raises `InputError`.
        """

    def read(
        self, start: int | None = None, end: int | None = None, *, skip_damage: bool = False
    ) -> Iterator[Message]:
        """Iterates over the messages of `[start, end)`, like `read_batches`, but one by one."""

    def follow(self, start: int | None = None) -> MessageIterator:
        """Iterates over the messages from `start` (by default the oldest) on, and waits for new
        messages."""

    def fetch(self, offset: int, *, max_bytes: int) -> FetchedRecords:
        """Returns the stored bytes of whole records, beginning with the record that contains
        `offset`, or else with the next one: at most `max_bytes`, but at least one record.

        Returns no bytes if there is no record at or after `offset`.
        """

    def get(self, offset: int) -> Message: ...

    def offset_for_time(self, timestamp_ms: int) -> int:
        """Returns the offset of the first message at or after a time; the high watermark if there
        is none."""


class ReadableGroup(Protocol):
    """A consumer group of a topic. Thread-safe."""

    @property
    def name(self) -> str: ...

    def lag(self) -> dict[int, int]:
        """Returns the number of messages in each partition that are neither acknowledged nor
        dead-lettered."""

    def describe(self) -> dict[int, GroupPartition]:
        """Returns the state of the group in each partition."""


class MessageFollower(Protocol):
    """Reads several partitions of a topic, and waits for new messages. For one thread."""

    @property
    def positions(self) -> dict[int, int]:
        """The offset from which each partition is read next, by partition number."""

    def next_batch(self, timeout: float | None = None) -> FollowedPartition | None:
        """Waits for the next messages, which are of one partition. Returns None if `timeout`
        seconds pass first."""

    def close(self) -> None:
        """Closes the follower, which returns no messages after that. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class ReadableTopic(Protocol):
    """A topic that can be read. Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> str:
        """An id of the topic. A topic that is deleted and created again gets a new id.

        Empty if the server is an older release that does not report the id.
        """

    @property
    def config(self) -> TopicConfig: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def partitions(self) -> Sequence[ReadablePartition]: ...

    def partition(self, number: int) -> ReadablePartition:
        """Returns the partition with that number. Raises `NotFound` if there is none."""

    def bounds(self) -> list[Bounds]:
        """Returns the range of readable offsets of each partition.

        A remote topic does not update them: it returns the ranges at the time when the topic was
        opened. Any other topic returns the current ranges.
        """

    def follow(self, starts: Mapping[int, int] | None = None) -> MessageFollower:
        """Iterates over the messages of several partitions, and waits for new messages.

        `starts` maps each partition to the offset to start at; partitions that it does not name are
        not read. By default all partitions are read from their oldest messages.
        """

    def groups(self) -> list[str]:
        """Lists the names of the topic's consumer groups."""

    def group(self, name: str) -> ReadableGroup:
        """Returns the consumer group of that name.

        If there is none, a topic of a read-only store raises `NotFound`; other topics create the
        group.
        """

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """Returns, for each partition, the offset of the first message at or after a time, or else
        the high watermark."""


class ReadableTopics(Protocol):
    """The topics of a store, for reading. Thread-safe."""

    def names(self) -> list[str]: ...

    def open(self, name: str) -> ReadableTopic:
        """Opens a topic. Raises `NotFound` if there is none."""

    def advance(
        self, ranges: Sequence[TopicRange], *, max_messages: int | None, max_bytes: int | None
    ) -> list[int]:
        """Selects the oldest messages of all ranges together, up to the limits. Returns, for each
        range, the offset up to which to read.

        So event time advances evenly in all ranges. None means no limit. At least one message is
        selected, even if it is larger than `max_bytes`.
        """


class ReadableLog(Protocol):
    """A log that can be read. Thread-safe; each iterator is for one thread."""

    @property
    def name(self) -> str: ...

    @property
    def stream_id(self) -> int | None:
        """An id of the log. A log that is deleted and created again gets a new id.

        None if no id is recorded for the log.
        """

    def get(self, record_id: RecordId) -> Record:
        """Reads one record. Raises `NotFound` if no durable record has that id."""

    def read(self, start: RecordId | None = None, end: RecordId | None = None) -> Iterator[Record]:
        """Iterates over the durable records of `[start, end)`, oldest first; by default over all of
        them."""

    def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
    ) -> Iterator[RecordBatch]:
        """Iterates over the durable records of `[start, end)` in columnar batches, oldest first.

        This is much faster than `read`. Raises `NotFound`, in this call or at the first batch, if
        a read cannot begin at `start`: its segment was removed, or it is inside a record or after
        the durable end.
        """

    def read_backward(self, start: RecordId | None = None) -> Iterator[Record]:
        """Iterates over the durable records before `start` (by default the end), newest first."""

    def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """Returns the position of the first record at or after that time; the durable end if there
        is none."""

    def follow(self, start: RecordId | None = None) -> RecordIterator:
        """Iterates over the records from `start` (by default the oldest) on, and waits for new
        records."""

    def segments(self) -> Sequence[SegmentInfo]: ...

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """Returns the current segments and the durable end. The segments have all records before
        that end, and may have more."""

    def durable_end(self) -> RecordId: ...

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Waits until the durable end is beyond `position`. Returns False if `timeout` seconds pass
        first."""


class ReadableManifestLog(Protocol):
    """The manifest log of a log: the recorded changes of its segments. `reader` reads them."""

    @property
    def log(self) -> str: ...

    @property
    def stream(self) -> str: ...

    @property
    def is_enabled(self) -> bool | None:
        """Whether changes are being recorded; None if `log.json` is unreadable, so that this is
        unknown."""

    @property
    def damage(self) -> str | None:
        """What is wrong with the log's `log.json`: damaged or missing; None if nothing is wrong."""

    @property
    def reader(self) -> ManifestReader: ...

    def files(self) -> list[ManifestFile]:
        """Lists the files of the manifest log: its chunks and snapshots."""


class ReadPins(Protocol):
    """Pins, which keep retention from removing data that is being read. Thread-safe."""

    def pin(
        self, log: str, *, segment_start: int, segment_end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pins the segments `[segment_start, segment_end)` of a log for `duration_ms`."""

    def pin_offsets(
        self, topic: str, partition: int, *, start: int, end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pins the offsets `[start, end)` of a partition for `duration_ms`."""

    def renew(self, pin_id: str, *, duration_ms: int) -> Pin:
        """Makes a pin expire `duration_ms` from now. Raises `NotFound` if it was released, has
        expired or is damaged."""

    def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]:
        """Makes pins expire about `duration_ms` from now. Returns the ids of those that were
        neither released nor had expired."""

    def release(self, pin_id: str) -> None:
        """Removes a pin. Idempotent."""

    def release_all(self, pin_ids: Iterable[str]) -> None:
        """Removes pins. A pin that cannot be removed is left to expire, without an error.

        If the store is remote, an error is raised if the call itself fails.
        """

    def active(self) -> list[Pin]:
        """Lists the pins of logs that are in effect."""

    def active_offsets(self) -> list[Pin]:
        """Lists the pins of topics that are in effect."""


class StoredObject(Protocol):
    """One version of an object, or a byte range of one. Iterating over it yields the bytes in
    pieces."""

    @property
    def info(self) -> ObjectInfo: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[memoryview]: ...

    def between(self, start: int, end: int) -> StoredObject:
        """Returns a `StoredObject` for the bytes `[start, end)` of the same version.

        Both are offsets in the whole version.
        """

    def read(self) -> bytes:
        """Returns all bytes of this object or range."""


class ReadableBucket(Protocol):
    """A bucket of objects. Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def info(self) -> BucketInfo: ...

    def get(
        self, key: str, *, version_id: str | None = None, byte_range: ByteRange | None = None
    ) -> StoredObject:
        """Opens an object, or a byte range of it. Iterating over the result yields the bytes in
        pieces.

        Without `version_id`, the newest version is read.
        """

    def read(self, key: str, *, version_id: str | None = None) -> bytes:
        """Returns all bytes of an object, by default of its newest version."""

    def head(self, key: str, *, version_id: str | None = None) -> ObjectInfo:
        """Returns the properties of an object, by default of its newest version, without its
        data."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[VersionRow]:
        """Iterates over the objects whose keys begin with `prefix` and sort after `after`, in key
        order."""

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", max_keys: int = 1000
    ) -> Page[VersionRow]:
        """Lists one page of the objects and common prefixes after `after`: up to `max_keys` of both
        together.

        A `max_keys` above 1,000 counts as 1,000. A common prefix is the part of a key up to the
        first `delimiter` after `prefix`, as in S3.
        """

    def versions(self, prefix: str = "") -> Iterator[ListedVersion]:
        """Iterates over the versions and delete markers of all keys that begin with `prefix`.

        They are sorted by key, and for each key newest first.
        """

    def version_page(
        self,
        prefix: str = "",
        *,
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str | None = None,
        max_keys: int = 1000,
    ) -> Page[ListedVersion]:
        """Lists one page of versions, delete markers and common prefixes.

        The page begins after `key_marker` and `version_id_marker`: the `next_marker` and `next_id`
        of the previous page.
        """


class ReadableAccessKeys(Protocol):
    """The access keys of a store. Thread-safe."""

    def list(self) -> builtins.list[KeyInfo]:
        """Lists all access keys, oldest first."""

    def get(self, access_key: str) -> KeyInfo:
        """Returns the properties of an access key. Raises `NoSuchAccessKey` if there is no such
        key."""


class ReadableDamage(Protocol):
    """The damage ledger of a store, which records losses of data. Thread-safe."""

    def ledger(self) -> Ledger:
        """Returns the whole ledger: all records, and the number of losses for which it had no
        space."""


class Verification(Protocol):
    """The methods that verify stored data. They change nothing. Thread-safe."""

    def verify_log(
        self, log: str, *, tier2: bool = False, progress: Progress = no_progress
    ) -> LogReport:
        """Verifies every checksum of a log's files, and with `tier2` also of its objects in Tier
        2."""

    def verify_manifest(self, log: str, *, progress: Progress = no_progress) -> ManifestReport:
        """Verifies the manifest log of a log, and compares it with the segments and their
        copies."""

    def verify_topic(self, topic: str, *, progress: Progress = no_progress) -> TopicReport: ...

    def verify_objects(
        self, *, bucket: str | None = None, prefix: str = "", progress: Progress = no_progress
    ) -> LakeReport:
        """Verifies all objects, or the objects of `bucket` whose keys begin with `prefix`.

        `progress` is called with the number of bytes read so far, and 0 as the total, which is not
        known.
        """

    def verify_store(self, *, tier2: bool = True, progress: Progress = no_progress) -> StoreReport:
        """Verifies all logs, topics, groups and objects, and with `tier2` the segments of logs in
        Tier 2 too."""


class ReadableStore(Protocol):
    """A store that can be read. Thread-safe."""

    @property
    def root(self) -> str:
        """The path of the store's folder, on the machine where that folder is."""

    @property
    def version(self) -> StoreVersion | None:
        """The contents of `store.json`, such as the version of the store's format. None if there is
        no such file."""

    @property
    def damage(self) -> ReadableDamage: ...

    @property
    def keys(self) -> ReadableAccessKeys:
        """The access keys, with which clients use the store over S3 and over HTTP on a TCP port."""

    @property
    def maintenance(self) -> Verification: ...

    @property
    def topics(self) -> ReadableTopics: ...

    @property
    def pins(self) -> ReadPins: ...

    def topic_summary(self, name: str) -> TopicSummary:
        """Summarises a topic from its files, without opening it. Raises `NotFound` if there is no
        such topic."""

    def dead_letters(
        self, topic: str, group: str, *, max_messages: int | None = None
    ) -> list[DeadLetter]:
        """Lists up to `max_messages` dead letters of a group that were not sent back to the topic,
        partition by partition, and in each partition oldest first."""

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plans reads of any number of topics: resolves their positions to offsets and lists split
        points.

        Pins the offsets for `duration_ms`, unless that is 0.
        """

    def logs(self) -> list[str]:
        """Lists the names of all logs."""

    def open_log(self, name: str) -> ReadableLog:
        """Opens a log for reading. Raises `NotFound` if there is none."""

    def log_summary(self, name: str) -> LogSummary:
        """Summarises a log from its files, without reading the records of its sealed segments."""

    def tier2_of(self, log: str) -> str:
        """Returns the address of a log's Tier 2: a URL, or the path of a folder."""

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plans reads of any number of logs: resolves their positions to record ids and lists split
        points.

        Pins the segments for `duration_ms`, unless that is 0.
        """

    def manifest_log(self, name: str) -> ReadableManifestLog | None:
        """Returns the manifest log of a log; None if the log has none.

        `name` is the name of the log or its stream id. Raises `NotFound` if there is no such log.
        """

    def buckets(self) -> list[BucketInfo]:
        """Lists all buckets, sorted by name."""

    def open_bucket(self, name: str) -> ReadableBucket:
        """Returns the bucket of that name. Raises `NoSuchBucket` if there is none."""

    def close(self) -> None:
        """Closes the store, or only the connections to a remote store. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


if TYPE_CHECKING:
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.store import Store

    # The types of what these two hand out are compared, too, down to partitions and pins.
    _READABLE: tuple[type[ReadableStore], ...] = (Store, ReadOnlyStore)
