"""What a reader of a partition meets in the place of messages; what it does is a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base import damage as base
from lakebed.base.errors import DataError, DiskError


class SkippedRange(NamedTuple):
    """Bytes `[start, end)` of a file that were not read, and why.

    Messages with offsets in `[first_offset, next_offset)` stood there, as far as the neighbours
    tell; there may have been fewer. The range is empty if no message is missing: a log's header.
    """

    path: str
    start: int
    end: int
    first_offset: int
    next_offset: int
    error: DataError
    unreadable: DiskError | None = None  # a read error: the messages may be whole


OnSkipped = Callable[[SkippedRange], object]
DamagePolicy = base.DamagePolicy[SkippedRange]
