"""Validates the ranges of offsets that callers pass, sorts them and merges those that touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakebed.base.errors import InputError, TooLarge
from lakebed.stroma.format import U64_MAX

RANGE_COUNT_MAX = 1_000_000  # of one call


def checked(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the ranges sorted and merged; raises `InputError` if a range is invalid."""
    entries = list(ranges)
    if len(entries) > RANGE_COUNT_MAX:
        raise TooLarge("the number of ranges", size=len(entries), limit=RANGE_COUNT_MAX)
    for entry in entries:
        if not _is_range(entry):
            raise InputError(
                f"{str(entry)[:60]}: a range must be two offsets, the start before the end"
            )
    return merged(entries)


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the same offsets as sorted ranges, as few as possible, and none of them empty."""
    result: list[tuple[int, int]] = []
    last = -1
    for start, end in sorted(ranges):
        if start <= last:
            if end > last:
                result[-1] = (result[-1][0], end)
                last = end
        elif start < end:
            result.append((start, end))
            last = end
    return result


def _is_range(entry: object) -> bool:
    match entry:
        case (int(start), int(end)):
            return 0 <= start < end <= U64_MAX
    return False
