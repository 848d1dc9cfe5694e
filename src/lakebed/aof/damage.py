"""What a reader does about damage: it raises, or it tells somebody and goes on behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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


class DamagePolicy:
    """Raise at damage, or skip it and report."""

    def __init__(self, *, skip: bool, on_skipped: OnSkipped | None = None) -> None:
        self.skips = skip
        self._on_skipped = on_skipped

    def meet(self, skipped: SkippedRange) -> None:
        if not self.skips:
            raise skipped.error
        if self._on_skipped is not None:
            self._on_skipped(skipped)
