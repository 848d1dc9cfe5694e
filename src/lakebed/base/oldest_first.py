"""Selects the oldest items of several backlogs up to a limit, so that all backlogs advance to about
the same timestamp.

A backlog is a sequence of items with timestamps, and its items are taken in order. An item
therefore counts as having the latest timestamp of all items of its backlog up to and including
itself. By these timestamps, no item that is left is older than an item that is taken.

A backlog returns its items in two ways: as chunks with their totals, which may come from an index,
and one by one. Whole chunks are taken as long as the next chunks of all backlogs together fit
within the limit. The remaining part of the limit is filled item by item. This module does no I/O;
the backlogs read the items.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import inf
from typing import NamedTuple, Protocol


class Chunk(NamedTuple):
    """The totals of consecutive items, which end at position `end`."""

    end: int
    item_count: int
    size_bytes: int
    newest: int  # the latest timestamp of the backlog's items up to the end of the chunk


class Items(NamedTuple):
    """At least one item, as columns with one entry per item."""

    ends: Sequence[int]  # the position after the item
    times: Sequence[int]
    sizes_bytes: Sequence[int]


class Backlog(Protocol):
    @property
    def start(self) -> int: ...

    @property
    def weight(self) -> int:
        """The size of the backlog, at least 1. If items of several backlogs are equally old, more
        of them are taken from a larger backlog.
        """

    def chunks(self) -> Iterator[Chunk]: ...

    def items(self, start: int) -> Iterator[Items]:
        """Yields all items from position `start`, which must be the start or end of a chunk."""


class Limit(NamedTuple):
    """The maximum number and total size of the items to take. None means no limit."""

    item_count: int | None
    size_bytes: int | None


def advance(backlogs: Sequence[Backlog], limit: Limit) -> list[int]:
    """Returns, for each backlog, the position up to which its items are taken.

    If there are any items, at least one is taken, even if it is larger than the limit.
    """
    taking = _Taking(backlogs, limit)
    newest = taking.take_chunks()
    taking.take_items(newest)
    return taking.ends


class _Taking:
    def __init__(self, backlogs: Sequence[Backlog], limit: Limit) -> None:
        self._backlogs = backlogs
        self._count_left = inf if limit.item_count is None else limit.item_count
        self._bytes_left = inf if limit.size_bytes is None else limit.size_bytes
        self.ends = [backlog.start for backlog in backlogs]

    def take_chunks(self) -> list[int]:
        """Takes whole chunks. Returns, for each backlog, the latest timestamp taken from it, or 0
        if nothing was taken.
        """
        newest = [0] * len(self._backlogs)
        counts = [0] * len(self._backlogs)
        chunks = [backlog.chunks() for backlog in self._backlogs]
        ahead: list[Chunk | None] = [next(each, None) for each in chunks]
        heap = [(chunk.newest, 0.0, index) for index, chunk in enumerate(ahead) if chunk]
        heapify(heap)
        count = sum(chunk.item_count for chunk in ahead if chunk)
        size_bytes = sum(chunk.size_bytes for chunk in ahead if chunk)
        while heap and count <= self._count_left and size_bytes <= self._bytes_left:
            _, _, index = heappop(heap)
            chunk = ahead[index]
            assert chunk is not None, "only backlogs with a chunk are in the heap"
            self._take(index, chunk.end, chunk.item_count, chunk.size_bytes)
            newest[index] = chunk.newest
            counts[index] += chunk.item_count
            count -= chunk.item_count
            size_bytes -= chunk.size_bytes
            ahead[index] = following = next(chunks[index], None)
            if following is not None:
                count += following.item_count
                size_bytes += following.size_bytes
                share = counts[index] / self._backlogs[index].weight
                heappush(heap, (following.newest, share, index))
        return newest

    def take_items(self, newest: Sequence[int]) -> None:
        queues = [
            _Queue(backlog.items(end), since)
            for backlog, end, since in zip(self._backlogs, self.ends, newest, strict=True)
        ]
        heap = [(queue.head, index) for index, queue in enumerate(queues) if queue]
        heapify(heap)
        while heap:
            time = heap[0][0]
            oldest = []
            while heap and heap[0][0] == time:
                oldest.append(heappop(heap)[1])
            if len(oldest) == 1 and heap:
                counts = [queues[oldest[0]].count_before(heap[0][0])]
            elif len(oldest) == 1:
                counts = [queues[oldest[0]].count]
            else:
                counts = [queues[index].count_up_to(time) for index in oldest]
            if not self._take_all(queues, oldest, counts):
                return
            for index in oldest:
                if queues[index]:
                    heappush(heap, (queues[index].head, index))

    def _take_all(
        self, queues: Sequence[_Queue], indexes: Sequence[int], counts: Sequence[int]
    ) -> bool:
        """Takes `counts[i]` items of each queue `indexes[i]`, and returns True.

        If these items together exceed the limit, takes only a part of them and returns False. The
        part is about the same fraction of each queue's items and bytes, rounded down, and at most
        one more item per queue.
        """
        sizes = [queues[index].size(count) for index, count in zip(indexes, counts, strict=True)]
        count_sum, size_sum = sum(counts), sum(sizes)
        count_left, bytes_left = self._count_left, self._bytes_left
        for index, count, size_bytes in zip(indexes, counts, sizes, strict=True):
            count_max = _share(count, count_left, count_sum)
            bytes_max = _share(size_bytes, bytes_left, size_sum)
            self._take_of(queues[index], index, queues[index].fitting(count_max, bytes_max))
        if count_sum <= count_left and size_sum <= bytes_left:
            return True
        # What rounding left goes to the largest backlog. The first item is taken whatever its size.
        for index in sorted(indexes, key=lambda each: -self._backlogs[each].weight):
            is_first = all(
                end == backlog.start for end, backlog in zip(self.ends, self._backlogs, strict=True)
            )
            size_bytes = queues[index].size(1) if queues[index] else 0
            fits = self._count_left >= 1 and size_bytes <= self._bytes_left
            if queues[index] and (fits or is_first):
                self._take_of(queues[index], index, 1)
        return False

    def _take_of(self, queue: _Queue, index: int, count: int) -> None:
        if count:
            size_bytes = queue.size(count)
            self._take(index, queue.take(count), count, size_bytes)

    def _take(self, index: int, end: int, count: int, size_bytes: int) -> None:
        self.ends[index] = end
        self._count_left -= count
        self._bytes_left -= size_bytes


class _Queue:
    """The items of one backlog that are not taken yet."""

    def __init__(self, items: Iterator[Items], newest: int) -> None:
        self._items = items
        # Of the loaded items: `_bytes_before[i]` is the total size of the first i, and `_newest[i]`
        # the latest time of these and of all items before the loaded ones.
        self._newest: list[int] = [newest]
        self._ends: Sequence[int] = ()
        self._bytes_before: list[int] = [0]
        self._done = 0
        self._fill()

    def __bool__(self) -> bool:
        return self._done < len(self._ends)

    @property
    def count(self) -> int:
        return len(self._ends) - self._done

    @property
    def head(self) -> int:
        return self._newest[self._done + 1]

    def count_before(self, time: int) -> int:
        return bisect_left(self._newest, time, self._done + 1) - self._done - 1

    def count_up_to(self, time: int) -> int:
        return bisect_right(self._newest, time, self._done + 1) - self._done - 1

    def size(self, count: int) -> int:
        return self._bytes_before[self._done + count] - self._bytes_before[self._done]

    def fitting(self, count_max: int, bytes_max: int) -> int:
        """Returns how many of the next `count_max` items have at most `bytes_max` bytes in all."""
        end = bisect_right(
            self._bytes_before,
            self._bytes_before[self._done] + bytes_max,
            self._done + 1,
            self._done + count_max + 1,
        )
        return end - self._done - 1

    def take(self, count: int) -> int:
        """Takes `count` items, and returns the position after the last one."""
        self._done += count
        end = self._ends[self._done - 1]
        if not self:
            self._fill()
        return end

    def _fill(self) -> None:
        items = next(self._items, None)
        if items is not None:
            self._newest = list(accumulate(items.times, max, initial=self._newest[-1]))
            self._bytes_before = list(accumulate(items.sizes_bytes, initial=0))
            self._ends, self._done = items.ends, 0


def _share(part: int, left: float, whole: int) -> int:
    """Returns how much may be taken from one backlog: `part`, or less if not all fits.

    `part` is what this backlog has, `whole` is what all backlogs have together, and `left` is how
    much may be taken from all of them. Each gets a share in proportion to its part, rounded down.
    """
    return part if whole <= left else int(part * left // whole)
