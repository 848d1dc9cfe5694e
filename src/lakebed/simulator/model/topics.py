"""The expected contents of a topic: the messages of each partition by offset.

- A message acknowledged after the sync exists once, at its offset and unchanged. Offsets ascend;
  the messages of one append get consecutive offsets.
- A message acknowledged before the sync (`after_write`) may not be readable yet. A power cut may
  lose it, so after the cut it is in doubt.
- A failed append is in doubt, too: the next read decides whether its messages exist. If the outcome
  of an append is unknown, the first read after the topic was reopened decides.
- Otherwise only truncation, retention and compaction remove messages, as the settings allow. A
  message that the simulator damaged may be missing. A new topic contains nothing of a deleted topic
  of the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, Violation, brief, require

UNSYNCED_NS = 3 * 10**9
"""The age from which writes are surely synced, even if they were acknowledged before the sync."""


class ModelMessage(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    not_before_ms: int = 0
    timestamp_ms: int = 0
    producer: tuple[int, int] | None = None  # id and sequence


class SeenMessage(NamedTuple):
    offset: int
    message: ModelMessage


@dataclass(eq=False)
class Doubt:
    """An append in doubt: its messages may have been stored or not."""

    messages: Sequence[ModelMessage]
    is_open: bool = True  # it may still take effect: it is in progress or its outcome is unknown
    left: list[ModelMessage] = field(init=False)  # the messages that no read has returned yet

    def __post_init__(self) -> None:
        self.left = list(self.messages)


@dataclass
class TopicRule:
    """The topic settings that decide which messages may be removed, and when an append is
    durable.
    """

    compact: bool = False
    retention_ms: int = 0
    retention_bytes: int = 0
    tombstone_ms: int = 0
    syncs: bool = True  # appends are acknowledged after the sync

    def or_else(self, other: TopicRule) -> TopicRule:
        """Returns a rule that allows every removal that this or the other rule allows."""
        return TopicRule(
            compact=self.compact or other.compact,
            retention_ms=self.retention_ms or other.retention_ms,
            retention_bytes=self.retention_bytes or other.retention_bytes,
            tombstone_ms=min(self.tombstone_ms, other.tombstone_ms),
            syncs=self.syncs,
        )


@dataclass
class PartitionModel:
    """The expected contents of one partition."""

    name: str
    messages: dict[int, ModelMessage] = field(default_factory=dict)
    written_ns: dict[int, int] = field(
        default_factory=dict
    )  # offset → when the message was written, if it may not be synced
    start: int = 0
    end: int = 0  # the offset after the last known message
    truncated_before: int = 0
    maybe_truncated_before: int = 0
    doubts: list[Doubt] = field(default_factory=list)
    removed: dict[int, ModelMessage] = field(default_factory=dict)  # by compaction
    places: dict[bytes | None, int] = field(default_factory=dict)  # value → offset
    copied: set[bytes | None] = field(
        default_factory=set
    )  # redriven values, which may be stored again
    copies: Counter[bytes | None] = field(
        default_factory=Counter
    )  # redriven values → number of copies that may still appear
    is_damaged: bool = False
    in_flight: int = 0

    def acknowledged(self, doubt: Doubt, base: int, rule: TopicRule, now_ns: int) -> None:
        self.refused(doubt)
        for number, message in enumerate(doubt.messages):
            offset = base + number
            known = self.messages.get(offset)
            what = f"{self.name}: offset {offset} was assigned to two messages"
            if known is not None:
                require(_same(known, message), Promise.ONCE, what)
            self._add(offset, message)
            if not rule.syncs:
                self.written_ns[offset] = now_ns
        if rule.syncs:  # the sync also covered everything before it
            for offset in [offset for offset in self.written_ns if offset < base]:
                del self.written_ns[offset]
        self.end = max(self.end, base + len(doubt.messages))

    def refused(self, doubt: Doubt) -> None:
        """Records that the append stored nothing and never will."""
        if doubt in self.doubts:
            self.doubts.remove(doubt)

    def closed(self) -> None:
        """Records that the partition was closed cleanly, which syncs all writes."""
        self.written_ns.clear()

    def settled(self) -> None:
        """Records that the topic was reopened, so no earlier append is still in progress."""
        for doubt in self.doubts:
            doubt.is_open = False

    def lost_power(self, now_ns: int, limit_ns: int) -> None:
        """Records that a power cut may have lost the unsynced messages of the last `limit_ns`.

        Puts them, and all messages after the first of them, in doubt.
        """
        at_risk = [at for at, when in self.written_ns.items() if now_ns - when <= limit_ns]
        self.written_ns.clear()
        if at_risk:
            first = min(at_risk)
            lost = [offset for offset in self.messages if offset >= first]
            for offset in sorted(lost):
                message = self.messages.pop(offset)
                if self.places.get(message.value) == offset:
                    del self.places[message.value]
                self.doubts.append(Doubt([message], is_open=False))
            self.end = max(self.messages, default=self.start - 1) + 1

    def read(
        self, seen: Sequence[SeenMessage], *, start: int, end: int, rule: TopicRule, now_ns: int
    ) -> None:
        """Checks the messages of the whole partition, as a reader returned them.

        Readers return only synced messages, so a message that was acknowledged before its sync may
        still be missing.
        """
        self._started(start, rule)
        previous = -1
        for offset, message in seen:
            require(
                offset > previous,
                Promise.ORDER,
                f"{self.name}: offset {offset} was read out of order",
            )
            previous = offset
            known = self.messages.get(offset)
            if known is None:
                self.adopt(offset, message)
            else:
                self._compare(offset, known, message)
        offsets = {offset for offset, _ in seen}
        for offset in [at for at, when in self.written_ns.items() if now_ns - when > UNSYNCED_NS]:
            del self.written_ns[offset]
        unseen = min(self.written_ns, default=self.end)
        self._missing(
            [at for at in self.messages if at not in offsets and start <= at < unseen], rule
        )
        if not self.is_damaged:
            what = f"{self.name}: the end offset is {end}, but messages exist up to {unseen}"
            require(end >= unseen, Promise.KEPT, what)
        self.end = max(self.end, end)
        for offset in [at for at in self.messages if at < start]:
            del self.messages[offset]
        self.doubts = [doubt for doubt in self.doubts if doubt.is_open]

    def restored(
        self, durable: Collection[int], found: Container[int], *, start: int, rule: TopicRule
    ) -> None:
        """Checks that a restored backup has all offsets that were durable before the backup.

        `rule` must also allow what the settings in the backup allow. Retention and truncation
        explain only missing messages before `start`, where the restored partition begins.
        """
        missing = [offset for offset in durable if offset not in found]
        if rule.retention_bytes or rule.retention_ms or self.maybe_truncated_before:
            missing = [offset for offset in missing if offset >= start]
        what = f"{self.name}: messages are missing from a restored backup"
        require(not missing or rule.compact, Promise.BACKUP, what)

    def _started(self, start: int, rule: TopicRule) -> None:
        what = f"{self.name}: the start offset went back from {self.start} to {start}"
        require(start >= self.start or self.is_damaged, Promise.DELETED, what)
        if start > max(self.start, self.truncated_before, self.maybe_truncated_before):
            may = rule.retention_bytes or rule.retention_ms or self.is_damaged
            what = f"{self.name}: messages before {start} were removed, but no setting allows it"
            require(bool(may), Promise.REMOVAL, what)
        what = f"{self.name}: truncated messages before {self.truncated_before} are back"
        require(start >= self.truncated_before, Promise.DELETED, what)
        self.start = max(self.start, start)

    def adopt(self, offset: int, message: ModelMessage) -> None:
        """Adds a message that was read at an offset that no acknowledged append covers.

        It must come from an append in doubt, a redrive or an undone compaction; anything else is a
        `Violation`.
        """
        known = self.removed.get(offset)
        if known is not None and _same(known, message):
            self.messages[offset] = known
            return
        for doubt in self.doubts:
            for index, other in enumerate(doubt.left):
                if _same(other, message):
                    del doubt.left[index]
                    self._add(offset, message)
                    return
        if self.copies[message.value] > 0:
            self.copies[message.value] -= 1
            self._add(offset, message)
            return
        what = (
            f"{self.name}: offset {offset} has {brief(message.value)}, which must not exist there"
        )
        is_known = any(_same(other, message) for other in self.messages.values())
        raise Violation(Promise.ONCE if is_known else Promise.NEVER_LATER, what)

    def may_be_copied(self, value: bytes | None) -> None:
        """Records that a redrive may store one more message with this value."""
        self.copies[value] += 1
        self.copied.add(value)

    def _add(self, offset: int, message: ModelMessage) -> None:
        place = self.places.setdefault(message.value, offset)
        if place != offset and message.value is not None and message.value not in self.copied:
            what = f"{self.name}: {brief(message.value)} is stored twice, at {place} and {offset}"
            raise Violation(Promise.ONCE, what)
        self.messages[offset] = message
        self.end = max(self.end, offset + 1)

    def _compare(self, offset: int, known: ModelMessage, seen: ModelMessage) -> None:
        promise = Promise.DAMAGE_NEVER_SERVED if self.is_damaged else Promise.KEPT
        what = (
            f"{self.name}: offset {offset} has {brief(seen.value)}, expected {brief(known.value)}"
        )
        require(_same(known, seen), promise, what)

    def _missing(self, missing: Sequence[int], rule: TopicRule) -> None:
        if self.is_damaged:
            return
        last_of_key: dict[bytes, int] = {}
        for offset, message in self.messages.items():
            if message.key is not None:
                last_of_key[message.key] = max(offset, last_of_key.get(message.key, -1))
        for offset in missing:
            message = self.messages[offset]
            is_superseded = (
                rule.compact and message.key is not None and last_of_key[message.key] > offset
            )
            is_tombstone = rule.compact and message.value is None
            what = f"{self.name}: acknowledged offset {offset} ({brief(message.value)}) is missing"
            require(is_superseded or is_tombstone, Promise.KEPT, what)
        for offset in list(missing):  # a crash may undo a compaction
            self.removed[offset] = self.messages.pop(offset)


def _same(one: ModelMessage, other: ModelMessage) -> bool:
    return one[:3] == other[:3]


@dataclass
class TopicModel:
    """The expected contents of one topic, from its creation to its deletion."""

    name: str
    topic_id: str
    partitions: list[PartitionModel]
    rule: TopicRule = field(
        default_factory=TopicRule
    )  # allows what any settings since its creation allowed
    is_damaged: bool = False
    former_letters: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """The names of deleted groups, with their dead letters, each as a partition and an offset."""

    @property
    def is_kept_whole(self) -> bool:
        """Whether no retention or compaction was ever enabled for the topic."""
        rule = self.rule
        return not (rule.compact or rule.retention_bytes or rule.retention_ms)
