"""A message that a consumer group holds for a while, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message
from lakebed.keratin.partition import Partition
from lakebed.stroma.leasing import Grant

Ranges = list[tuple[int, int]]


class LeasedMessage(NamedTuple):
    """Whoever has it acks it, gives it back or extends it before `deadline_ms`."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    delivery_count: int  # with this time
    epoch: int  # fences whoever held it before
    deadline_ms: int  # since 1970

    @property
    def message(self) -> Message:
        """As it is in the log."""
        return Message(self.offset, self.timestamp_ms, self.key, self.value, self.headers)


class Leased(NamedTuple):
    """What there is of a lease."""

    messages: list[LeasedMessage]
    gone: Ranges  # compacted away, removed or lost since the group looked at them


def read_leased(partition: Partition, grant: Grant) -> Leased:
    """The messages of a lease, from the log."""
    found: list[LeasedMessage] = []
    gone: Ranges = []
    for start, end, delivery_count in grant.leased:
        position = start
        for message in messages_between(partition, start, end):
            if message.offset > position:
                gone.append((position, message.offset))
            position = message.offset + 1
            found.append(
                LeasedMessage(
                    partition.number,
                    message.offset,
                    message.timestamp_ms,
                    message.key,
                    message.value,
                    message.headers,
                    delivery_count,
                    grant.epoch,
                    grant.deadline_ms,
                )
            )
        if position < end:
            gone.append((position, end))
    return Leased(found, gone)


def messages_between(partition: Partition, start: int, end: int) -> Iterator[Message]:
    """The messages of `[start, end)` that are there, whatever retention removes meanwhile."""
    start = max(start, partition.start_offset())
    while start < end:
        try:
            for message in partition.read(start, end, skip_damage=True):
                yield message
                start = message.offset + 1
            return
        except OffsetOutOfRange as error:
            if error.start_offset <= start:
                raise
            start = error.start_offset
