"""Ranges of messages, ordered by the times at which their leases or delays end.

An entry is only a hint: the status of a message decides whether its lease or delay has ended. Every
leased or waiting message is covered by an entry at its time. An entry is not removed when a lease
ends early or is extended; an extended lease gets another entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain


class Timers:
    """Ranges of messages by time. Several ranges may have the same time."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        self._times: list[int] = []  # a heap of the keys
        self._count = 0

    def __len__(self) -> int:
        """Returns the number of ranges."""
        return self._count

    def add(self, time_ms: int, start: int, end: int) -> None:
        ranges = self._ranges.get(time_ms)
        if ranges is None:
            self._ranges[time_ms] = [(start, end)]
            heappush(self._times, time_ms)
        else:
            ranges.append((start, end))
        self._count += 1

    def next_ms(self) -> int | None:
        """Returns the earliest time of all ranges, or None if there are no ranges."""
        return self._times[0] if self._times else None

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        """Removes and returns the ranges whose time is `now_ms` or earlier."""
        due: list[tuple[int, int]] = []
        while self._times and self._times[0] <= now_ms:
            due += self._ranges.pop(heappop(self._times))
        self._count -= len(due)
        return due

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yields all ranges, in no particular order."""
        return chain.from_iterable(self._ranges.values())

    def clear(self) -> None:
        self._ranges.clear()
        self._times.clear()
        self._count = 0
