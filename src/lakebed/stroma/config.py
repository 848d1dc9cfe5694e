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
    """How a group leases messages, and how it stores its state."""

    lease_ms: int = bounded(30_000, minimum=1, maximum=_DAY_MS)
    """How long a lease lasts, unless the caller requests another time."""
    in_flight_max: int = bounded(100_000, minimum=1, maximum=10_000_000)
    """The number of messages of a partition that may be leased at a time."""
    delivery_count_max: int = bounded(0, minimum=0, maximum=1_000_000)
    """A message that was leased this often becomes a dead letter; 0 means never."""
    ack_level: str = AFTER_FSYNC
    """`after_fsync` or `after_write`. With the latter, a power cut may lose the last `sync_ms`."""
    sync_ms: int = bounded(100, minimum=1, maximum=60_000)
    """With `after_write`, changes are synced after this time."""
    per_key_order: bool = False
    """Whether messages with the same key are leased in order, and to one holder at a time."""
    key_window_max: int = bounded(100_000, minimum=1, maximum=10_000_000)
    """The number of unsettled messages whose keys are held in memory for `per_key_order`."""
    compaction_bytes: int = bounded(4 * MIB, minimum=KIB, maximum=GIB)
    """A delta log larger than this, and larger than its snapshot, is folded into a new snapshot."""
    compaction_events: int = bounded(50_000, minimum=1, maximum=10_000_000)
    """A delta log with more events than this, and larger than its snapshot, is folded as well."""
    reserve_bytes: int = bounded(0, minimum=0, maximum=TIB)
    """Changes are refused if they would leave less than this free on the disk."""

    def __post_init__(self) -> None:
        check(self)
        if self.ack_level not in (AFTER_FSYNC, AFTER_WRITE):
            raise BadConfig(
                f"ack_level {self.ack_level!r}: must be {AFTER_FSYNC!r} or {AFTER_WRITE!r}"
            )

    @property
    def syncs_each(self) -> bool:
        """Whether a call returns only after its events are synced."""
        return self.ack_level == AFTER_FSYNC
