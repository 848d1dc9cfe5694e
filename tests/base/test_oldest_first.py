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
    """A backlog of timestamps: positions are indexes, and every item has the same size."""

    def __init__(self, times: Sequence[int], *, stride: int = 3) -> None:
        self.start = 0
        self.weight = max(len(times), 1)
        self.newest = list(accumulate(times, max))
        self._times = times
        self._stride = stride

    def chunks(self) -> Iterator[Chunk]:
        end = 0
        for part in self._parts(0):
            end += len(part)
            yield Chunk(end, len(part), SIZE * len(part), self.newest[end - 1])

    def items(self, start: int) -> Iterator[Items]:
        for part in self._parts(start):
            ends = range(start + 1, start + 1 + len(part))
            start = ends[-1]
            yield Items(ends, part, [SIZE] * len(part))

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
