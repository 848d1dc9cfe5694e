"""A message as a consumer group hands it out: leased for a while, or only peeked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message


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
    incarnation: str  # of its topic and group: another one once either was made again

    @property
    def message(self) -> Message:
        """As it is in the log."""
        return Message(self.offset, self.timestamp_ms, self.key, self.value, self.headers)


class PeekedMessage(NamedTuple):
    """A message that would be delivered next: a `LeasedMessage` without the fields of a lease."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def message(self) -> Message:
        """As it is in the log."""
        return Message(self.offset, self.timestamp_ms, self.key, self.value, self.headers)


Ranges = list[tuple[int, int]]


def by_lease(messages: Iterable[LeasedMessage]) -> Iterator[tuple[int, int, str, Ranges]]:
    """The partition, epoch, incarnation and ranges of offsets of those leased together."""
    held: dict[tuple[int, int, str], list[int]] = {}
    for message in messages:
        lease = (message.partition, message.epoch, message.incarnation)
        held.setdefault(lease, []).append(message.offset)
    for lease, offsets in sorted(held.items()):
        yield *lease, _ranges(offsets)


def _ranges(offsets: list[int]) -> Ranges:
    offsets.sort()
    first, last = offsets[0], offsets[-1]
    if last - first == len(offsets) - 1:  # as a lease has them, nearly always
        return [(first, last + 1)]
    ranges: Ranges = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges
