"""When to look at which messages again: the ends of leases and of delays.

An entry is a hint, never a fact: what is due is for the messages' standings to say. Whatever is
leased or waits has an entry at its own time. Nothing is taken out when a lease ends early, or is
extended and so has another entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain


class Timers:
    """Ranges by time; many share one."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        self._times: list[int] = []  # a heap of the keys
        self._count = 0

    def __len__(self) -> int:
        """How many ranges."""
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
        """The earliest time."""
        return self._times[0] if self._times else None

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        """The ranges whose time has come; they are forgotten."""
        due: list[tuple[int, int]] = []
        while self._times and self._times[0] <= now_ms:
            due += self._ranges.pop(heappop(self._times))
        self._count -= len(due)
        return due

    def ranges(self) -> Iterator[tuple[int, int]]:
        """All of them, in no order."""
        return chain.from_iterable(self._ranges.values())

    def clear(self) -> None:
        self._ranges.clear()
        self._times.clear()
        self._count = 0
