"""How readers of a log report and skip damaged bytes where records should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base import damage as base
from lakebed.base.errors import DataError
from lakebed.kernels import Stop


class SkippedRange(NamedTuple):
    """A range `[start, end)` of a segment that a reader skipped; `error` is the reason.

    The bounds are segment offsets, which in a runtime segment are file offsets. A damaged header or
    footer is given by its file offsets; no record is missing then. If the file is too short for a
    segment, the range begins at 0 and is empty if the end of the records is not known. An empty
    range at 0 may also mean that segments are missing, before this segment or at the end of the
    log; `error` states which.
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
