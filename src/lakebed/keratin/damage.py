"""Damage that a reader of a partition meets, and the policy that decides to raise or skip."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base import damage as base
from lakebed.base.errors import DataError, DiskError


class SkippedRange(NamedTuple):
    """Bytes `[start, end)` of a file that a reader skipped, and the error that caused it.

    Messages with offsets in `[first_offset, next_offset)` may have been there, judging by the
    records before and after. That range is empty if no message is missing, as for a damaged log
    header.
    """

    path: str
    start: int
    end: int
    first_offset: int
    next_offset: int
    error: DataError
    unreadable: DiskError | None = None  # the read failed: the messages may be undamaged


OnSkipped = Callable[[SkippedRange], object]
DamagePolicy = base.DamagePolicy[SkippedRange]
