"""Dead letters: messages that were delivered too many times, kept in a topic of their own.

The topic `<topic>.dead-letters` has the dead letters of all groups of a topic. A dead letter has
the key, the value and the headers of the message, and additional headers that record where it came
from; it can be sent back to its original topic. (If the headers cannot be stored, the letter is
written without them.) A message is written durably to the dead-letter topic before the group marks
it as settled (never to be delivered again), so it is not lost; if the process ends in between, it
is written twice. The message limits of the two topics do not apply to dead letters, neither when
they are written nor when they are sent back: a message that was accepted once is not refused later.

Deleting a topic also deletes its dead-letter topic, unless that cannot be opened, or begins with
messages that are not dead letters of the topic. Each letter has the id of its original topic, so a
new topic of the same name does not get letters that an old one left. Only letters that older
versions of Lakebed wrote have no such id; any topic of that name gets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.base.errors import BadName
from lakebed.base.units import KIB, MIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.damage import raise_unreadable
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
DROPPED_HEADERS = _PREFIX + "dropped-headers"  # why the letter lacks the message's own headers
_HEADERS_BYTES_MAX = 64 * KIB  # more than the headers above ever take
LETTERS_MAX = 100_000  # per page
LETTER_BYTES_MAX = 32 * MIB  # per page
_MESSAGE_BYTES_MAX = 64 * MIB  # the largest limit that a topic can have


class Origin(NamedTuple):
    """Where a dead letter came from: its original topic, partition, offset and group."""

    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int  # before the message became a dead letter
    topic_id: str = ""  # empty if an older version of Lakebed wrote the letter: then not compared

    def is_of(self, topic: str, *, topic_id: str, group: str) -> bool:
        """Whether the letter is from this group and topic, not an earlier topic of that name."""
        has_names = (self.topic, self.group) == (topic, group)
        return has_names and self.topic_id in ("", topic_id)

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
    """One message of a dead-letter topic, and where it came from.

    `topic`, `partition`, `offset` and `topic_id` are those of the original message.
    """

    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int
    letter_offset: int  # this and the fields up to `flags` are those in the dead-letter topic
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    flags: int
    topic_id: str = ""  # empty if an older version of Lakebed wrote the letter

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
        """The message as it is stored in the dead-letter topic."""
        return Message(
            self.letter_offset, self.timestamp_ms, self.key, self.value, self.headers, self.flags
        )


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A page of dead letters, and where in the dead-letter topic the next page begins.

    The keys and values of a page take up to `LETTER_BYTES_MAX` bytes, or more if the page has only
    one letter. `next_partition` and `next_offset` are None on the last page.
    """

    letters: list[DeadLetter]
    next_partition: int | None = None
    next_offset: int | None = None


def origin_of(message: Message) -> Origin | None:
    """Returns where a dead letter came from, according to its headers.

    Returns None if the headers lack that, or it cannot be decoded: then it is no dead letter.
    """
    headers = dict(message.headers)
    try:
        return Origin(
            topic=(headers[TOPIC] or b"").decode(),
            partition=int(headers[PARTITION] or b""),
            offset=int(headers[OFFSET] or b""),
            group=(headers[GROUP] or b"").decode(),
            delivery_count=int(headers[DELIVERIES] or b""),
            topic_id=(headers.get(TOPIC_ID) or b"").decode(),
        )
    except (KeyError, ValueError):
        return None


def own_headers(headers: Sequence[Header]) -> tuple[Header, ...]:
    """Returns a dead letter's headers without those that were added when it was written."""
    return tuple((name, value) for name, value in headers if not name.startswith(_PREFIX))


def dead_letter_topic(topic: str) -> str:
    """Returns the name of a topic's dead-letter topic.

    Raises `BadName` if that name would be too long.
    """
    name = topic + SUFFIX
    try:
        check_topic_name(name)
    except BadName:
        raise BadName(
            f"topic {topic[:60]}…: the name is too long to append {SUFFIX!r} for its dead letters; "
            "use a topic with a shorter name"
        ) from None
    return name


def settings_for(config: TopicConfig) -> dict[str, object]:
    """Returns the settings with which the dead-letter topic of a topic is created.

    `config` is the configuration of the topic itself. A dead-letter topic is not compacted, so that
    all letters with the same key are kept. Its message limit has room for the headers that a dead
    letter adds, but is never above the largest limit that a topic can have.
    """
    message_bytes_max = min(config.message_bytes_max + _HEADERS_BYTES_MAX, _MESSAGE_BYTES_MAX)
    return {
        "compact": False,
        "message_bytes_max": message_bytes_max,
        "request_bytes_max": max(config.request_bytes_max, message_bytes_max + _HEADERS_BYTES_MAX),
    }


def are_letters_of(topic: str, partitions: Iterable[Partition | ReadOnlyPartition]) -> bool:
    """Whether the first readable message of every partition is a dead letter of this topic.

    Partitions without a readable message are ignored. Raises `DiskError` if the device cannot read
    the beginning of a partition, because other messages may be there.
    """
    for partition in partitions:
        batches = partition.read_batches(
            batch_bytes_max=1, skip_damage=True, on_skipped=raise_unreadable
        )
        batch = next(batches, None)
        origin = None if batch is None else origin_of(next(iter(batch)))
        if batch is not None and (origin is None or origin.topic != topic):
            return False
    return True


def kept_value(message: Message) -> bytes | None:
    """Returns the value to store in a message's dead letter: normally the message's own value.

    Returns empty bytes if the message has neither a key nor a value, because such a message cannot
    be appended.
    """
    return b"" if message.value is None and message.key is None else message.value
