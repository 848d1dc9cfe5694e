"""The limits of a barrier, which an engine derives from its own settings."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, KIB, MIB, TIB


@dataclass(frozen=True, kw_only=True)
class CommitConfig:
    """The limits of a barrier: batch size, delay, queue size and disk reserve."""

    batch_bytes_max: int = bounded(8 * MIB, minimum=4 * KIB, maximum=GIB)
    """The maximum number of bytes in one commit, except that a larger item is committed alone."""
    batch_count_max: int = bounded(4096, minimum=1, maximum=1_000_000)
    """The maximum number of records in one commit, except that a larger item is committed alone."""
    delay_ms_max: int = bounded(5, minimum=0, maximum=60_000)
    """Items that no caller waits for are committed at most this long after they were submitted, or
    after the commit that is then running.
    """
    queue_bytes_max: int = bounded(64 * MIB, minimum=4 * KIB, maximum=16 * GIB)
    """The maximum number of bytes queued or being committed. A call that would exceed it waits, or
    gets `Busy`.
    """
    queue_count_max: int = bounded(65_536, minimum=1, maximum=10_000_000)
    """The maximum number of items queued or being committed. A call that would exceed it waits, or
    gets `Busy`.
    """
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Writes are refused if less than this would stay free on the disk."""

    def __post_init__(self) -> None:
        check(self)
        if self.batch_bytes_max > self.queue_bytes_max:
            raise BadConfig(
                f"batch_bytes_max is {self.batch_bytes_max}, "
                f"more than queue_bytes_max ({self.queue_bytes_max})"
            )
