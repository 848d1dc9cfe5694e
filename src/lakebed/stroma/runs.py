"""A map from every offset in `[base, end)` to a value, stored as runs of equal values.

Runs are stored in buckets of a few hundred, so that finding or changing a few runs costs about the
same whether there are ten runs or a million. Adjacent runs with equal values are joined, except at
the border of two buckets. A run ends where the next one starts, so only starts are stored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

Value = TypeVar("Value")
Run = tuple[int, int, Value]
"""The start, the end and the value of a run."""

Make = Callable[[int, int], tuple[list[int], list[Value]]]
"""Returns the starts and the values of the runs in a range of offsets."""

BUCKET_RUNS = 512  # a bucket is split at twice this number, and merged at a quarter of it
_NOTHING = object()
_SPARSE = 16  # if a window has more runs than this per painted piece, pieces are painted singly


class Runs(Generic[Value]):
    """A map of the offsets `[base, end)` to values, stored as runs.

    Not thread-safe. Must not be changed during iteration.
    """

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.end = base
        self._make: Make[Value] | None = None
        self._firsts: list[int] = []  # the first start of each bucket
        self._starts: list[list[int]] = []
        self._values: list[list[Value]] = []

    @classmethod
    def made_later(cls, make: Make[Value], firsts: list[int], *, end: int) -> Runs[Value]:
        """Returns a map whose buckets start at the offsets `firsts`, and are not filled yet.

        `make` fills each bucket when it is first used.
        """
        made: Runs[Value] = cls(firsts[0])
        if end > made.base:
            made.end = end
            made._make = make
            made._firsts = firsts
            made._starts = [[] for _ in firsts]
            made._values = [[] for _ in firsts]
        return made

    def copy(self) -> Runs[Value]:
        """Returns an independent copy.

        Buckets that are not filled yet will be filled separately in both.
        """
        copy: Runs[Value] = Runs(self.base)
        copy.end, copy._make = self.end, self._make
        copy._firsts = list(self._firsts)
        copy._starts = list(map(list, self._starts))
        copy._values = list(map(list, self._values))
        return copy

    def __iter__(self) -> Iterator[Run[Value]]:
        return self.between(self.base, self.end)

    def first(self) -> Run[Value] | None:
        return next(iter(self), None)

    def buckets(self) -> Iterator[Iterator[Run[Value]]]:
        """Yields an iterator over the runs of each bucket: the fastest way to visit all runs."""
        for number in range(len(self._firsts)):
            starts, values = self._bucket(number)
            yield zip(starts, [*starts[1:], self._end_of(number)], values, strict=True)

    def between(self, start: int, end: int) -> Iterator[Run[Value]]:
        """Yields the runs of `[start, end)`, clipped to that range and to `[base, self.end)`."""
        return self.within(((start, end),))

    def within(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Run[Value]]:
        """Yields the runs of several ranges, clipped like those of `between`.

        The ranges must be in ascending order and must not overlap.
        """
        number, span_end = -1, -1
        starts: list[int] = []
        values: list[Value] = []
        index, base, last = 0, self.base, self.end
        for start, end in ranges:
            start, end = max(start, base), min(end, last)
            if start >= end:
                continue
            if start >= span_end:
                number = bisect_right(self._firsts, start) - 1
                starts, values = self._bucket(number)
                span_end, index = self._end_of(number), 0
            index = bisect_right(starts, start, index) - 1
            while True:
                run_end = starts[index + 1] if index + 1 < len(starts) else span_end
                if run_end >= end:
                    yield start, end, values[index]
                    break
                yield start, run_end, values[index]
                start = run_end
                index += 1
                if index == len(starts):
                    number += 1
                    starts, values = self._bucket(number)
                    span_end, index = self._end_of(number), 0

    def append(self, end: int, value: Value) -> None:
        """Extends the map to `end`, with `value` for the new offsets."""
        assert end > self.end, "the new end must be after the old one"
        starts, values = self._bucket(len(self._firsts) - 1) if self._firsts else ([], [])
        if 0 < len(starts) < BUCKET_RUNS:
            if values[-1] != value:
                starts.append(self.end)
                values.append(value)
        else:
            self._firsts.append(self.end)
            self._starts.append([self.end])
            self._values.append([value])
        self.end = end

    def paint(self, pieces: Sequence[Run[Value]]) -> None:
        """Sets the value of each range in `pieces`.

        The ranges must be in ascending order, must not overlap and must lie in `[base, end)`.
        """
        index, count = 0, len(pieces)
        remainder: Run[Value] | None = None  # the part of a piece that lies in the next buckets
        while remainder is not None or index < count:
            first = pieces[index][0] if remainder is None else remainder[0]
            number = bisect_right(self._firsts, first) - 1
            span_end = self._end_of(number)
            bucket_pieces: list[Run[Value]] = []
            while remainder is not None or (index < count and pieces[index][0] < span_end):
                start, end, value = pieces[index] if remainder is None else remainder
                index += remainder is None
                remainder = (span_end, end, value) if end > span_end else None
                bucket_pieces.append((start, min(end, span_end), value))
                if remainder is not None:
                    break
            self._paint_bucket(number, bucket_pieces, span_end)

    def cover(self, ranges: Sequence[tuple[int, int]], value: Value) -> list[tuple[Value, int]]:
        """Sets all offsets of the ranges to one value.

        Returns each replaced value with the number of offsets that had it; a value may occur
        several times. Offsets that had `value` already are not counted. The ranges must be in
        ascending order, must not touch and must lie before `end`; parts before `base` are ignored.
        Many ranges in one run cost little more than one range.
        """
        replaced: list[tuple[Value, int]] = []
        index, position = 0, self.base  # the ranges before `position` are done
        while index < len(ranges):
            start = max(ranges[index][0], position)
            if start >= ranges[index][1]:
                index += 1
                continue
            number = bisect_right(self._firsts, start) - 1
            starts, values = self._bucket(number)
            run_index = bisect_right(starts, start) - 1
            position = (
                starts[run_index + 1] if run_index + 1 < len(starts) else self._end_of(number)
            )
            last = bisect_left(ranges, (position,), index) - 1  # the last range in this run
            if values[run_index] != value:
                bounds = list(chain.from_iterable(ranges[index : last + 1]))
                bounds[0], bounds[-1] = start, min(bounds[-1], position)
                replaced.append((values[run_index], sum(bounds[1::2]) - sum(bounds[::2])))
                _cover_run(starts, values, run_index, bounds, position, value)
                self._balance(number)
            index = last
        return replaced

    def drop_before(self, offset: int) -> None:
        """Forgets all offsets before `offset`, which becomes the new `base`.

        If `offset` is after `end`, it also becomes the new `end`.
        """
        assert offset >= self.base, "the base can only move forward"
        if offset >= self.end:
            self._firsts, self._starts, self._values = [], [], []
            self.base = self.end = offset
            return
        number = bisect_right(self._firsts, offset) - 1
        del self._firsts[:number], self._starts[:number], self._values[:number]
        starts, values = self._bucket(0)
        index = bisect_right(starts, offset) - 1
        del starts[:index], values[:index]
        starts[0] = self._firsts[0] = self.base = offset

    def cut(self, end: int) -> None:
        """Forgets all offsets from `end` on.

        If `end` is before `base`, it also becomes the new `base`.
        """
        if end <= self.base:
            self.drop_before(self.end)
            self.base = self.end = end
        elif end < self.end:
            number = bisect_left(self._firsts, end) - 1
            del self._firsts[number + 1 :], self._starts[number + 1 :], self._values[number + 1 :]
            self.end = end
            starts, values = self._bucket(number)
            index = bisect_left(starts, end)
            del starts[index:], values[index:]

    def _bucket(self, number: int) -> tuple[list[int], list[Value]]:
        starts = self._starts[number]
        if not starts:  # not filled yet
            assert self._make is not None
            starts, values = self._make(self._firsts[number], self._end_of(number))
            self._starts[number], self._values[number] = starts, values
        return starts, self._values[number]

    def _end_of(self, number: int) -> int:
        return self._firsts[number + 1] if number + 1 < len(self._firsts) else self.end

    def _paint_bucket(self, number: int, pieces: list[Run[Value]], span_end: int) -> None:
        starts, values = self._bucket(number)
        if len(pieces) > 1:
            low = bisect_right(starts, pieces[0][0])
            high = bisect_left(starts, pieces[-1][1])
            if high - low > _SPARSE * len(pieces):
                for piece in pieces:
                    _paint_window(starts, values, [piece], span_end)
                pieces = []
        if pieces:
            _paint_window(starts, values, pieces, span_end)
        self._balance(number)

    def _balance(self, number: int) -> None:
        """Splits a bucket that has too many runs; merges one that has too few with a neighbor."""
        starts = self._starts[number]
        if len(starts) > 2 * BUCKET_RUNS:
            self._split(number)
        elif len(starts) < BUCKET_RUNS // 4 and not self._merge_with_next(number):
            self._merge_with_next(number - 1)

    def _split(self, number: int) -> None:
        starts, values = self._starts[number], self._values[number]
        parts = range(0, len(starts), BUCKET_RUNS)
        self._firsts[number : number + 1] = [starts[first] for first in parts]
        self._starts[number : number + 1] = [starts[first : first + BUCKET_RUNS] for first in parts]
        self._values[number : number + 1] = [values[first : first + BUCKET_RUNS] for first in parts]

    def _merge_with_next(self, number: int) -> bool:
        """Merges a bucket with the next one, if both exist and are small enough.

        Returns whether they were merged.
        """
        if not 0 <= number < len(self._firsts) - 1:
            return False
        starts, values = self._bucket(number)
        next_starts, next_values = self._bucket(number + 1)
        if len(starts) + len(next_starts) > BUCKET_RUNS:
            return False
        skipped = 1 if values[-1] == next_values[0] else 0
        starts += next_starts[skipped:]
        values += next_values[skipped:]
        del self._firsts[number + 1], self._starts[number + 1], self._values[number + 1]
        return True


def _cover_run(
    starts: list[int],
    values: list[Value],
    run_index: int,
    bounds: list[int],
    end: int,
    value: Value,
) -> None:
    """Sets parts of the run at `run_index`, which ends at `end`, to `value`.

    `bounds` holds the start and the end of each part, one after the other.
    """
    old = values[run_index]
    new_values = [value, old] * (len(bounds) // 2)
    next_index = run_index + 1
    if bounds[-1] == end:  # the last part reaches the end of the run
        del bounds[-1], new_values[-1]
        if next_index < len(starts) and values[next_index] == value:
            next_index += 1
    if bounds[0] > starts[run_index]:
        bounds.insert(0, starts[run_index])
        new_values.insert(0, old)
    elif run_index > 0 and values[run_index - 1] == value:
        del bounds[0], new_values[0]
    starts[run_index:next_index] = bounds
    values[run_index:next_index] = new_values


def _paint_window(
    starts: list[int], values: list[Value], pieces: list[Run[Value]], span_end: int
) -> None:
    """Sets the values of `pieces` in the runs of one bucket.

    Only the runs that the pieces touch, and one neighbor on each side, are rewritten.
    """
    low = max(0, bisect_right(starts, pieces[0][0]) - 2)
    high = min(len(starts), bisect_left(starts, pieces[-1][1]) + 1)
    end = starts[high] if high < len(starts) else span_end
    starts[low:high], values[low:high] = _painted(starts[low:high], values[low:high], pieces, end)


def _painted(
    starts: list[int], values: list[Value], pieces: list[Run[Value]], end: int
) -> tuple[list[int], list[Value]]:
    new_starts: list[int] = []
    new_values: list[Value] = []
    last_value: object = _NOTHING  # the value of the last run

    def put(start: int, value: Value) -> None:
        nonlocal last_value
        if new_starts and new_starts[-1] == start:  # the last run turned out empty
            new_starts.pop()
            new_values.pop()
            last_value = new_values[-1] if new_values else _NOTHING
        if value is not last_value and value != last_value:
            new_starts.append(start)
            new_values.append(value)
            last_value = value

    index, count = 0, len(starts)
    for start, piece_end, value in pieces:
        while index < count and starts[index] < start:
            put(starts[index], values[index])
            index += 1
        put(start, value)
        while index < count and starts[index] < piece_end:
            index += 1
        if piece_end < end and (index == count or starts[index] > piece_end):
            put(piece_end, values[index - 1])
    while index < count:
        put(starts[index], values[index])
        index += 1
    return new_starts, new_values
