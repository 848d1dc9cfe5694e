"""The faults planned for a simulated disk.

Operations are counted twice: every operation that changes something is a *step*, the unit in which
crashes are placed, and each kind of operation has its own count, for "the second fsync".
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

_CHANGES = frozenset({"create", "pwrite", "truncate", "mkdir", "rmdir", "rename", "unlink"})


class AfterFailedSync(Enum):
    """What a file shows after its sync failed. None of it need be on the device."""

    KEPT = "the pages stay readable, and clean: the next sync succeeds without them"
    REVERTED = "the pages are read back from the device"


class Fault(NamedTuple):
    code: int
    after: AfterFailedSync


@dataclass
class Faults:
    """A plan of faults, empty by default."""

    crash_at_step: int | None = None
    short_writes: bool = False  # a write may stop early, as write(2) may
    read_only: bool = False  # as a file system that met an error: from then on nothing changes
    _planned: dict[tuple[str, int], Fault] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def fail(
        self,
        operation: str,
        *,
        nth: int = 1,
        code: int = errno.EIO,
        after: AfterFailedSync = AfterFailedSync.KEPT,
    ) -> None:
        """Makes the nth operation of that kind from now on (1 is the next) fail with `code`."""
        self._planned[operation, self._counts[operation] + nth] = Fault(code, after)

    def due(self, operation: str) -> Fault | None:
        """Counts one operation and returns the fault planned for it."""
        self._counts[operation] += 1
        if self.read_only and operation in _CHANGES:
            return Fault(errno.EROFS, AfterFailedSync.KEPT)
        return self._planned.get((operation, self._counts[operation]))
