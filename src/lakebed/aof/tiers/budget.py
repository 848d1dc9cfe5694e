"""How much of Tier 0 and Tier 1 is used, by each log and by all logs of a root."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.tiers.tiering_policy import Fill
from lakebed.base.runner import Mutex


class Usage(NamedTuple):
    """Of one log."""

    tier0_bytes: int = 0  # of every segment what is used
    held_bytes: int = 0  # the part of it that may not leave yet: no colder tier keeps it
    tier1_bytes: int = 0
    tier2_bytes: int = 0


class TierBudget:
    """Thread-safe. What the logs report, and what that leaves."""

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
        """What is used beyond the budget, if that much more were needed."""
        return self.total().tier0_bytes + needed_bytes - self.tier0_bytes_max

    def fill(self) -> Fill:
        return Fill(self.total().held_bytes, self.tier0_bytes_max)

    def tier1_excess(self) -> int:
        return self.total().tier1_bytes - self.tier1_bytes_max
