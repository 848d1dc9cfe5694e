"""A message as a consumer group returns it: leased until a deadline, or only peeked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message


class LeasedMessage(NamedTuple):
    """A message that is leased to a consumer until `deadline_ms`.

    Before that, the consumer acks it, gives it back or extends the lease.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    delivery_count: int  # including this delivery
    epoch: int  # identifies the lease: acks under an earlier lease's epoch are refused
    deadline_ms: int  # since 1970
    incarnation: str  # identifies the topic and the group: see `Held`

    @property
    def message(self) -> Message:
        """The message as it is stored in the log, but without its flags."""
        return Message(self.offset, self.timestamp_ms, self.key, self.value, self.headers)


class PeekedMessage(NamedTuple):
    """A message that would be delivered next: a `LeasedMessage` without the lease's fields."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def message(self) -> Message:
        """The message as it is stored in the log, but without its flags."""
        return Message(self.offset, self.timestamp_ms, self.key, self.value, self.headers)


_Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Ranges = Sequence[tuple[_Offset, _Offset]]


class Held(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages of one partition that were leased together, given by their offsets.

    `epoch` identifies the lease. `incarnation` identifies the topic and the group: it changes when
    one of them is deleted and created again, when a file of the group is lost, or when the store is
    restored from a backup.
    """

    partition: int
    epoch: int
    incarnation: str
    ranges: list[tuple[_Offset, _Offset]]  # half-open


def held_of(messages: Iterable[LeasedMessage]) -> list[Held]:
    """Returns the offsets of leased messages: one `Held` for each partition and lease."""
    leases: dict[tuple[int, int, str], list[int]] = {}
    for message in messages:
        lease = (message.partition, message.epoch, message.incarnation)
        leases.setdefault(lease, []).append(message.offset)
    return [Held(*lease, _ranges(offsets)) for lease, offsets in sorted(leases.items())]


def _ranges(offsets: list[int]) -> list[tuple[int, int]]:
    offsets.sort()
    first, last = offsets[0], offsets[-1]
    if last - first == len(offsets) - 1:  # the usual case for a lease
        return [(first, last + 1)]
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges
