"""Ranges of offsets as callers give them: checked, sorted, and merged where they touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakebed.base.errors import InputError, TooLarge
from lakebed.stroma.format import U64_MAX

RANGE_COUNT_MAX = 1_000_000  # of one call


def checked(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ascending and not overlapping, or `InputError`."""
    given = list(ranges)
    if len(given) > RANGE_COUNT_MAX:
        raise TooLarge("the number of ranges", size=len(given), limit=RANGE_COUNT_MAX)
    for entry in given:
        if not _is_range(entry):
            raise InputError(f"not a range of offsets: {str(entry)[:60]}")
    return merged(given)


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same offsets in as few ranges as can be, ascending."""
    result: list[tuple[int, int]] = []
    last = -1
    for start, end in sorted(ranges):
        if start <= last:
            if end > last:
                result[-1] = (result[-1][0], end)
                last = end
        else:
            result.append((start, end))
            last = end
    return result


def _is_range(entry: object) -> bool:
    match entry:
        case (int(start), int(end)):
            return 0 <= start < end <= U64_MAX
    return False
