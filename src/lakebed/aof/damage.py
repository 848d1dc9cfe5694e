"""What a reader of a log meets in the place of records; what it does about it is a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base import damage as base
from lakebed.base.errors import DataError
from lakebed.kernels import Stop


class SkippedRange(NamedTuple):
    """Bytes `[start, end)` of a file that were not read, and why.

    A range in front of the first record, or behind the last one, is a header or a footer: no
    record is missing for it. An empty range at 0 stands for segments missing before that one.
    """

    segment_id: int
    path: str
    start: int
    end: int
    error: DataError


OnSkipped = Callable[[SkippedRange], None]

PROBLEMS = {
    Stop.END: "zeros where a record should be",
    Stop.CUT: "a record longer than what is left of its segment",
    Stop.BAD_HEADER: "not a record",
    Stop.BAD_CHECKSUM: "a record with a wrong checksum",
}

DamagePolicy = base.DamagePolicy[SkippedRange]
