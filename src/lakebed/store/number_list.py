"""Formats numbers of segments or chunks for messages."""

from __future__ import annotations

from collections.abc import Iterable

_RANGES_MAX = 10


def number_list(numbers: Iterable[int]) -> str:
    """Returns different numbers as sorted text, such as "1, 3 to 5, 9".

    Lists at most 10 numbers or ranges, and then the count of the others, as in "and 7 more".
    """
    ranges: list[tuple[int, int]] = []  # first and last number
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    shown = ", ".join(
        str(first) if first == last else f"{first} to {last}"
        for first, last in ranges[:_RANGES_MAX]
    )
    left_count = sum(last - first + 1 for first, last in ranges[_RANGES_MAX:])
    return f"{shown} and {left_count} more" if left_count else shown
