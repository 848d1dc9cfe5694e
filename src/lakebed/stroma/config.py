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
    """How a group leases, and how it keeps what it knows."""

    lease_ms: int = bounded(30_000, minimum=1, maximum=_DAY_MS)
    in_flight_max: int = bounded(100_000, minimum=1, maximum=10_000_000)
    delivery_count_max: int = bounded(0, minimum=0, maximum=1_000_000)  # 0: no limit
    ack_level: str = AFTER_FSYNC  # or after_write: a power cut takes back the last `sync_ms`
    sync_ms: int = bounded(100, minimum=1, maximum=60_000)  # of what was only written
    per_key_order: bool = False
    key_window_max: int = bounded(100_000, minimum=1, maximum=10_000_000)  # looked at, unsettled
    # The delta is folded into a snapshot past either, but not before it is as large as that.
    compaction_bytes: int = bounded(4 * MIB, minimum=KIB, maximum=GIB)
    compaction_events: int = bounded(50_000, minimum=1, maximum=10_000_000)
    reserve_bytes: int = bounded(0, minimum=0, maximum=TIB)  # of free disk space

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
