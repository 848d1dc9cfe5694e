"""Decides whether a spare segment is filled with zeros now.

Filling a segment shortens every later sync of it, but all its bytes are written twice. So only the
segments of busy logs are filled: immediately if the log's flushes are small, because small flushes
gain the most; otherwise only while the log spends less than half of its time in flushes, because
the writes would slow down a saturated log.
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
    """The recent write load of a log."""

    bytes_per_s: int  # average since the active segment was started
    flush_bytes: int  # average size of a flush
    flush_share: float | None  # share of recent time spent in flushes; None if unknown

    @property
    def is_busy(self) -> bool:
        flushes_per_s = self.bytes_per_s // max(1, self.flush_bytes)
        return self.bytes_per_s >= BUSY_BYTES_PER_S or flushes_per_s >= BUSY_FLUSHES_PER_S


class FillDecision(Enum):
    NO = "no"
    NOW = "now"
    LATER = "later"  # decide again soon


def decide_fill(load: Load, *, has_begun: bool) -> FillDecision:
    """Decides whether a spare segment is filled. If filling has begun, it continues even if the log
    is no longer busy.
    """
    if not load.is_busy and not has_begun:
        return FillDecision.NO
    if load.flush_bytes <= SMALL_FLUSH_BYTES:
        return FillDecision.NOW
    if load.flush_share is None or load.flush_share >= SATURATED_SHARE:
        return FillDecision.LATER
    return FillDecision.NOW
