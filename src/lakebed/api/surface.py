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
    """An append that is in progress or done."""

    @property
    def partition(self) -> int:
        """The partition that the messages go to."""

    def result(self, timeout: float | None = None) -> Appended:
        """Waits for the acknowledgement; returns the base offset and the number of messages.

        Raises the error if the append failed, and `OutcomeUnknown` if `timeout` seconds pass first:
        the append is still queued.
        """

    def exception(self, timeout: float | None = None) -> LakebedError | None:
        """Waits for the acknowledgement; returns the error if the append failed, else None.

        Raises `OutcomeUnknown` if `timeout` seconds pass first.
        """

    def done(self) -> bool:
        """Whether the append was acknowledged or has failed. Does not wait."""


class Group(ReadableGroup, Protocol):
    """A consumer group of a topic. Thread-safe."""

    def lease(
        self,
        *,
        max_messages: int = 100,
        max_bytes: int | None = None,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> list[LeasedMessage]:
        """Leases up to `max_messages` messages for `lease_ms`; returns an empty list if there are
        none.

        Their total size is at most `max_bytes` (itself at most 32 MiB), except that a single larger
        message is still returned. With `wait_s` the call waits up to that long for the first
        message.
        """

    def ack(self, message: LeasedMessage) -> None:
        """Settles a message: it is not delivered again. `StaleLease` if its lease has ended."""

    def ack_all(self, messages: Iterable[LeasedMessage]) -> None:
        """Settles many messages.

        `StaleLease` if any of them is no longer leased; the messages leased in the same call as
        that one are then not settled either.
        """

    def ack_held(self, held: Sequence[Held]) -> None:
        """Settles messages by offset. Each lease is settled or refused as a whole, in order."""

    def nack(self, message: LeasedMessage, *, delay_ms: int = 0) -> None:
        """Returns a message to the group, for delivery now or after `delay_ms`."""

    def nack_all(self, messages: Iterable[LeasedMessage], *, delay_ms: int = 0) -> None:
        """Returns many messages to the group, for delivery now or after `delay_ms`."""

    def nack_held(
        self, held: Sequence[Held], *, delay_ms: int = 0, is_delivery: bool = True
    ) -> None:
        """Returns messages by offset.

        With `is_delivery=False` it does not count as a delivery, as in `give_back`.
        """

    def give_back(self, messages: Iterable[LeasedMessage]) -> None:
        """Gives back messages that were not processed. This does not count as a delivery."""

    def extend(self, message: LeasedMessage, *, lease_ms: int | None = None) -> LeasedMessage:
        """Extends the lease to `lease_ms` from now; returns the message with its new deadline."""

    def extend_held(self, held: Sequence[Held], *, lease_ms: int | None = None) -> list[int]:
        """Extends leases by offset; returns the new deadline of each."""

    def peek(self, *, max_messages: int = 10, max_bytes: int | None = None) -> list[PeekedMessage]:
        """Returns the messages that a lease would return now, without leasing them."""

    def leases(
        self, *, max_leases: int = 1000, partition: int | None = None, offset: int = 0
    ) -> list[HeldRange]:
        """Lists current leases with their deadlines and delivery counts, by partition and offset.

        Covers one partition or all of them; in each, only messages from `offset` on.
        """

    def release(self, *, partition: int | None = None, offset: int | None = None) -> int:
        """Ends leases of one message, of a partition, or of the whole group; returns the number of
        messages.

        The messages can be leased again at once. A former holder that acks, returns or extends them
        gets `StaleLease`.
        """

    def reset(self, *, partition: int | None = None) -> None:
        """Starts over from the oldest message, in one partition or in all."""

    def seek(
        self,
        offset: int | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        to_end: bool = False,
    ) -> None:
        """Settles every message before a position and makes every message from it on available
        again.

        The position is an offset in one partition; or, in each partition, the first message at or
        after `timestamp_ms`; or the end.
        """

    def dead_letters(self) -> list[DeadLetter]:
        """Lists the dead letters of this group that were not redriven."""

    def dead_letter_page(
        self, *, max_messages: int = LETTERS_MAX, partition: int = 0, offset: int = 0
    ) -> DeadLetters:
        """Lists dead letters in pages, from an offset of the dead-letter topic on."""

    def redrive(self, *, max_messages: int = 1_000_000) -> int:
        """Sends dead letters back to their original partitions; returns how many."""


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

        A payload of None deletes its key. `Busy` if the queue stays full for `timeout` seconds.
        """

    def sync(self) -> None:
        """Makes durable what was acknowledged with `after_write`."""

    def seal(self) -> bool:
        """Starts a new segment; returns False if the active one is empty."""

    def truncate_before(self, before: int) -> int:
        """Removes all messages before an offset; returns the number of removed segments."""


class Topic(ReadableTopic, Protocol):
    """A topic: partitions and consumer groups. Thread-safe."""

    @property
    def partitions(self) -> Sequence[Partition]: ...

    def partition(self, number: int) -> Partition:
        """Returns one partition. `NotFound` if there is none with that number."""

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
        """Appends messages to one partition: that of `key`, or `partition`, or the next in turn.

        `result()` of the returned value waits for the acknowledgement and returns the base offset
        and the number of messages. The messages are stored once, even if a response is lost and the
        client sends them again.
        """

    def append_keyed(
        self,
        messages: Iterable[tuple[Buffer | None, Buffer | None]],
        *,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> Sequence[PendingAppend]:
        """Appends (key, payload) pairs, each to the partition of its key; one append per partition.

        Pairs without a key go to the next partition in turn, together. Everything is validated
        before anything is sent. `PartlyAppended` if some partitions took their messages and others
        had no room.
        """

    def group(self, name: str, *, config: GroupConfig | None = None) -> Group:
        """Returns the consumer group of that name, and creates it if there is none.

        `config` is stored and applies from the next time the group is opened: now, if it was not
        open. Without it the group has its stored configuration, or that of the store.
        """

    def delete_group(self, name: str) -> None:
        """Deletes a group and its acks. `NotFound` if there is none."""

    def commit_batches(
        self, application: str, version: int, batches: Mapping[int, Sequence[Staged]]
    ) -> list[CommittedPartition]:
        """Appends staged batches, by partition, exactly once; see `lakebed.store.batch_commit`."""


class Topics(ReadableTopics, Protocol):
    """The topics of a store. Thread-safe."""

    def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> Topic:
        """Creates a topic. `AlreadyExists` if there is one of that name."""

    def open(self, name: str) -> Topic:
        """Opens a topic. `NotFound` if there is none."""

    def ensure(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Topic:
        """Opens a topic, creating it if needed. `InputError` if its partition count differs."""

    def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """Stores settings of a topic. They apply from the next time it is opened."""

    def delete(self, name: str) -> None:
        """Deletes a topic with its messages, groups and dead letters, permanently."""


class Tiers(Protocol):
    """The tiers of a log. Thread-safe."""

    def residency(self) -> list[Residence]:
        """Lists the segments and the tiers they are in."""


class Log(ReadableLog, Protocol):
    """A log: a sequence of records in segments. Thread-safe."""

    @property
    def tiers(self) -> Tiers: ...

    def append_record(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record and returns its id at once. The record is durable after a flush.

        Never waits: raises `WouldBlock`, which names what it would have waited for.
        """

    def append_records(
        self, payloads: Sequence[Buffer], *, ext_ids: Numbers = 0, timestamps: Numbers | None = None
    ) -> Sequence[RecordId]:
        """Appends many records at once.

        On `WouldBlock`, its `record_ids` are the ids of the records that were appended.
        """

    def append_record_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record, waiting up to `timeout` seconds where `append_record` would block."""

    def flush(self, record_id: RecordId | None = None, *, timeout: float | None = None) -> None:
        """Waits until a record, or everything appended so far, is durable.

        After `RetryError` (the disk is full) or `OutcomeUnknown` (the timeout passed) the records
        are still queued: flush again, and do not append them again.
        """

    def seal_current_segment(self, *, timeout: float | None = None) -> SegmentInfo | None:
        """Seals the active segment durably and returns it; None if it has no records."""

    @property
    def coordinator_watermark(self) -> int: ...

    def set_coordinator_watermark(self, watermark: int) -> None:
        """Stores a number that never decreases.

        It becomes durable with the next seal and is restored by recovery.
        """

    def describe(self) -> LogDescription: ...

    def segments(self) -> Sequence[SegmentInfo]:
        """Lists all current segments, oldest first."""

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """Returns all segments and the durable end, which they contain."""

    def wait_beyond(self, position: RecordId, timeout: float | None = None) -> bool:
        """Waits until the durable end is beyond `position`; False after `timeout` seconds."""


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
        """Stores bytes, a file or an iterable of bytes of any size, with bounded memory.

        `if_none_match="*"` stores the object only if the key has none; `if_match=etag` only if the
        current object has that ETag. `PreconditionFailed` otherwise.
        """

    def delete(
        self, key: str, *, version_id: str | None = None, if_match: str | None = None
    ) -> Deleted:
        """Deletes an object. In a versioned bucket this adds a delete marker.

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
        """Copies an object to another key or bucket without moving its bytes.

        `if_match` and `if_none_match` apply to the target, as in `put`.
        """


class AccessKeys(ReadableAccessKeys, Protocol):
    """The access keys of a store. Thread-safe."""

    def create(
        self, *, label: str = "", inflight_max: int | None = None, policy: str = RW_POLICY
    ) -> CreatedKey:
        """Creates an access key. Its secret is returned this once only."""

    def disable(self, access_key: str) -> KeyInfo:
        """Disables a key: requests signed with it are refused. Has no effect on a disabled key."""

    def enable(self, access_key: str) -> KeyInfo:
        """Enables a disabled key."""

    def set_enabled(self, access_key: str, *, is_enabled: bool) -> KeyInfo:
        """Enables or disables a key. Has no effect if it is in that state already."""


class Pins(ReadPins, Protocol):
    """Pins protect ranges from retention while they are read. Thread-safe."""

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
        """Pins segments if `log` is given, or offsets if `topic` and `partition` are."""

    def all_active(self) -> list[Pin]:
        """Lists the pins that have not expired, those of logs first."""


class Damage(ReadableDamage, Protocol):
    """The record of data that was lost. Thread-safe."""

    def list(self) -> list[DamageRecord]:
        """Lists all records of damage, acknowledged or not, oldest first."""

    def acknowledge(self, record_id: int) -> DamageRecord:
        """Marks a record as acknowledged, which ends its reports. `NotFound` if there is none."""


class Maintenance(Verification, Protocol):
    """Long-running work on a store. Thread-safe."""

    def upload(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Compresses segments and uploads them to Tier 2."""

    def retry_upload(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Uploads segments again whose upload has failed permanently."""

    def evict(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        warm: bool = False,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Removes segments from Tier 0 that are in Tier 2; with `warm` from Tier 1 as well."""

    def hydrate(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Copies segments back into Tier 0."""

    def repair_tier2(self, log: str, *, progress: Progress = no_progress) -> Outcome:
        """Uploads objects again that are missing or damaged."""

    def migrate_tier2(
        self,
        log: str,
        *,
        address: str | None = None,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Copies a log's objects to another Tier 2, which the log uses from then on."""

    def repair_log(
        self, log: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> RepairReport: ...

    def repair_topic(
        self, topic: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> TopicRepair: ...

    def mark_objects(
        self, versions: Sequence[NamedVersion], *, progress: Progress = no_progress
    ) -> MarkReport:
        """Reads versions again; marks the damaged ones and clears the mark of the others."""


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
        """Returns the log of that name. `NotFound` if there is none."""

    def topic(self, name: str, *, partitions: int | None = None) -> Topic:
        """Returns the topic of that name, and creates it if there is none, with `partitions`
        partitions or one.

        `InputError` if it exists with a different number of partitions.
        """

    def open_bucket(self, name: str) -> Bucket:
        """Returns the bucket of that name. `NoSuchBucket` if there is none."""

    def bucket(self, name: str, *, versioning: Versioning | None = None) -> Bucket:
        """Returns the bucket of that name, and creates it if there is none.

        `BucketExists` if it exists with a different `versioning`.
        """

    def delete_bucket(self, name: str) -> None:
        """Deletes a bucket and aborts its uploads. `BucketNotEmpty` if it has any version."""

    @property
    def keys(self) -> AccessKeys:
        """The access keys for S3 and for the HTTP API over TCP."""

    def state(self) -> StoreState:
        """Describes what the store contains."""

    def counters(self) -> dict[str, dict[str, dict[str, int | float]]]:
        """Counters by engine, by log or partition, and by name."""

    def configuration(self) -> dict[str, dict[str, Any]]:
        """The settings in effect, by section, with secrets hidden."""

    @property
    def maintenance(self) -> Maintenance:
        """Verification, repair and tier moves, run by the process that has the store open."""


if TYPE_CHECKING:
    from lakebed.store import store

    _EMBEDDED: type[Store] = store.Store
