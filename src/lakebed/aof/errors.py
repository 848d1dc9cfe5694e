"""Errors of appending to a log: back-pressure, and records that are queued and not durable."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lakebed.aof.record_id import RecordId
from lakebed.base.errors import Busy, OutcomeUnknown


class BackpressureKind(Enum):
    """What an append waits for."""

    ADMISSION = "admission"  # a writable segment
    ROLLOVER = "rollover"  # the segment before the last one to be sealed
    FLUSH = "flush"  # appended bytes to become durable
    HYDRATION = "hydration"  # a segment to come back from a colder tier
    TAIL = "tail"  # a follower of the tail
    UNKNOWN = "unknown"


AWAITED = frozenset({BackpressureKind.ADMISSION, BackpressureKind.ROLLOVER, BackpressureKind.FLUSH})
"""What an awaited append waits out: the log itself resolves it. The others are for the caller."""


class WouldBlock(Busy):
    """Nothing was appended, except `record_ids`: the first records of a batch."""

    def __init__(
        self, kind: BackpressureKind, why: str, *, record_ids: Sequence[RecordId] = ()
    ) -> None:
        super().__init__(f"{why} (waits for: {kind.value})")
        self.kind = kind
        self.record_ids = record_ids


class NotDurableYet(OutcomeUnknown):
    """The records are appended and queued but not durable yet.

    Appending them again could store them twice: flush up to the last of `record_ids` instead.
    """

    def __init__(self, why: str, *, record_ids: Sequence[RecordId] = ()) -> None:
        super().__init__(why)
        self.record_ids = record_ids
