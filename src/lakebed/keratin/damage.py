"""A damaged range that a reader skipped, and the policy that decides whether to raise or skip."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base import damage as base
from lakebed.base.errors import DataError, DiskError


class SkippedRange(NamedTuple):
    """Bytes `[start, end)` of a file that a reader skipped, and the error that it found there.

    Messages with offsets in `[first_offset, next_offset)` may be missing, judging by the records
    before and after. That offset range is empty if no message is missing, for example if only the
    header of the log is damaged. For messages that the damage ledger lists as lost, `path` is empty
    and the byte range is `[0, 0)` if the ledger does not have them.
    """

    path: str
    start: int
    end: int
    first_offset: int
    next_offset: int
    error: DataError
    unreadable: DiskError | None = None  # the read failed: the messages may be undamaged


def raise_unreadable(skipped: SkippedRange) -> None:
    """Raises the read error if the range could not be read; does nothing if it is damaged.

    Passed as `on_skipped` by readers whose result would be wrong without messages that a later read
    may find.
    """
    if skipped.unreadable is not None:
        raise skipped.unreadable


OnSkipped = Callable[[SkippedRange], object]
DamagePolicy = base.DamagePolicy[SkippedRange]
