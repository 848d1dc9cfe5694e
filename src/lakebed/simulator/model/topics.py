"""What a topic must hold: its partitions, by offset.

- What was acknowledged is at its offset, once, unchanged; offsets follow one another.
- An append that failed is there or not, which the next look decides; one whose outcome is unknown
  is decided when the topic is opened again.
- Only truncation, retention and compaction remove messages, each as it may; a topic that was
  deleted has nothing to do with the next one of its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, Violation, require

UNSYNCED_NS = 3 * 10**9
"""What was only written so long ago is synced by now."""


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
    """An append that may have happened."""

    messages: Sequence[ModelMessage]
    is_open: bool = True  # it may still happen: it is in progress, or unknown
    left: list[ModelMessage] = field(init=False)  # those that were not seen yet

    def __post_init__(self) -> None:
        self.left = list(self.messages)


@dataclass
class TopicRule:
    """What the settings allow."""

    compact: bool = False
    retention_ms: int = 0
    retention_bytes: int = 0
    tombstone_ms: int = 0
    syncs: bool = True  # an acknowledgement means that it is on the device

    def or_else(self, other: TopicRule) -> TopicRule:
        """What either of them allows to be removed."""
        return TopicRule(
            compact=self.compact or other.compact,
            retention_ms=self.retention_ms or other.retention_ms,
            retention_bytes=self.retention_bytes or other.retention_bytes,
            tombstone_ms=min(self.tombstone_ms, other.tombstone_ms),
            syncs=self.syncs,
        )


@dataclass
class PartitionModel:
    """One partition of one topic."""

    name: str
    messages: dict[int, ModelMessage] = field(default_factory=dict)
    written_ns: dict[int, int] = field(default_factory=dict)  # not certainly synced since then
    start: int = 0
    end: int = 0  # the offset after the last one that is known
    truncated_before: int = 0
    maybe_truncated_before: int = 0
    doubts: list[Doubt] = field(default_factory=list)
    removed: dict[int, ModelMessage] = field(default_factory=dict)  # by compaction
    places: dict[bytes | None, int] = field(default_factory=dict)  # where each value is stored
    copied: set[bytes | None] = field(default_factory=set)  # redriven: they are stored again
    copies: Counter[bytes | None] = field(default_factory=Counter)  # redriven: may come again
    is_damaged: bool = False
    in_flight: int = 0

    def acknowledged(self, doubt: Doubt, base: int, rule: TopicRule, now_ns: int) -> None:
        self.refused(doubt)
        for number, message in enumerate(doubt.messages):
            offset = base + number
            known = self.messages.get(offset)
            what = f"{self.name}: offset {offset} was given out twice"
            if known is not None:
                require(_same(known, message), Promise.ONCE, what)
            self._add(offset, message)
            if not rule.syncs:
                self.written_ns[offset] = now_ns
        if rule.syncs:  # what is on the device is so with everything before it
            for offset in [offset for offset in self.written_ns if offset < base]:
                del self.written_ns[offset]
        self.end = max(self.end, base + len(doubt.messages))

    def refused(self, doubt: Doubt) -> None:
        """It is not in doubt any more."""
        if doubt in self.doubts:
            self.doubts.remove(doubt)

    def closed(self) -> None:
        """It was closed in order: all that was written is synced."""
        self.written_ns.clear()

    def settled(self) -> None:
        """It was opened again: nothing is under way any more."""
        for doubt in self.doubts:
            doubt.is_open = False

    def lost_power(self, now_ns: int, limit_ns: int) -> None:
        """What was only written, so short a while ago, may be lost, from some offset on."""
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
        """What a reader saw of the whole partition, and where the partition says it begins.

        Readers see what is on the device: what was acknowledged after its write comes later.
        """
        self._started(start, rule)
        previous = -1
        for offset, message in seen:
            require(offset > previous, Promise.ORDER, f"{self.name}: offset {offset} out of order")
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
            what = f"{self.name}: it ends at {end}, and had messages up to {unseen}"
            require(end >= unseen, Promise.KEPT, what)
        self.end = max(self.end, end)
        for offset in [at for at in self.messages if at < start]:
            del self.messages[offset]
        self.doubts = [doubt for doubt in self.doubts if doubt.is_open]

    def _started(self, start: int, rule: TopicRule) -> None:
        what = f"{self.name}: it begins at {start}, and began at {self.start}"
        require(start >= self.start or self.is_damaged, Promise.DELETED, what)
        if start > max(self.start, self.truncated_before, self.maybe_truncated_before):
            may = rule.retention_bytes or rule.retention_ms or self.is_damaged
            what = f"{self.name}: messages before {start} are gone, which no setting allows"
            require(bool(may), Promise.REMOVAL, what)
        what = f"{self.name}: messages before {self.truncated_before} were removed, and are back"
        require(start >= self.truncated_before, Promise.DELETED, what)
        self.start = max(self.start, start)

    def adopt(self, offset: int, message: ModelMessage) -> None:
        """A message whose offset no client learned: part of an append in doubt."""
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
        what = f"{self.name}: offset {offset} holds {message.value!r}, which must not be there"
        is_known = any(_same(other, message) for other in self.messages.values())
        raise Violation(Promise.ONCE if is_known else Promise.NEVER_LATER, what)

    def _add(self, offset: int, message: ModelMessage) -> None:
        place = self.places.setdefault(message.value, offset)
        if place != offset and message.value is not None and message.value not in self.copied:
            what = f"{self.name}: {message.value[:20]!r} is stored at {place} and at {offset}"
            raise Violation(Promise.ONCE, what)
        self.messages[offset] = message
        self.end = max(self.end, offset + 1)

    def _compare(self, offset: int, known: ModelMessage, seen: ModelMessage) -> None:
        promise = Promise.DAMAGE_NEVER_SERVED if self.is_damaged else Promise.KEPT
        what = f"{self.name}: offset {offset} holds {seen.value!r}, not {known.value!r}"
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
            what = f"{self.name}: offset {offset} ({message.value!r}) was acknowledged and is gone"
            require(is_superseded or is_tombstone, Promise.KEPT, what)
        for offset in list(missing):  # a crash may undo a compaction
            self.removed[offset] = self.messages.pop(offset)


def _same(one: ModelMessage, other: ModelMessage) -> bool:
    return one[:3] == other[:3]


@dataclass
class TopicModel:
    """One topic, from its creation to its deletion."""

    name: str
    topic_id: str
    partitions: list[PartitionModel]
    rule: TopicRule = field(default_factory=TopicRule)  # what was ever allowed
    is_damaged: bool = False
    former_letters: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """Groups that were deleted, with their dead letters as partition and offset."""

    @property
    def is_kept_whole(self) -> bool:
        """Whether nothing removes messages of it."""
        rule = self.rule
        return not (rule.compact or rule.retention_bytes or rule.retention_ms)
