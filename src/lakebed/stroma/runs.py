"""A value for every offset of `[base, end)`, kept as runs of equal values.

Runs are held in buckets of some hundreds, so that finding one and changing a few costs the same
whether there are ten or a million. Neighbours of equal value are one run, except at the border of
two buckets. Where a run ends the next one starts, so only starts are kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

Value = TypeVar("Value")
Run = tuple[int, int, Value]
"""Start, end and value."""

Make = Callable[[int, int], tuple[list[int], list[Value]]]
"""Gives starts and values of the runs from one offset to another."""

BUCKET_RUNS = 512  # twice as many are split, a quarter are merged with a neighbour
_NOTHING = object()
_SPARSE = 16  # runs in a window for each one painted, beyond which they are painted singly


class Runs(Generic[Value]):
    """Not thread-safe. Must not be changed while it is iterated."""

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.end = base
        self._make: Make[Value] | None = None
        self._firsts: list[int] = []  # the first start of each bucket
        self._starts: list[list[int]] = []
        self._values: list[list[Value]] = []

    @classmethod
    def made_later(cls, make: Make[Value], firsts: list[int], *, end: int) -> Runs[Value]:
        """Of parts that start at `firsts`; each is made when it is needed."""
        made: Runs[Value] = cls(firsts[0])
        if end > made.base:
            made.end = end
            made._make = make
            made._firsts = firsts
            made._starts = [[] for _ in firsts]
            made._values = [[] for _ in firsts]
        return made

    def copy(self) -> Runs[Value]:
        """One that may be changed by itself; parts that were not made yet are made apart."""
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
        """All runs, as fast as can be."""
        for number in range(len(self._firsts)):
            starts, values = self._bucket(number)
            yield zip(starts, [*starts[1:], self._end_of(number)], values, strict=True)

    def between(self, start: int, end: int) -> Iterator[Run[Value]]:
        """The runs of `[start, end)`, cut to it; what lies outside of `[base, end)` is left out."""
        return self.within(((start, end),))

    def within(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Run[Value]]:
        """The same of many ranges, which ascend and do not overlap."""
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
                behind = starts[index + 1] if index + 1 < len(starts) else span_end
                if behind >= end:
                    yield start, end, values[index]
                    break
                yield start, behind, values[index]
                start = behind
                index += 1
                if index == len(starts):
                    number += 1
                    starts, values = self._bucket(number)
                    span_end, index = self._end_of(number), 0

    def append(self, end: int, value: Value) -> None:
        """Lengthen to `end`, with that value."""
        assert end > self.end, "it is as long already"
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
        """Give ranges new values: ascending, not overlapping, within `[base, end)`."""
        index, count = 0, len(pieces)
        rest: Run[Value] | None = None  # of a piece that goes on in the next bucket
        while rest is not None or index < count:
            first = pieces[index][0] if rest is None else rest[0]
            number = bisect_right(self._firsts, first) - 1
            span_end = self._end_of(number)
            within: list[Run[Value]] = []
            while rest is not None or (index < count and pieces[index][0] < span_end):
                start, end, value = pieces[index] if rest is None else rest
                index += rest is None
                rest = (span_end, end, value) if end > span_end else None
                within.append((start, min(end, span_end), value))
                if rest is not None:
                    break
            self._paint_bucket(number, within, span_end)

    def cover(self, ranges: Sequence[tuple[int, int]], value: Value) -> list[tuple[Value, int]]:
        """Give ranges one value; how many offsets had which other value before.

        They ascend, do not touch, and lie before `end`; what lies before `base` is left out. Many
        ranges in one run cost little more than one.
        """
        replaced: list[tuple[Value, int]] = []
        index, position = 0, self.base  # everything before `position` is done
        while index < len(ranges):
            start = max(ranges[index][0], position)
            if start >= ranges[index][1]:
                index += 1
                continue
            number = bisect_right(self._firsts, start) - 1
            starts, values = self._bucket(number)
            at = bisect_right(starts, start) - 1
            position = starts[at + 1] if at + 1 < len(starts) else self._end_of(number)
            last = bisect_left(ranges, (position,), index) - 1  # the last that starts in this run
            if values[at] != value:
                bounds = list(chain.from_iterable(ranges[index : last + 1]))
                bounds[0], bounds[-1] = start, min(bounds[-1], position)
                replaced.append((values[at], sum(bounds[1::2]) - sum(bounds[::2])))
                _cover_run(starts, values, at, bounds, position, value)
                self._balance(number)
            index = last
        return replaced

    def drop_before(self, offset: int) -> None:
        """Forget everything below; `base` is `offset` from now on."""
        assert offset >= self.base, "what was dropped is gone"
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
        """Forget everything from `end` on."""
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
        if not starts:  # it was not needed yet
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
        """Not too many runs in a bucket, and not too few."""
        starts = self._starts[number]
        if len(starts) > 2 * BUCKET_RUNS:
            self._split(number)
        elif len(starts) < BUCKET_RUNS // 4 and not self._merge_with_next(number):
            self._merge_with_next(number - 1)

    def _split(self, number: int) -> None:
        starts, values = self._starts[number], self._values[number]
        parts = range(0, len(starts), BUCKET_RUNS)
        self._firsts[number : number + 1] = [starts[at] for at in parts]
        self._starts[number : number + 1] = [starts[at : at + BUCKET_RUNS] for at in parts]
        self._values[number : number + 1] = [values[at : at + BUCKET_RUNS] for at in parts]

    def _merge_with_next(self, number: int) -> bool:
        """If there are both, and together they are not many; whether."""
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
    starts: list[int], values: list[Value], at: int, bounds: list[int], end: int, value: Value
) -> None:
    """Cover parts of a run that ends at `end`; `bounds` are where they start and end by turns."""
    old = values[at]
    new_values = [value, old] * (len(bounds) // 2)
    behind = at + 1
    if bounds[-1] == end:  # nothing is left behind the last part
        del bounds[-1], new_values[-1]
        if behind < len(starts) and values[behind] == value:
            behind += 1
    if bounds[0] > starts[at]:
        bounds.insert(0, starts[at])
        new_values.insert(0, old)
    elif at > 0 and values[at - 1] == value:
        del bounds[0], new_values[0]
    starts[at:behind] = bounds
    values[at:behind] = new_values


def _paint_window(
    starts: list[int], values: list[Value], pieces: list[Run[Value]], span_end: int
) -> None:
    """Paint the part of a bucket that the pieces touch, with a neighbour on either side."""
    low = max(0, bisect_right(starts, pieces[0][0]) - 2)
    high = min(len(starts), bisect_left(starts, pieces[-1][1]) + 1)
    end = starts[high] if high < len(starts) else span_end
    starts[low:high], values[low:high] = _painted(starts[low:high], values[low:high], pieces, end)


def _painted(
    starts: list[int], values: list[Value], pieces: list[Run[Value]], end: int
) -> tuple[list[int], list[Value]]:
    new_starts: list[int] = []
    new_values: list[Value] = []
    before: object = _NOTHING  # the value of the last run

    def put(start: int, value: Value) -> None:
        nonlocal before
        if new_starts and new_starts[-1] == start:  # of no length after all
            new_starts.pop()
            new_values.pop()
            before = new_values[-1] if new_values else _NOTHING
        if value is not before and value != before:
            new_starts.append(start)
            new_values.append(value)
            before = value

    index, count = 0, len(starts)
    for start, behind, value in pieces:
        while index < count and starts[index] < start:
            put(starts[index], values[index])
            index += 1
        put(start, value)
        while index < count and starts[index] < behind:
            index += 1
        if behind < end and (index == count or starts[index] > behind):
            put(behind, values[index - 1])
    while index < count:
        put(starts[index], values[index])
        index += 1
    return new_starts, new_values
