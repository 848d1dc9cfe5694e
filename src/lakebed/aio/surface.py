# Made by `python -m tools.asynced` of `src/lakebed/api/surface.py`: edit that.
"""The surface of a store, for programs with an event loop.

What asks the server is awaited, properties included: `(await bucket.info).name`. mypy compares
`AsyncStore`, and the classes that it returns, in `lakebed.aio.client.store`.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from lakebed.aio.read_surface import (
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
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.log_tiers import Residence
from lakebed.aof.tiers.migration import MigrationReport
from lakebed.aof.view import LogDescription, SegmentInfo
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
    """An append that is under way, or done."""

    @property
    def partition(self) -> int:
        """Where the messages go."""

    def result(self, timeout: float | None = None) -> Appended:
        """Wait until it is acknowledged: the base offset and the count."""

    def exception(self, timeout: float | None = None) -> LakebedError | None:
        """Wait, too: why it failed, None if it did not."""

    def done(self) -> bool: ...


class Group(ReadableGroup, Protocol):
    """For one event loop."""

    async def lease(
        self,
        *,
        max_messages: int = 100,
        max_bytes: int | None = None,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> list[LeasedMessage]:
        """Up to that many messages, held for `lease_ms`. None, if there are none.

        No more than `max_bytes`, which are 32 MiB at most, but one message in any case. With
        `wait_s` it waits that long for the first one.
        """

    async def ack(self, message: LeasedMessage) -> None:
        """Settled: never delivered again. `StaleLease` if the lease has ended."""

    async def ack_all(self, messages: Iterable[LeasedMessage]) -> None:
        """As `ack`, for many. `StaleLease` if one of them is not held any more; then those leased
        with it are not settled either.
        """

    async def ack_held(self, held: Sequence[Held]) -> None:
        """As `ack`, by offsets. Each lease is settled or refused as a whole, one after another."""

    async def nack(self, message: LeasedMessage, *, delay_ms: int = 0) -> None:
        """Give it back, to be delivered again: at once, or after the delay."""

    async def nack_all(self, messages: Iterable[LeasedMessage], *, delay_ms: int = 0) -> None: ...

    async def nack_held(
        self, held: Sequence[Held], *, delay_ms: int = 0, is_delivery: bool = True
    ) -> None:
        """As `nack`, by offsets; or, if it is no delivery, as `give_back`."""

    async def give_back(self, messages: Iterable[LeasedMessage]) -> None:
        """As `nack_all`, of messages that nobody looked at: it does not count as a delivery."""

    async def extend(self, message: LeasedMessage, *, lease_ms: int | None = None) -> LeasedMessage:
        """Hold it for `lease_ms` from now; the same message with its new deadline."""

    async def extend_held(self, held: Sequence[Held], *, lease_ms: int | None = None) -> list[int]:
        """As `extend`, by offsets; the new deadline of each lease."""

    async def peek(
        self, *, max_messages: int = 10, max_bytes: int | None = None
    ) -> list[PeekedMessage]:
        """What a lease of that many would be given now, without leasing it."""

    async def leases(
        self, *, max_leases: int = 1000, partition: int | None = None, offset: int = 0
    ) -> list[HeldRange]:
        """What is leased now, until when and how often it was delivered, by partition and offset.

        Of one partition, or of all; in each from that offset on.
        """

    async def release(self, *, partition: int | None = None, offset: int | None = None) -> int:
        """Take leases back from their holders: of one message, of a partition, or of all.

        Returns how many messages they had; these can be leased again at once. A former holder that
        acks, gives back or extends gets `StaleLease`.
        """

    async def reset(self, *, partition: int | None = None) -> None:
        """Start over from the beginning of the log."""

    async def seek(
        self,
        offset: int | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        to_end: bool = False,
    ) -> None:
        """Settle every message before a place, and deliver every one from there on again.

        The place is an offset of one partition; or in each partition the first message at or after
        a moment; or the end.
        """

    async def dead_letters(self) -> list[DeadLetter]:
        """Those of this group that were not sent back."""

    async def dead_letter_page(
        self, *, max_messages: int = LETTERS_MAX, partition: int = 0, offset: int = 0
    ) -> DeadLetters:
        """The same in pages: from an offset of a partition of the dead-letter topic on."""

    async def redrive(self, *, max_messages: int = 1_000_000) -> int:
        """Send dead letters back to the partitions they came from; how many."""


class Partition(ReadablePartition, Protocol):
    """For one event loop."""

    async def append_batch(
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
        """Append messages, which get offsets that follow one another; done when it returns.

        A payload of None deletes its key. `Busy` if there was no room for that many seconds.
        """

    async def sync(self) -> None:
        """Make durable what was acknowledged after its write alone."""

    async def seal(self) -> bool:
        """Begin a new segment; False if the active one is empty."""

    async def truncate_before(self, before: int) -> int:
        """Remove all messages before that offset; how many segments went with them."""


class Topic(ReadableTopic, Protocol):
    """For one event loop."""

    @property
    def partitions(self) -> Sequence[Partition]: ...

    def partition(self, number: int) -> Partition:
        """`NotFound` if there is none of that number."""

    async def append_batch(
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
        """See `keratin.Topic`: the result is (base offset, count), and is there at once.

        Stored once, also if an answer is lost on the way and it is sent again.
        """

    async def append_keyed(
        self,
        messages: Iterable[tuple[Buffer | None, Buffer | None]],
        *,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> Sequence[PendingAppend]:
        """Pairs of key and payload, each to its key's partition: one append for each of those.

        Those without a key go to the next partition in turn, together. What is wrong with any of
        them is found before one is sent. `PartlyAppended` if some were appended, when there was no
        room for others.
        """

    async def group(self, name: str, *, config: GroupConfig | None = None) -> Group:
        """The consumer group of that name, made anew if need be.

        `config` is kept, and counts from the group's next opening on: at once, if it was not open.
        Without one the group has what was kept, or else that of the store.
        """

    async def delete_group(self, name: str) -> None:
        """Forget a group: what it acked, too. `NotFound` if there is none."""

    async def commit_batches(
        self, application: str, version: int, batches: Mapping[int, Sequence[Staged]]
    ) -> list[CommittedPartition]:
        """Append staged batches, by partition, once: see `lakebed.store.batch_commit`."""


class Topics(ReadableTopics, Protocol):
    """For one event loop."""

    async def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> Topic:
        """A new topic; `AlreadyExists` if there is one of that name."""

    async def open(self, name: str) -> Topic:
        """`NotFound` if there is none."""

    async def ensure(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Topic:
        """The topic, created if need be; `InputError` if it has another number of partitions."""

    async def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """They count from the topic's next opening on."""

    async def delete(self, name: str) -> None:
        """Remove a topic, its messages, its groups and its dead letters, for good."""


