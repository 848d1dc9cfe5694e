"""Whether a spare segment is zero-filled now: decided here, from values alone.

Zero-filling shortens every sync into the segment, but all its bytes are written twice. So it is
done for busy logs only; at once where flushes are small, for those gain the most, and else in the
pauses of the log: while it is saturated, the second write would slow down the first.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from lakebed.base.units import KIB, MIB

BUSY_BYTES_PER_S = 1 * MIB
BUSY_FLUSHES_PER_S = 100
SMALL_FLUSH_BYTES = 64 * KIB
SATURATED_SHARE = 0.5


class Load(NamedTuple):
    """How a log was used."""

    bytes_per_s: int  # since its active segment was begun
    flush_bytes: int  # of a flush, on average
    flush_share: float | None  # of the last moments, spent in flushes; None if not known

    @property
    def is_busy(self) -> bool:
        flushes_per_s = self.bytes_per_s // max(1, self.flush_bytes)
        return self.bytes_per_s >= BUSY_BYTES_PER_S or flushes_per_s >= BUSY_FLUSHES_PER_S


class FillDecision(Enum):
    NO = "no"
    NOW = "now"
    LATER = "later"  # look again soon


def decide_fill(load: Load, *, has_begun: bool) -> FillDecision:
    """What to do with a spare; one that was begun is finished, even if the log is idle now."""
    if not load.is_busy and not has_begun:
        return FillDecision.NO
    if load.flush_bytes <= SMALL_FLUSH_BYTES:
        return FillDecision.NOW
    if load.flush_share is None or load.flush_share >= SATURATED_SHARE:
        return FillDecision.LATER
    return FillDecision.NOW
