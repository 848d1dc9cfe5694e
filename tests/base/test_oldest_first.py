"""Backlogs that advance together: nothing that is left is older than what was taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.oldest_first import Chunk, Items, Limit, advance

SIZE = 10


class Listed:
    """A backlog of timestamps: positions are indexes; items have the same size by default."""

    def __init__(
        self, times: Sequence[int], *, stride: int = 3, sizes: Sequence[int] | None = None
    ) -> None:
        self.sizes = [SIZE] * len(times) if sizes is None else sizes
        self.start = 0
        self.weight = max(len(times), 1)
        self.newest = list(accumulate(times, max))
        self._times = times
        self._stride = stride

    def chunks(self) -> Iterator[Chunk]:
        end = 0
        for part in self._parts(0):
            end += len(part)
            size_bytes = sum(self.sizes[end - len(part) : end])
            yield Chunk(end, len(part), size_bytes, self.newest[end - 1])

    def items(self, start: int) -> Iterator[Items]:
        for part in self._parts(start):
            ends = range(start + 1, start + 1 + len(part))
            start = ends[-1]
            yield Items(ends, part, self.sizes[ends[0] - 1 : start])

    def _parts(self, start: int) -> Iterator[Sequence[int]]:
        for first in range(start, len(self._times), self._stride):
            yield self._times[first : first + self._stride]


@given(
    st.lists(st.lists(st.integers(1, 20), max_size=30), max_size=5),
    st.integers(1, 60),
    st.booleans(),
)
def test_what_is_taken_is_no_newer_than_what_is_left(
    times: list[list[int]], limit: int, is_in_bytes: bool
) -> None:
    backlogs = [Listed(each) for each in times]
    ends = advance(backlogs, Limit(None, limit * SIZE) if is_in_bytes else Limit(limit, None))
    total = sum(map(len, times))
    assert sum(ends) == min(limit, total)
    taken = [backlog.newest[end - 1] for backlog, end in zip(backlogs, ends, strict=True) if end]
    left = [each.newest[end] for each, end in zip(backlogs, ends, strict=True) if each.newest[end:]]
    assert not taken or not left or max(taken) <= min(left)


@pytest.mark.parametrize(
    ("counts", "limit", "expected"),
    [
        ((300, 30, 30), 120, [100, 10, 10]),
        ((90, 10), 50, [45, 5]),
        ((0, 4), 9, [0, 4]),
        ((), 5, []),
    ],
)
def test_items_of_equal_age_are_shared_by_backlog(
    counts: tuple[int, ...], limit: int, expected: list[int]
) -> None:
    ends = advance([Listed([7] * count) for count in counts], Limit(limit, None))
    assert sum(ends) == sum(expected)
    assert ends == pytest.approx(expected, abs=6)  # to two chunks


def test_the_oldest_item_is_taken_even_if_it_is_too_large() -> None:
    assert advance([Listed([5, 6]), Listed([4, 9])], Limit(None, 1)) == [0, 1]
    assert advance([Listed([5, 6]), Listed([4, 9])], Limit(None, None)) == [2, 2]


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([100] * 5 + [1] * 5, 252, 2),
        ([1] * 5 + [100] * 5, 252, 7),
        ([1000] + [1] * 1999, 2000, 1001),
        ([0] * 5 + [100], 50, 5),
    ],
)
def test_items_of_different_sizes_are_taken_up_to_the_limit(
    sizes: Sequence[int], limit: int, expected: int
) -> None:
    backlog = Listed(range(len(sizes)), stride=len(sizes), sizes=sizes)
    assert advance([backlog], Limit(None, limit)) == [expected]


SIZED = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=20)


@given(st.lists(SIZED, max_size=4), st.integers(0, 600), st.integers(1, 30), st.integers(1, 20))
def test_neither_limit_is_exceeded_except_by_the_first_item(
    items: list[list[tuple[int, int]]], limit_bytes: int, limit_count: int, stride: int
) -> None:
    backlogs = [
        Listed([time for time, _ in each], stride=stride, sizes=[size for _, size in each])
        for each in items
    ]
    ends = advance(backlogs, Limit(limit_count, limit_bytes))
    taken = sum(sum(each.sizes[:end]) for each, end in zip(backlogs, ends, strict=True))
    assert sum(ends) <= limit_count
    assert taken <= limit_bytes or sum(ends) == 1
    assert sum(ends) or not any(items)
