"""Decides, as a pure function, whether a spare segment is zero-filled now.

Zero-filling shortens every sync into the segment, but writes all its bytes twice. So only busy logs
do it: at once if their flushes are small, because those gain the most, and otherwise while the log
pauses, because a second write would slow down a saturated log.
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
    """The recent use of a log."""

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
    """Decides what to do with a spare. One that was begun is finished, even if the log is idle
    now.
    """
    if not load.is_busy and not has_begun:
        return FillDecision.NO
    if load.flush_bytes <= SMALL_FLUSH_BYTES:
        return FillDecision.NOW
    if load.flush_share is None or load.flush_share >= SATURATED_SHARE:
        return FillDecision.LATER
    return FillDecision.NOW
