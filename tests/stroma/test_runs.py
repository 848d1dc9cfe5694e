"""Runs against a dictionary, with buckets so small that all borders are met."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakebed.stroma import runs as runs_module
from lakebed.stroma.runs import Runs

pytestmark = pytest.mark.thorough

VALUES = st.integers(0, 2)


@pytest.fixture(autouse=True, scope="module")
def _small_buckets() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(runs_module, "BUCKET_RUNS", 8)
    yield
    patch.undo()


class RunsMachine(RuleBasedStateMachine):
    """`model` has a value for each offset."""

    @initialize(base=st.integers(0, 50))
    def start(self, base: int) -> None:
        self.runs: Runs[int] = Runs(base)
        self.base = self.end = base
        self.model: dict[int, int] = {}

    @initialize(base=st.integers(0, 50), lengths=st.lists(st.integers(1, 30), min_size=1))
    def start_with_parts_made_later(self, base: int, lengths: list[int]) -> None:
        firsts = [base]
        for length in lengths:
            firsts.append(firsts[-1] + length)
        self.base, self.end = base, firsts.pop()
        self.model = {offset: offset // 3 % 3 for offset in range(base, self.end)}
        self.runs = Runs.made_later(self.make, firsts, end=self.end)

    def make(self, start: int, end: int) -> tuple[list[int], list[int]]:
        starts = [start, *range(start - start % 3 + 3, end, 3)]
        return starts, [offset // 3 % 3 for offset in starts]

    @rule(length=st.integers(1, 40), value=VALUES)
    def append(self, length: int, value: int) -> None:
        self.runs.append(self.end + length, value)
        self.model.update(dict.fromkeys(range(self.end, self.end + length), value))
        self.end += length

    @precondition(lambda self: self.end > self.base)
    @rule(data=st.data())
    def paint(self, data: st.DataObject) -> None:
        bounds = st.lists(st.integers(self.base, self.end), max_size=24, unique=True)
        cuts = sorted(data.draw(bounds))
        pieces = [
            (start, end, data.draw(VALUES))
            for start, end in pairwise(cuts)
            if data.draw(st.booleans())
        ]
        self.runs.paint(pieces)
        for start, end, value in pieces:
            self.model.update(dict.fromkeys(range(start, end), value))

    @precondition(lambda self: self.end > self.base)
    @rule(data=st.data(), value=VALUES)
    def cover(self, data: st.DataObject, value: int) -> None:
        bounds = st.lists(st.integers(max(0, self.base - 3), self.end), max_size=24, unique=True)
        cuts = sorted(data.draw(bounds))
        ranges = list(zip(cuts[::2], cuts[1::2], strict=False))
        expected: dict[int, int] = {}
        for start, end in ranges:
            for offset in range(max(start, self.base), end):
                if self.model[offset] != value:
                    expected[self.model[offset]] = expected.get(self.model[offset], 0) + 1
                self.model[offset] = value
        found: dict[int, int] = {}
        for old, count in self.runs.cover(ranges, value):
            found[old] = found.get(old, 0) + count
        assert found == expected

    @rule(data=st.data())
    def drop_before(self, data: st.DataObject) -> None:
        self.base = data.draw(st.integers(self.base, min(self.end, self.base + 40) + 2))
        self.runs.drop_before(self.base)
        self.end = max(self.end, self.base)
        self.model = {o: v for o, v in self.model.items() if o >= self.base}

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        self.end = data.draw(st.integers(max(0, self.base - 2), self.end))
        self.runs.cut(self.end)
        self.base = min(self.base, self.end)
        self.model = {o: v for o, v in self.model.items() if o < self.end}

    @rule(data=st.data())
    def look_within(self, data: st.DataObject) -> None:
        cuts = sorted(data.draw(st.lists(st.integers(0, self.end + 9), max_size=12, unique=True)))
        ranges = list(zip(cuts[::2], cuts[1::2], strict=False))
        found = {o: v for s, e, v in self.runs.within(ranges) for o in range(s, e)}
        wanted = {o for start, end in ranges for o in range(start, end)}
        assert found == {o: v for o, v in self.model.items() if o in wanted}

    @invariant()
    def all_is_there_in_order(self) -> None:
        if not hasattr(self, "runs"):
            return
        position = self.base
        found: dict[int, int] = {}
        for start, end, value in self.runs:
            assert (start, end > start) == (position, True)
            position = end
            found.update(dict.fromkeys(range(start, end), value))
        assert (position, self.runs.base, self.runs.end) == (self.end, self.base, self.end)
        assert found == self.model
        assert [run for bucket in self.runs.buckets() for run in bucket] == list(self.runs)


TestRuns = RunsMachine.TestCase
TestRuns.settings = settings(max_examples=120, stateful_step_count=30)


def test_neighbours_of_equal_value_become_one_run() -> None:
    runs: Runs[str] = Runs()
    runs.append(100, "a")
    runs.paint([(10, 20, "b"), (30, 40, "b")])
    assert len(list(runs)) == 5
    runs.paint([(20, 30, "b")])
    assert list(runs) == [(0, 10, "a"), (10, 40, "b"), (40, 100, "a")]
    runs.paint([(10, 40, "a")])
    assert list(runs) == [(0, 100, "a")]


def test_gaps_that_close_leave_few_runs_and_buckets() -> None:
    runs: Runs[str] = Runs()
    count = 400
    runs.append(count, "a")
    runs.paint([(offset, offset + 1, "b") for offset in range(0, count, 2)])
    assert len(list(runs)) == count
    for offset in range(1, count, 4):
        runs.paint([(offset, offset + 1, "b")])
        runs.cover([(offset + 2, offset + 3)], "b")
    assert len(list(runs)) <= 2
    assert len(list(runs.buckets())) <= 2
