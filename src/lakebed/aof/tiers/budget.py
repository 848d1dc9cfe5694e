"""Tracks how many bytes each log uses in each tier, and compares the sums with the limits."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.tiers.tiering_policy import Fill
from lakebed.base.runner import Mutex


class Usage(NamedTuple):
    """The number of bytes that one log, or all logs together, use in each tier."""

    tier0_bytes: int = 0  # the used part of every segment
    held_bytes: int = 0  # the part of tier0_bytes that Tier 2 does not have intact
    tier1_bytes: int = 0
    tier2_bytes: int = 0


class TierBudget:
    """The limits of Tiers 0 and 1 for all logs of a root that have tiering on. Thread-safe."""

    def __init__(self, *, tier0_bytes_max: int, tier1_bytes_max: int, mutex: Mutex) -> None:
        self.tier0_bytes_max = tier0_bytes_max
        self.tier1_bytes_max = tier1_bytes_max
        self._mutex = mutex
        self._usages: dict[str, Usage] = {}  # by log; guarded by _mutex

    def report(self, log: str, usage: Usage) -> None:
        with self._mutex:
            self._usages[log] = usage

    def forget(self, log: str) -> None:
        with self._mutex:
            self._usages.pop(log, None)

    def total(self) -> Usage:
        with self._mutex:
            usages = list(self._usages.values())
        return Usage(*(sum(column) for column in zip(*usages, strict=True))) if usages else Usage()

    def tier0_excess(self, *, needed_bytes: int = 0) -> int:
        """Returns by how many bytes Tier 0 would exceed its limit if `needed_bytes` were added.

        The result is 0 or less if the bytes fit.
        """
        return self.total().tier0_bytes + needed_bytes - self.tier0_bytes_max

    def fill(self) -> Fill:
        return Fill(self.total().held_bytes, self.tier0_bytes_max)

    def tier1_excess(self) -> int:
        return self.total().tier1_bytes - self.tier1_bytes_max
