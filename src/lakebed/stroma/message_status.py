"""How a message stands with a group.

    FRESH      nobody looked at it yet: the log may have something to say about it
    AVAILABLE  can be leased now
    WAITING    can be leased from `time_ms` on
    LEASED     held under `epoch` until `time_ms`
    SETTLED    acked, dead-lettered, or nothing to deliver; for good, until a reset or a seek

`deliveries` is how often it was leased. One that waits and was never leased is scheduled: its time
is ms since 1970 of the wall clock. All other times are those of the group's clock.
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
    """Shared by all messages of a run."""

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
