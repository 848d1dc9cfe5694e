"""Messages that were delivered too often: kept in a topic of their own, and sent back from there.

`<topic>.dead-letters` has the messages of all groups of a topic, as they were, and in their headers
where they come from. A message goes there before it is settled, so it is never lost; if the process
ends in between, it goes there twice. The limits of that topic do not apply to letters, nor those of
the topic they come from when they are sent back: one that was taken once is not refused later.

The letters are deleted with their topic. Each has that topic's id, so a new topic of the same name
never sends back letters of the old one, should they be left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.base.errors import BadName
from lakebed.base.units import KIB, MIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message
from lakebed.keratin.partition import Partition
from lakebed.keratin.paths import check_topic_name
from lakebed.keratin.read_only import ReadOnlyPartition

SUFFIX = ".dead-letters"
_PREFIX = "lakebed-dead-letter-"
TOPIC = _PREFIX + "topic"
PARTITION = _PREFIX + "partition"
OFFSET = _PREFIX + "offset"
TOPIC_ID = _PREFIX + "topic-id"
GROUP = _PREFIX + "group"
DELIVERIES = _PREFIX + "deliveries"
DROPPED_HEADERS = _PREFIX + "dropped-headers"  # why the message's own headers are left out
_HEADERS_BYTES_MAX = 64 * KIB  # more than the headers above ever take
LETTERS_MAX = 100_000  # of a page
LETTER_BYTES_MAX = 32 * MIB  # of a page
_MESSAGE_BYTES_MAX = 64 * MIB  # of any topic


class Origin(NamedTuple):
    """Where a dead letter comes from."""

    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int
    topic_id: str = ""  # empty: written by a version that did not say

    def is_of(self, topic: str, *, topic_id: str, group: str) -> bool:
        """Whether it is a letter of that group, and of no earlier topic of that name."""
        is_named_so = (self.topic, self.group) == (topic, group)
        return is_named_so and self.topic_id in ("", topic_id)

    def headers(self) -> tuple[Header, ...]:
        return (
            (TOPIC, self.topic.encode()),
            *([(TOPIC_ID, self.topic_id.encode())] if self.topic_id else ()),
            (PARTITION, b"%d" % self.partition),
            (OFFSET, b"%d" % self.offset),
            (GROUP, self.group.encode()),
            (DELIVERIES, b"%d" % self.delivery_count),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetter:
    """One message of a dead-letter topic, and where it comes from."""

    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int
    letter_offset: int  # in the dead-letter topic, and all that follows
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    flags: int
    topic_id: str = ""  # of the topic it comes from; empty: written by a version that did not say

    @classmethod
    def of(cls, origin: Origin, message: Message) -> DeadLetter:
        return cls(
            **origin._asdict(),
            letter_offset=message.offset,
            timestamp_ms=message.timestamp_ms,
            key=message.key,
            value=message.value,
            headers=message.headers,
            flags=message.flags,
        )

    @property
    def origin(self) -> Origin:
        return Origin(
            self.topic, self.partition, self.offset, self.group, self.delivery_count, self.topic_id
        )

    @property
    def message(self) -> Message:
        """As it is in the dead-letter topic."""
        return Message(
            self.letter_offset, self.timestamp_ms, self.key, self.value, self.headers, self.flags
        )


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A page of them, of `LETTER_BYTES_MAX` at most. If there are more, it says where."""

    letters: list[DeadLetter]
    next_partition: int | None = None
    next_offset: int | None = None


def origin_of(message: Message) -> Origin | None:
    """None if the message does not say."""
    said = dict(message.headers)
    try:
        return Origin(
            topic=(said[TOPIC] or b"").decode(),
            partition=int(said[PARTITION] or b""),
            offset=int(said[OFFSET] or b""),
            group=(said[GROUP] or b"").decode(),
            delivery_count=int(said[DELIVERIES] or b""),
            topic_id=(said.get(TOPIC_ID) or b"").decode(),
        )
    except (KeyError, ValueError):
        return None


def own_headers(headers: Sequence[Header]) -> tuple[Header, ...]:
    """Those it had before it was a dead letter."""
    return tuple((name, value) for name, value in headers if not name.startswith(_PREFIX))


def dead_letter_topic(topic: str) -> str:
    """`BadName` if the topic's own name leaves no room for it."""
    name = topic + SUFFIX
    try:
        check_topic_name(name)
    except BadName:
        raise BadName(f"topic {topic[:60]}…: its name is too long to have dead letters") from None
    return name


def settings_for(config: TopicConfig) -> dict[str, object]:
    """Those of the dead-letter topic of a topic with that configuration.

    No letter replaces another one with its key, and there is room for the headers above.
    """
    message_bytes_max = min(config.message_bytes_max + _HEADERS_BYTES_MAX, _MESSAGE_BYTES_MAX)
    return {
        "compact": False,
        "message_bytes_max": message_bytes_max,
        "request_bytes_max": max(config.request_bytes_max, message_bytes_max + _HEADERS_BYTES_MAX),
    }


def are_letters_of(topic: str, partitions: Iterable[Partition | ReadOnlyPartition]) -> bool:
    """Whether what can be read begins with dead letters of that topic, in every partition."""
    for partition in partitions:
        batch = next(partition.read_batches(batch_bytes_max=1, skip_damage=True), None)
        origin = None if batch is None else origin_of(next(iter(batch)))
        if batch is not None and (origin is None or origin.topic != topic):
            return False
    return True


def kept_value(message: Message) -> bytes | None:
    """What a letter has as its value: the same, but nothing without a key cannot be appended."""
    return b"" if message.value is None and message.key is None else message.value
