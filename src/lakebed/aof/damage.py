"""How readers of a log describe and handle damage where records should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base import damage as base
from lakebed.base.errors import DataError
from lakebed.kernels import Stop


class SkippedRange(NamedTuple):
    """Bytes `[start, end)` of a file that were not read, and why.

    A range before the first record or after the last one is a header or a footer: no record is
    missing. An empty range at 0 stands for segments that are missing before this one.
    """

    segment_id: int
    path: str
    start: int
    end: int
    error: DataError


OnSkipped = Callable[[SkippedRange], None]

PROBLEMS = {
    Stop.END: "zeros where a record should be",
    Stop.CUT: "a record that extends past the end of its segment",
    Stop.BAD_HEADER: "not a valid record header",
    Stop.BAD_CHECKSUM: "a record with a wrong checksum",
}

DamagePolicy = base.DamagePolicy[SkippedRange]
