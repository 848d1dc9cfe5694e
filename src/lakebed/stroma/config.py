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
    """How long a lease lasts, unless the consumer requests another duration."""
    in_flight_max: int = bounded(100_000, minimum=1, maximum=10_000_000)
    """Maximum number of messages of a partition that are leased at the same time."""
    delivery_count_max: int = bounded(0, minimum=0, maximum=1_000_000)
    """Number of leases after which a message becomes a dead letter; 0: never."""
    ack_level: str = AFTER_FSYNC
    """Confirm acks `after_fsync`, or `after_write` and risk the last `sync_ms` in a power cut."""
    sync_ms: int = bounded(100, minimum=1, maximum=60_000)
    """With `after_write`: the time after which written acks are synced."""
    per_key_order: bool = False
    """Lease the messages of one key in order and to one holder at a time."""
    key_window_max: int = bounded(100_000, minimum=1, maximum=10_000_000)
    """Maximum number of unsettled messages whose keys are tracked for `per_key_order`."""
    compaction_bytes: int = bounded(4 * MIB, minimum=KIB, maximum=GIB)
    """Size at which a delta log is folded into a new snapshot, unless its snapshot is larger."""
    compaction_events: int = bounded(50_000, minimum=1, maximum=10_000_000)
    """Number of events at which a delta log is folded, unless its snapshot is larger."""
    reserve_bytes: int = bounded(0, minimum=0, maximum=TIB)
    """Free disk space below which changes to groups are refused."""

    def __post_init__(self) -> None:
        check(self)
        if self.ack_level not in (AFTER_FSYNC, AFTER_WRITE):
            raise BadConfig(
                f"ack_level {self.ack_level!r}: must be {AFTER_FSYNC!r} or {AFTER_WRITE!r}"
            )

    @property
    def syncs_each(self) -> bool:
        """Whether a call returns only after its changes are synced."""
        return self.ack_level == AFTER_FSYNC
