"""The requests to a partition's writer, and the result of an append."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lakebed.base.layout import Buffer
from lakebed.keratin.config import Ack
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Producer
from lakebed.keratin.segment import Numbers

if TYPE_CHECKING:
    from lakebed.keratin.writer import PartitionWriter


_BATCH = int(RecordFlags.BATCH)  # a plain number: operations on enum flags are slow


class Appended(NamedTuple):
    """The result of an append: the offset of its first message, and the number of its messages.

    The offsets are consecutive, with one exception: if a producer sends messages again that are
    stored in several parts, for example because a crash cut the append in two, other messages may
    lie between the parts.
    """

    base_offset: int
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Records to write, complete except for their offsets.

    An append without payloads only requests a sync. A record batch is a single payload that takes
    `message_count` offsets.
    """

    payloads: Sequence[Buffer]
    headers: Sequence[Buffer | None] | None = None
    timestamps_ms: Numbers = 0
    flags: Numbers = 0
    ack: Ack = Ack.AFTER_FSYNC
    size: int = 0
    message_count: int = 0
    producer: Producer | None = None  # of the first message

    @property
    def is_batch(self) -> bool:
        return isinstance(self.flags, int) and bool(self.flags & _BATCH)


SYNC = Append(payloads=())


@dataclass(frozen=True, slots=True)
class Change:
    """A function for the writer to run between two commits. Its return value is the answer."""

    apply: Callable[[PartitionWriter], object]


Work = Append | Change
