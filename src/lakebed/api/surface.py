"""The interface of a store: Protocols that the embedded and the remote classes implement.

    Store ─ topics: Topics ─ Topic ─ Partition
          │                       └ Group
          ├ log() ─ Log ─ tiers: Tiers
          ├ bucket() ─ Bucket ─ get(): StoredObject
          ├ keys: AccessKeys    pins: Pins    damage: Damage
          └ maintenance: Maintenance

A program written against these Protocols runs with `lakebed.Store` and with `lakebed.connect`.
They extend the Protocols of `lakebed.api.read_surface`, which are enough for a program that only
reads. mypy checks the embedded classes at the end of this module and the remote ones in
`lakebed.client.store`.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.log_tiers import Residence
from lakebed.aof.tiers.migration import MigrationReport
from lakebed.aof.view import LogDescription, SegmentInfo
from lakebed.api.read_surface import (
    ReadableAccessKeys,
    ReadableBucket,
    ReadableDamage,
    ReadableGroup,
    ReadableLog,
    ReadablePartition,
    ReadableStore,
    ReadableTopic,
    ReadableTopics,
    ReadPins,
    Verification,
)
from lakebed.base.damage_ledger import DamageRecord
from lakebed.base.errors import LakebedError
from lakebed.base.layout import Buffer
from lakebed.base.progress import Progress, no_progress
from lakebed.keratin.config import Ack
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.segment import Numbers
from lakebed.keratin.writer_requests import Appended
from lakebed.seglake.body import Source
from lakebed.seglake.model import (
    RW_POLICY,
    Algorithm,
    BucketInfo,
    Content,
    CreatedKey,
    Deleted,
    KeyInfo,
    ObjectInfo,
    ObjectToDelete,
    Versioning,
)
from lakebed.store.damage_marks import MarkReport, NamedVersion
from lakebed.store.dead_letters import LETTERS_MAX, DeadLetter, DeadLetters
from lakebed.store.leased_message import Held, LeasedMessage, PeekedMessage
from lakebed.store.pin_file import Pin
from lakebed.store.repair import RepairReport
from lakebed.store.staged_batch import CommittedPartition, Staged
from lakebed.store.store_state import StoreState
from lakebed.store.tier_moves import Outcome
from lakebed.store.topic_repair import TopicRepair
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import HeldRange


class PendingAppend(Protocol):
    """An append that is in progress, has succeeded or has failed."""

    @property
    def partition(self) -> int:
        """The partition that the messages go to."""

    def result(self, timeout: float | None = None) -> Appended:
        """Waits for the acknowledgement; returns the offset of the first message and the number of
        messages.

        Raises the error of a failed append. Raises `OutcomeUnknown` if `timeout` seconds pass
        first; the append then continues.
        """

    def exception(self, timeout: float | None = None) -> LakebedError | None:
        """Waits for the acknowledgement; returns the error if the append failed, else None.

        Raises `OutcomeUnknown` if `timeout` seconds pass first; the append then continues.
        """

    def done(self) -> bool:
        """Whether the append was acknowledged or has failed. Does not wait."""


class Group(ReadableGroup, Protocol):
    """A consumer group of a topic. Thread-safe.

    A call that acks, returns or extends messages raises `StaleLease` if their lease has ended.
    Acknowledging a message that is already acknowledged or dead-lettered has no effect and raises
    no error.
    """

    def lease(
        self,
        *,
        max_messages: int = 100,
        max_bytes: int | None = None,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> list[LeasedMessage]:
        """Leases up to `max_messages` messages for `lease_ms` (by default, the group's setting);
        returns an empty list if there are none.

        Their total size is at most `max_bytes`, but the first message is returned whatever its
        size. A remote group counts a `max_bytes` above 32 MiB, or None, as 32 MiB. With `wait_s`,
        the call waits up to that many seconds for the first message.
        """

    def ack(self, message: LeasedMessage) -> None:
        """Acknowledges a message: it is not delivered again, unless the group is moved back.

        Raises `StaleLease` if its lease has ended, unless the message is already acknowledged or
        dead-lettered.
        """

    def ack_all(self, messages: Iterable[LeasedMessage]) -> None:
        """Acknowledges many messages.

        Raises `StaleLease` if the lease of a message has ended, unless the message is already
        acknowledged or dead-lettered. Messages of the same partition that were leased in the same
        call as that message are then not acknowledged either; others may be.
        """

    def ack_held(self, held: Sequence[Held]) -> None:
        """Acknowledges messages by their offsets, one lease after the other.

        Raises `StaleLease` at the first lease that has ended, unless all its messages are already
        acknowledged or dead-lettered: messages of earlier leases are then acknowledged, those of
        this lease and later ones are not.
        """

    def nack(self, message: LeasedMessage, *, delay_ms: int = 0) -> None:
        """Returns a message to the group, which delivers it again: immediately, or after
        `delay_ms`.

        A message that was delivered as often as the group allows (`delivery_count_max`, if it is
        not 0) becomes a dead letter instead.
        """

    def nack_all(self, messages: Iterable[LeasedMessage], *, delay_ms: int = 0) -> None:
        """Returns many messages to the group, like `nack`."""

    def nack_held(
        self, held: Sequence[Held], *, delay_ms: int = 0, is_delivery: bool = True
    ) -> None:
        """Returns messages, given by their offsets, to the group, like `nack`.

        With `is_delivery=False` this delivery of the messages does not count, as in `give_back`,
        and `delay_ms` is ignored.
        """

    def give_back(self, messages: Iterable[LeasedMessage]) -> None:
        """Returns unprocessed messages to the group; this delivery of them does not count."""

    def extend(self, message: LeasedMessage, *, lease_ms: int | None = None) -> LeasedMessage:
        """Extends the lease of a message, so that it ends `lease_ms` (by default, the group's
        setting) from now. Returns the message with its new deadline."""

    def extend_held(self, held: Sequence[Held], *, lease_ms: int | None = None) -> list[int]:
        """Extends leases, given by the offsets of their messages, like `extend`. Returns the new
        deadline of each lease, in ms since 1970."""

    def peek(self, *, max_messages: int = 10, max_bytes: int | None = None) -> list[PeekedMessage]:
        """Returns the messages that a lease with these limits would return now, without leasing
        them."""

    def leases(
        self, *, max_leases: int = 1000, partition: int | None = None, offset: int = 0
    ) -> list[HeldRange]:
        """Lists up to `max_leases` ranges of leased offsets, sorted by partition and offset, with
        their deadlines and delivery counts.

        By default lists the leases of all partitions. In each partition, the list begins at
        `offset`.
        """

    def release(self, *, partition: int | None = None, offset: int | None = None) -> int:
        """Ends the lease of one message, of all messages of a partition, or of the whole group.
        Returns the number of messages that were leased.

        An `offset` also needs its `partition`. The messages can be leased again immediately. A
        consumer that held them gets `StaleLease` if it acks, returns or extends them.
        """

    def reset(self, *, partition: int | None = None) -> None:
        """Moves the group back to the oldest message, in one partition or (by default) in all: the
        leases there end, and all messages are delivered again."""

    def seek(
        self,
        offset: int | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        to_end: bool = False,
    ) -> None:
        """Moves the group to a position. Messages before the position count as acknowledged;
        messages from there on are delivered again. Leases end.

        The position is `offset` in `partition`; or, in each partition, the first message at or
        after `timestamp_ms`; or, with `to_end`, the end of each partition.
        """

    def dead_letters(self) -> list[DeadLetter]:
        """Lists the dead letters of this group that were not sent back to the topic."""

    def dead_letter_page(
        self, *, max_messages: int = LETTERS_MAX, partition: int = 0, offset: int = 0
    ) -> DeadLetters:
        """Lists one page of the dead letters of this group that were not sent back to the topic,
        starting at `offset` in `partition` of the dead-letter topic."""

    def redrive(self, *, max_messages: int = 1_000_000) -> int:
        """Sends up to `max_messages` dead letters back to their original partitions. Returns how
        many were sent."""


class Partition(ReadablePartition, Protocol):
    """A partition of a topic: a log of messages with consecutive offsets. Thread-safe."""

    def append_batch(
        self,
        payloads: Sequence[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        timestamps_ms: Numbers | None = None,
        producer: Producer | None = None,
        not_before_ms: int = 0,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> PendingAppend:
        """Appends messages with consecutive offsets. `result()` waits for the acknowledgement.

        A payload of None deletes its key. Raises `Busy` if the queue stays full for `timeout`
        seconds. Without `timeout`, an embedded partition waits without a limit, and a remote one as
        long as its client retries calls.
        """

    def sync(self) -> None:
        """Makes all acknowledged messages durable.

        Messages that were acknowledged with `Ack.AFTER_WRITE` may not be durable before.
        """

    def seal(self) -> bool:
        """Starts a new segment. Returns False, and starts none, if the active segment is empty."""

    def truncate_before(self, before: int) -> int:
        """Removes all messages before the offset `before`, and returns the number of segments that
        were removed with them.

        An offset after the high watermark counts as the high watermark.
        """


class Topic(ReadableTopic, Protocol):
    """A topic: partitions and consumer groups. Thread-safe."""

    @property
    def partitions(self) -> Sequence[Partition]: ...

    def partition(self, number: int) -> Partition:
        """Returns the partition with that number. Raises `NotFound` if there is none."""

    def append_batch(
        self,
        payloads: Sequence[Buffer | None],
        *,
        key: Buffer | None = None,
        partition: int | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        timestamps_ms: Numbers | None = None,
        producer: Producer | None = None,
        not_before_ms: int = 0,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> PendingAppend:
        """Appends messages to one partition: `partition` if given, else the partition of `key`,
        else the next in turn. All messages get the same `key`.

        `result()` of the returned value waits for the acknowledgement and returns the offset of the
        first message and the number of messages. The messages are stored only once, even if a
        response is lost and the client sends them again.
        """

    def append_keyed(
        self,
        messages: Iterable[tuple[Buffer | None, Buffer | None]],
        *,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> Sequence[PendingAppend]:
        """Appends (key, payload) pairs, each to the partition of its key; one append per partition.

        All pairs without a key go to one partition, the next in turn. All pairs are validated
        before any of them is appended. If a partition refuses its append, for example because its
        queue is full, the remaining partitions get none, and the call raises `PartlyAppended` if
        earlier appends succeeded, otherwise the error.
        """

    def group(self, name: str, *, config: GroupConfig | None = None) -> Group:
        """Returns the consumer group of that name, and creates it if there is none.

        `config` is stored, and takes effect when the group is next opened: by this call, if the
        group is not open. Without `config` the group keeps its stored configuration, or uses the
        store's default.
        """

    def delete_group(self, name: str) -> None:
        """Deletes a group with its acknowledgements. Raises `NotFound` if there is no such
        group."""

    def commit_batches(
        self, application: str, version: int, batches: Mapping[int, Sequence[Staged]]
    ) -> list[CommittedPartition]:
        """Appends staged batches to their partitions exactly once: nothing is appended to a
        partition that already has this or a higher `version` of the `application`.

        See `lakebed.store.batch_commit`.
        """


class Topics(ReadableTopics, Protocol):
    """The topics of a store. Thread-safe."""

    def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> Topic:
        """Creates a topic. Raises `AlreadyExists` if there is one of that name."""

    def open(self, name: str) -> Topic:
        """Opens a topic. Raises `NotFound` if there is none."""

    def ensure(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Topic:
        """Opens a topic, and creates it if there is none.

        A new topic has `partitions` partitions, by default one, and the given settings; an existing
        topic keeps its own settings. Raises `InputError` if `partitions` is given and an existing
        topic has another number.
        """

    def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """Changes the given settings of a topic, and keeps its others. The change takes effect when
        the topic is next opened."""

    def delete(self, name: str) -> None:
        """Deletes a topic with its messages, groups and dead letters, permanently.

        The dead-letter topic is kept if it cannot be opened, or begins with other messages. Raises
        `NotFound` if there is no such topic.
        """


class Tiers(Protocol):
    """The tiers of a log. Thread-safe."""

    def residency(self) -> list[Residence]:
        """Lists the segments and the tiers they are in; empty while the manifest log is off."""


class Log(ReadableLog, Protocol):
    """A log: a sequence of records in segments. Thread-safe."""

    @property
    def tiers(self) -> Tiers: ...

    def append_record(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record and returns its id without waiting. The record is durable after a
        flush.

        If the append would have to wait, for example for space in the queue, raises `WouldBlock`,
        which states for what.
        """

    def append_records(
        self, payloads: Sequence[Buffer], *, ext_ids: Numbers = 0, timestamps: Numbers | None = None
    ) -> Sequence[RecordId]:
        """Appends many records without waiting. They are durable after a flush.

        If an append would have to wait, raises `WouldBlock`, whose `record_ids` are the ids of the
        records that were appended before.
        """

    def append_record_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record like `append_record`, but waits up to `timeout` seconds before it
        raises `WouldBlock`."""

    def flush(self, record_id: RecordId | None = None, *, timeout: float | None = None) -> None:
        """Waits until a record, or everything appended so far, is durable.

        After a `RetryError` (for example, the disk is full) or an `OutcomeUnknown` (the timeout
        passed) the records are still queued: flush again, and do not append them again.
        """

    def seal_current_segment(self, *, timeout: float | None = None) -> SegmentInfo | None:
        """Seals the active segment durably and returns it; None if it has no records.

        Raises `WouldBlock` if this takes longer than `timeout` seconds. Without `timeout`, an
        embedded log waits without a limit. A remote log waits for at most, and by default, 60 s.
        """

    @property
    def coordinator_watermark(self) -> int: ...

    def set_coordinator_watermark(self, watermark: int) -> None:
        """Raises the coordinator watermark, a number that the application chooses; a lower one is
        ignored.

        The watermark becomes durable when a segment is sealed or the log is closed, and is restored
        when the log is opened.
        """

    def describe(self) -> LogDescription: ...

    def segments(self) -> Sequence[SegmentInfo]:
        """Lists all current segments, oldest first."""

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """Returns the current segments and the durable end. The segments have all records before
        that end, and may have more."""

    def wait_beyond(self, position: RecordId, timeout: float | None = None) -> bool:
        """Waits until the durable end is beyond `position`. Returns False if `timeout` seconds pass
        first."""


class Bucket(ReadableBucket, Protocol):
    """A bucket of objects. Thread-safe."""

    def set_versioning(self, versioning: Versioning) -> BucketInfo: ...

    def put(
        self,
        key: str,
        source: Source,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        content: Content | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        algorithm: Algorithm | None = None,
    ) -> ObjectInfo:
        """Stores an object from bytes, a file or an iterable of bytes, with bounded memory.

        `if_none_match="*"` stores the object only if the key does not exist; `if_match=etag` only
        if the current object has that ETag. Otherwise raises `PreconditionFailed`, or `NoSuchKey`
        for `if_match` if there is no current object. Raises `TooLarge` if the object is larger than
        the setting `max_object_size` allows.
        """

    def delete(
        self, key: str, *, version_id: str | None = None, if_match: str | None = None
    ) -> Deleted:
        """Deletes an object. In a bucket with versioning this adds a delete marker and keeps the
        versions; in a bucket without versioning it removes the object.

        With `version_id`, removes that version permanently.
        """

    def delete_many(
        self, keys: Iterable[str | ObjectToDelete]
    ) -> builtins.list[Deleted | LakebedError]:
        """Deletes any number of objects; each has its own result or error."""

    def copy(
        self,
        key: str,
        target: str,
        *,
        bucket: str | None = None,
        version_id: str | None = None,
        content: Content | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> ObjectInfo:
        """Copies an object to the key `target` of `bucket`, by default of the same bucket. The copy
        shares the stored bytes of the original.

        `content` replaces the headers and metadata of the original. `if_match` and `if_none_match`
        are conditions on the target, as in `put`.
        """


class AccessKeys(ReadableAccessKeys, Protocol):
    """The access keys of a store. Thread-safe."""

    def create(
        self, *, label: str = "", inflight_max: int | None = None, policy: str = RW_POLICY
    ) -> CreatedKey:
        """Creates an access key. This call is the only one that returns its secret."""

    def disable(self, access_key: str) -> KeyInfo:
        """Disables a key: requests with it are refused. Has no effect on a disabled key."""

    def enable(self, access_key: str) -> KeyInfo:
        """Enables a disabled key."""

    def set_enabled(self, access_key: str, *, is_enabled: bool) -> KeyInfo:
        """Enables or disables a key. Has no effect if the key already is in that state."""


class Pins(ReadPins, Protocol):
    """Pins, which keep retention from removing data that is being read. Thread-safe."""

    def create(
        self,
        *,
        start: int,
        end: int,
        duration_ms: int,
        owner: str,
        log: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Pin:
        """Pins `[start, end)`: segments if `log` is given, or offsets if `topic` and `partition`
        are given."""

    def all_active(self) -> list[Pin]:
        """Lists all pins that are in effect, pins of logs before pins of topics."""


class Damage(ReadableDamage, Protocol):
    """The damage ledger of a store, which records losses of data. Thread-safe."""

    def list(self) -> list[DamageRecord]:
        """Lists all damage records, acknowledged or not, oldest first."""

    def acknowledge(self, record_id: int) -> DamageRecord:
        """Marks a damage record as acknowledged: readers then skip the lost range, and `verify` no
        longer reports it. Raises `NotFound` if there is no such record."""


class Maintenance(Verification, Protocol):
    """Long-running work on a store: verification, repair, and moves of segments between tiers.
    Thread-safe.

    `segments` are the ids of the segments to move. They are checked before anything is moved: if
    one of them does not allow the move (because it is not sealed, for example), the call raises an
    error and moves none. If a move fails later, the call raises no error: the segment is in
    `failed` of the outcome, and the others are moved. An error that concerns all segments ends the
    call early, and is in `stopped_by`. By default all sealed segments that allow the move are
    moved.
    """

    def upload(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Compresses segments and uploads them to Tier 2."""

    def retry_upload(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Uploads segments like `upload`, by default all whose last upload failed."""

    def evict(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        warm: bool = False,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Removes segments from Tier 0, and with `warm` from Tier 1 too, if they are in Tier 2."""

    def hydrate(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Copies segments from a colder tier back into Tier 0."""

    def repair_tier2(self, log: str, *, progress: Progress = no_progress) -> Outcome:
        """Uploads objects of a log's Tier 2 again, from local copies, if they are missing, or if
        their size or recorded checksum is wrong. Their content is not read."""

    def migrate_tier2(
        self,
        log: str,
        *,
        address: str | None = None,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Copies a log's objects to another Tier 2, which the log then uses. Raises `Busy` if the
        log is open.

        `address` is by default the Tier 2 of new logs. With `delete`, the objects at the old
        address are deleted after that; without it they stay there.
        """

    def repair_log(
        self, log: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> RepairReport: ...

    def repair_topic(
        self, topic: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> TopicRepair: ...

    def mark_objects(
        self, versions: Sequence[NamedVersion], *, progress: Progress = no_progress
    ) -> MarkReport:
        """Verifies object versions again: marks the damaged ones, and removes the mark from those
        that are whole."""


class Store(ReadableStore, Protocol):
    """A store that can be written to. Thread-safe."""

    @property
    def topics(self) -> Topics: ...

    @property
    def pins(self) -> Pins: ...

    @property
    def damage(self) -> Damage: ...

    def log(self, name: str) -> Log:
        """Returns the log of that name, and creates it if there is none."""

    def open_log(self, name: str) -> Log:
        """Returns the log of that name. Raises `NotFound` if there is none."""

    def topic(self, name: str, *, partitions: int | None = None) -> Topic:
        """Returns the topic of that name, and creates it if there is none.

        A new topic has `partitions` partitions, by default one. Raises `InputError` if `partitions`
        is given and the topic exists with another number.
        """

    def open_bucket(self, name: str) -> Bucket:
        """Returns the bucket of that name. Raises `NoSuchBucket` if there is none."""

    def bucket(self, name: str, *, versioning: Versioning | None = None) -> Bucket:
        """Returns the bucket of that name, and creates it if there is none.

        Raises `BucketExists` if `versioning` is given and the bucket exists with another one.
        """

    def delete_bucket(self, name: str) -> None:
        """Deletes a bucket, and aborts its multipart uploads. Raises `BucketNotEmpty` if it has
        objects or old versions."""

    @property
    def keys(self) -> AccessKeys:
        """The access keys, with which clients use the store over S3 and over HTTP on a TCP port."""

    def state(self) -> StoreState:
        """Describes the store: its versions, its logs, topics and buckets, and the free disk
        space."""

    def counters(self) -> dict[str, dict[str, dict[str, int | float]]]:
        """Returns the counters by engine, then by the part that they count (such as a log, a
        partition or a group), then by name."""

    def configuration(self) -> dict[str, dict[str, Any]]:
        """Returns the settings in effect, by section, with secrets hidden."""

    @property
    def maintenance(self) -> Maintenance:
        """Verification, repair, and moves of segments between tiers.

        The process that has the store open does the work.
        """


if TYPE_CHECKING:
    from lakebed.store import store

    _EMBEDDED: type[Store] = store.Store
