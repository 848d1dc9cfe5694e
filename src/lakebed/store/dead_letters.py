"""Messages that were delivered too often: kept in a topic of their own, and sent back from there.

`<topic>.dead-letters` has the messages of all groups of a topic, as they were, and in their headers
where they come from. A message goes there before it is settled, so it is never lost; if the process
ends in between, it goes there twice. The limits of that topic do not apply to letters, nor those of
the topic they come from when they are sent back: one that was taken once is not refused later.

The letters are deleted with their topic. Each has that topic's id, so a new topic of the same name
never sends back letters of the old one, should they be left.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.api.dead_letter import origin_of
from lakebed.base.errors import BadName
from lakebed.base.units import KIB, MIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.message import Message
from lakebed.keratin.partition import Partition
from lakebed.keratin.paths import check_topic_name

SUFFIX = ".dead-letters"
_HEADERS_BYTES_MAX = 64 * KIB  # more than the headers above ever take
_MESSAGE_BYTES_MAX = 64 * MIB  # of any topic


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


def are_letters_of(topic: str, partitions: Iterable[Partition]) -> bool:
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
