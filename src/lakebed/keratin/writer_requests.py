"""What a partition's writer is asked to do, one after the other, and what it answers."""

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


_BATCH = int(RecordFlags.BATCH)  # a plain number: flags of an enumeration are slow


class Appended(NamedTuple):
    """Where the messages of an append are: they follow one another.

    But for one that a crash cut in two and its producer sent again: the offset is the first one's,
    and others may have written between the two parts.
    """

    base_offset: int
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Records to write, complete but for their offsets.

    With none it is a sync. One that is a batch takes `message_count` offsets, and its payload
    alone.
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
    """Anything else that only one may do at a time: what it returns is the answer."""

    apply: Callable[[PartitionWriter], object]


Work = Append | Change
