"""Errors of writing to a log: back-pressure, and records that are queued but not durable yet."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lakebed.aof.record_id import RecordId
from lakebed.base.errors import Busy, OutcomeUnknown


class BackpressureKind(Enum):
    """What must happen before a call that was refused, or that waits, can succeed."""

    ADMISSION = "admission"  # a writable segment is available
    ROLLOVER = "rollover"  # the next segment can be started
    FLUSH = "flush"  # appended bytes become durable
    HYDRATION = "hydration"  # a segment is restored from a colder tier
    TAIL = "tail"  # a new record becomes durable
    UNKNOWN = "unknown"  # something else


AWAITED = frozenset({BackpressureKind.ADMISSION, BackpressureKind.ROLLOVER, BackpressureKind.FLUSH})
"""The kinds for which an append through `lakebed.aio`, the HTTP API or a client waits, if it may
wait, because the log resolves them by itself. Such an append raises the other kinds immediately."""


class WouldBlock(Busy):
    """A call to a log would have to wait, or reached its timeout; `kind` is what it waits for.

    If a batch was appended in part, `record_ids` are the ids of its first records, which were
    appended; otherwise `record_ids` is empty and nothing was appended.
    """

    def __init__(
        self, kind: BackpressureKind, why: str, *, record_ids: Sequence[RecordId] = ()
    ) -> None:
        super().__init__(f"{why} (waiting for: {kind.value})")
        self.kind = kind
        self.record_ids = record_ids


class NotDurableYet(OutcomeUnknown):
    """Some appended records are queued but not durable yet.

    Do not append them again, because they could then be stored twice: flush the log instead, up to
    the last of `record_ids` if there are any.
    """

    def __init__(self, why: str, *, record_ids: Sequence[RecordId] = ()) -> None:
        super().__init__(why)
        self.record_ids = record_ids
