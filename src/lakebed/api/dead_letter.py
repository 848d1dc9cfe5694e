"""A message that was delivered too often, and what its headers tell of where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message

_PREFIX = "lakebed-dead-letter-"
TOPIC = _PREFIX + "topic"
PARTITION = _PREFIX + "partition"
OFFSET = _PREFIX + "offset"
TOPIC_ID = _PREFIX + "topic-id"
GROUP = _PREFIX + "group"
DELIVERIES = _PREFIX + "deliveries"
DROPPED_HEADERS = _PREFIX + "dropped-headers"  # why the message's own headers are left out


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


class DeadLetter(NamedTuple):
    """One message of a dead-letter topic."""

    origin: Origin
    message: Message  # as it is in that topic


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
