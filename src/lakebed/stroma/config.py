"""The settings of a consumer group."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, KIB, MIB, TIB

AFTER_FSYNC = "after_fsync"
AFTER_WRITE = "after_write"
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class GroupConfig:
    """Configures how a group leases messages and stores its state."""

    lease_ms: int = bounded(30_000, minimum=1, maximum=_DAY_MS)
    """A message is held so long by whoever leased it."""
    in_flight_max: int = bounded(100_000, minimum=1, maximum=10_000_000)
    """So many messages of a partition are leased at a time."""
    delivery_count_max: int = bounded(0, minimum=0, maximum=1_000_000)
    """A message that was leased so often is a dead letter; 0: never."""
    ack_level: str = AFTER_FSYNC
    """`after_fsync`, or `after_write`: a power cut takes back the last `sync_ms`."""
    sync_ms: int = bounded(100, minimum=1, maximum=60_000)
    """What was only written is synced after so long."""
    per_key_order: bool = False
    """Whether messages of one key are leased in order, and to one holder at a time."""
    key_window_max: int = bounded(100_000, minimum=1, maximum=10_000_000)
    """So many unsettled messages are known at a time for that."""
    compaction_bytes: int = bounded(4 * MIB, minimum=KIB, maximum=GIB)
    """A delta that is larger, and larger than its snapshot, is folded into a new one."""
    compaction_events: int = bounded(50_000, minimum=1, maximum=10_000_000)
    """One of more events is, too."""
    reserve_bytes: int = bounded(0, minimum=0, maximum=TIB)
    """Groups leave so much of the disk free."""

    def __post_init__(self) -> None:
        check(self)
        if self.ack_level not in (AFTER_FSYNC, AFTER_WRITE):
            raise BadConfig(
                f"ack_level = {self.ack_level!r}: allowed are {AFTER_FSYNC} and {AFTER_WRITE}"
            )

    @property
    def syncs_each(self) -> bool:
        """Whether a call returns only when its events are on the device."""
        return self.ack_level == AFTER_FSYNC
