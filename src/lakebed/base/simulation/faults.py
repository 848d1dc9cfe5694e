"""The faults planned for a simulated disk.

Operations are counted in two ways. Every operation that changes or syncs something is a *step*; a
crash is planned for a step by its number. Operations are also counted by kind, so that, for
example, the second fsync can be planned to fail.
"""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

_CHANGES = frozenset({"create", "pwrite", "truncate", "mkdir", "rmdir", "rename", "unlink"})


class AfterFailedSync(Enum):
    """Which bytes a file has for readers after a sync of the file failed."""

    KEPT = "the pages stay readable but count as clean, so the next sync succeeds without them"
    REVERTED = "the pages are read back from the device"


class Fault(NamedTuple):
    code: int
    after: AfterFailedSync


@dataclass
class Faults:
    """The planned faults of a disk; none by default."""

    crash_at_step: int | None = None
    # (operation, n): after the next step with that operation, n more steps run, then a crash.
    crash_after: tuple[str, int] | None = None
    short_writes: bool = False  # a write may stop early, as write(2) may
    read_only: bool = False  # like a file system after an error: all changes fail with EROFS
    lasting: dict[str, int] = field(
        default_factory=dict
    )  # operation → errno with which it always fails
    unreadable: set[str] = field(default_factory=set)  # files whose reads fail with EIO
    slow_ns: dict[str, int] = field(default_factory=dict)  # operation → how long it takes
    fired_count: int = 0  # operations that failed
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
        """Makes the nth operation of that kind from now (1 is the next) fail with the errno `code`.

        If the operation is a sync, `after` decides what later reads of the file return.
        """
        self._planned[operation, self._counts[operation] + nth] = Fault(code, after)

    @property
    def is_any(self) -> bool:
        """Whether the planned faults make an operation fail from now on. Crashes do not count."""
        planned = any(nth > self._counts[operation] for operation, nth in self._planned)
        return planned or self.read_only or bool(self.lasting or self.unreadable)

    def forget_planned(self) -> None:
        """Drops all faults that were planned with `fail`."""
        self._planned.clear()

    def due(self, operation: str, path: str = "") -> Fault | None:
        """Counts an operation. Returns the fault with which it must fail, or None."""
        self._counts[operation] += 1
        fault = self._due(operation, path)
        if fault is not None:
            self.fired_count += 1
        return fault

    def _due(self, operation: str, path: str) -> Fault | None:
        if operation == "pread" and path in self.unreadable:
            return Fault(errno.EIO, AfterFailedSync.KEPT)
        if operation in self.lasting:
            return Fault(self.lasting[operation], AfterFailedSync.KEPT)
        if self.read_only and operation in _CHANGES:
            return Fault(errno.EROFS, AfterFailedSync.KEPT)
        return self._planned.get((operation, self._counts[operation]))
