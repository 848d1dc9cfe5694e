"""The limits of a barrier, which an engine derives from its own settings."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, KIB, MIB, TIB


@dataclass(frozen=True, kw_only=True)
class CommitConfig:
    """How much is committed at once, how long it may wait, and how much may be queued."""

    batch_bytes_max: int = bounded(8 * MIB, minimum=4 * KIB, maximum=GIB)
    """A commit takes so many bytes at most."""
    batch_count_max: int = bounded(4096, minimum=1, maximum=1_000_000)
    """A commit takes so many items at most."""
    delay_ms_max: int = bounded(5, minimum=0, maximum=60_000)
    """Items that no caller waits for are committed after this time."""
    queue_bytes_max: int = bounded(64 * MIB, minimum=4 * KIB, maximum=16 * GIB)
    """So many bytes may wait; more are held back."""
    queue_count_max: int = bounded(65_536, minimum=1, maximum=10_000_000)
    """So many items may wait; more are held back."""
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Writes leave so much of the disk free."""

    def __post_init__(self) -> None:
        check(self)
        if self.batch_bytes_max > self.queue_bytes_max:
            raise BadConfig(
                f"batch_bytes_max is {self.batch_bytes_max}, "
                f"more than queue_bytes_max ({self.queue_bytes_max})"
            )
