"""The status of a message in a group.

    FRESH      not examined yet: its key and schedule must be read from the log first
    AVAILABLE  can be leased now
    WAITING    can be leased from `time_ms` on
    LEASED     held under `epoch` until `time_ms`
    SETTLED    acked, dead-lettered, skipped by a seek or not deliverable; this is final until a
               reset or a seek

`deliveries` is how many times the message was leased, without leases that were undone. A waiting
message that was never leased is scheduled: its `time_ms` is a wall clock time. All other times are
those of the group's clock.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class StatusKind(Enum):
    FRESH = "fresh"
    AVAILABLE = "available"
    WAITING = "waiting"
    LEASED = "leased"
    SETTLED = "settled"


class MessageStatus(NamedTuple):
    """The status of a message, or of consecutive messages with the same status."""

    kind: StatusKind
    deliveries: int = 0
    time_ms: int = 0
    epoch: int = 0

    @property
    def is_scheduled(self) -> bool:
        return self.kind is StatusKind.WAITING and not self.deliveries


FRESH = MessageStatus(StatusKind.FRESH)
AVAILABLE = MessageStatus(StatusKind.AVAILABLE)
SETTLED = MessageStatus(StatusKind.SETTLED)