class Tiers(Protocol):
    """For one event loop."""

    async def residency(self) -> list[Residence]:
        """Where the segments are."""


class Log(ReadableLog, Protocol):
    """For one event loop."""

    @property
    def tiers(self) -> Tiers: ...

    async def append_record(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Append one record; it has its id at once and is durable after a flush.

        Never waits: `WouldBlock` says what it would have waited for.
        """

    async def append_records(
        self, payloads: Sequence[Buffer], *, ext_ids: Numbers = 0, timestamps: Numbers | None = None
    ) -> Sequence[RecordId]:
        """Append many at once. `WouldBlock.record_ids` has those that were appended before it."""

    async def append_record_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """As `append_record`, waiting up to `timeout` seconds for what it would wait for."""

    async def flush(
        self, record_id: RecordId | None = None, *, timeout: float | None = None
    ) -> None:
        """Until that record, or everything appended so far, is durable.

        After a `RetryError` (the disk is full) or `OutcomeUnknown` (the seconds passed) the records
        are still queued: call this again, and do not append them again.
        """

    async def seal_current_segment(self, *, timeout: float | None = None) -> SegmentInfo | None:
        """Seal the segment that is written, and return when that is durable.

        None if it has no record: there is nothing to seal.
        """

    @property
    async def coordinator_watermark(self) -> int: ...

    async def set_coordinator_watermark(self, watermark: int) -> None:
        """Kept with the next seal and given back after recovery; it never goes back."""

    async def describe(self) -> LogDescription: ...

    async def segments(self) -> Sequence[SegmentInfo]:
        """All that exist now, oldest first."""

    async def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """All segments, and the durable end, which they contain."""

    async def wait_beyond(self, position: RecordId, timeout: float | None = None) -> bool:
        """Until the durable end is beyond `position`; False if the seconds passed first."""


class Bucket(ReadableBucket, Protocol):
    """For one event loop."""

    async def set_versioning(self, versioning: Versioning) -> BucketInfo: ...

    async def put(
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
        """Store bytes, a file or an iterable of bytes, of any size; memory stays bounded.

        `if_none_match="*"` stores it only if there is none, `if_match=etag` only in place of that
        one: `PreconditionFailed` otherwise.
        """

    async def delete(
        self, key: str, *, version_id: str | None = None, if_match: str | None = None
    ) -> Deleted:
        """Hide the object behind a delete marker, or remove the version that is given."""

    async def delete_many(
        self, keys: Iterable[str | ObjectToDelete]
    ) -> builtins.list[Deleted | LakebedError]:
        """Any number; each by itself, its error in its place."""

    async def copy(
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
        """The object under another key, or in another bucket; no byte of it is moved.

        The conditions are those of the target, as in `put`.
        """


class AccessKeys(ReadableAccessKeys, Protocol):
    """For one event loop."""

    async def create(
        self, *, label: str = "", inflight_max: int | None = None, policy: str = RW_POLICY
    ) -> CreatedKey:
        """A new key with a new secret, which is returned this once."""

    async def disable(self, access_key: str) -> KeyInfo:
        """Nothing signed with it is accepted any more. Fine if it is disabled already."""

    async def enable(self, access_key: str) -> KeyInfo:
        """Undo `disable`."""

    async def set_enabled(self, access_key: str, *, is_enabled: bool) -> KeyInfo:
        """What is signed with a disabled key is refused. Fine if it is so already."""


class Pins(ReadPins, Protocol):
    """For one event loop."""

    async def create(
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
        """As `pin` if a log is given, as `pin_offsets` if a topic and a partition are."""

    async def all_active(self) -> list[Pin]:
        """The pins that count now, those of logs first."""


class Damage(ReadableDamage, Protocol):
    """For one event loop."""

    async def list(self) -> list[DamageRecord]:
        """All that is on record, acknowledged or not, oldest first."""

    async def acknowledge(self, record_id: int) -> DamageRecord:
        """Somebody knows of it; `NotFound` if it is not on record."""


class Maintenance(Verification, Protocol):
    """For one event loop."""

    async def upload(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Compress segments and put them into Tier 2."""

    async def retry_upload(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Upload segments whose upload failed for good."""

    async def evict(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        warm: bool = False,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Remove segments that Tier 2 has from Tier 0; with `warm` from Tier 1 as well."""

    async def hydrate(
        self, log: str, *, segments: Sequence[int] | None = None, progress: Progress = no_progress
    ) -> Outcome:
        """Bring segments back into Tier 0."""

    async def repair_tier2(self, log: str, *, progress: Progress = no_progress) -> Outcome:
        """Upload objects again that are missing or damaged."""

    async def migrate_tier2(
        self,
        log: str,
        *,
        address: str | None = None,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Copy a log's objects to another Tier 2 and use that."""

    async def repair_log(
        self, log: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> RepairReport: ...

    async def repair_topic(
        self, topic: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> TopicRepair: ...

    async def mark_objects(
        self, versions: Sequence[NamedVersion], *, progress: Progress = no_progress
    ) -> MarkReport:
        """Read versions again: mark the damaged ones, clear the mark of the others."""


class Store(ReadableStore, Protocol):
    """For one event loop."""

    @property
    def topics(self) -> Topics: ...

    @property
    def pins(self) -> Pins: ...

    @property
    def damage(self) -> Damage: ...

    async def log(self, name: str) -> Log:
        """The log of that name, created if need be."""

    async def open_log(self, name: str) -> Log:
        """`NotFound` if there is none."""

    async def topic(self, name: str, *, partitions: int | None = None) -> Topic:
        """The topic of that name, created if need be with so many partitions, or one.

        `InputError` if it is there with another number of them.
        """

    async def open_bucket(self, name: str) -> Bucket:
        """`NoSuchBucket` if there is none."""

    async def bucket(self, name: str, *, versioning: Versioning | None = None) -> Bucket:
        """The bucket of that name, created if need be.

        `BucketExists` if it is there with another versioning than the one asked for.
        """

    async def delete_bucket(self, name: str) -> None:
        """`BucketNotEmpty` if objects or old versions are left in it; uploads are aborted."""

    @property
    def keys(self) -> AccessKeys:
        """Access keys: who may use the store over TCP, and over S3."""

    async def state(self) -> StoreState:
        """What is in it."""

    async def counters(self) -> dict[str, dict[str, dict[str, int | float]]]:
        """By engine, by log or partition, by name."""

    async def configuration(self) -> dict[str, dict[str, Any]]:
        """The settings that count, by section, secrets hidden."""

    @property
    def maintenance(self) -> Maintenance:
        """Verification, repair and moves between tiers: done by the program that has it open."""
