"""The hybrid clock goes forward, whatever the wall clock and the peers do."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.clock import (
    LOGICAL_MAX,
    NS_PER_MS,
    ClockDrift,
    HybridClock,
    HybridTime,
    SystemClock,
    believable,
)
from lakebed.base.errors import InputError
from lakebed.base.simulation.clock import SimulatedClock


def test_times_issued_in_one_nanosecond_differ() -> None:
    clock = HybridClock(SimulatedClock())
    first, second = clock.now(), clock.now()
    assert second == HybridTime(first.wall_ns, first.logical + 1)


def test_a_wall_clock_that_goes_back_does_not_take_the_time_with_it() -> None:
    wall = SimulatedClock()
    clock = HybridClock(wall)
    before = clock.now()
    wall.skew(-3_600 * 1000 * NS_PER_MS)
    assert clock.now() > before


def test_a_restart_goes_on_behind_the_stored_time() -> None:
    ahead = HybridTime(SimulatedClock().wall_ns() + 5, 7)
    assert HybridClock(SimulatedClock(), last=ahead).now() == HybridTime(ahead.wall_ns, 8)


def test_a_peer_too_far_ahead_is_refused_and_changes_nothing() -> None:
    wall = SimulatedClock()
    clock = HybridClock(wall, drift_ms_max=100)
    with pytest.raises(ClockDrift, match="101 ms ahead of the local clock, the maximum is 100 ms"):
        clock.observe(HybridTime(wall.wall_ns() + 101 * NS_PER_MS, 0))
    assert clock.now().wall_ns == wall.wall_ns()


def test_an_exhausted_logical_part_borrows_a_nanosecond() -> None:
    full = HybridTime(SimulatedClock().wall_ns() + 9, LOGICAL_MAX)
    assert HybridClock(SimulatedClock(), last=full).now() == HybridTime(full.wall_ns + 1, 0)


@given(st.lists(st.tuples(st.sampled_from("nos"), st.integers(-(10**9), 10**9)), max_size=40))
def test_every_time_is_larger_than_all_before(moves: list[tuple[str, int]]) -> None:
    wall = SimulatedClock()
    clock = HybridClock(wall)
    last = clock.now()
    for move, amount in moves:
        if move == "s":
            wall.skew(amount)
            continue
        remote = HybridTime(max(0, wall.wall_ns() + amount), abs(amount) % 5)
        issued = clock.now() if move == "n" else clock.observe(remote)
        assert issued > last
        assert move == "n" or issued > remote
        last = issued


@given(st.builds(HybridTime, st.integers(0, 10**19 - 1), st.integers(0, LOGICAL_MAX)))
def test_the_text_of_a_time_reads_back(moment: HybridTime) -> None:
    assert HybridTime.parse(str(moment)) == moment
    assert len(str(moment)) == 30


@given(
    st.builds(HybridTime, st.integers(0, 10**19 - 1), st.integers(0, LOGICAL_MAX)),
    st.builds(HybridTime, st.integers(0, 10**19 - 1), st.integers(0, LOGICAL_MAX)),
)
def test_texts_sort_as_the_times_do(first: HybridTime, second: HybridTime) -> None:
    assert (str(first) < str(second)) == (first < second)


@pytest.mark.parametrize(
    "text", ["", "-", "1-1", "x" * 30, f"{'٣' * 19}-{'٣' * 10}", f"{'1' * 19}_{'1' * 10}",
             f"+{'1' * 18}-{'1' * 10}", f"{'1' * 19}-{'1' * 11}"]
)  # fmt: skip
def test_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a hybrid time"):
        HybridTime.parse(text)


def test_the_system_clock_tells_nanoseconds() -> None:
    clock = SystemClock()
    assert clock.wall_ns() > 1_700_000_000_000_000_000
    assert clock.monotonic_ns() <= clock.monotonic_ns()


def test_the_monotonic_clock_counts_while_the_machine_is_suspended() -> None:
    before_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    now_ns = SystemClock().monotonic_ns()
    assert before_ns <= now_ns <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ([], []),
        ([1, 2, 3], [1, 2, 3]),
        ([9, 2, 3], [2, 2, 3]),
        ([9, 9, 3], [3, 3, 3]),
        ([1, 2, 9], [1, 2, 5]),
        ([4, 1, 5], [4, 1, 5]),
    ],
)
def test_a_moment_from_the_future_becomes_the_next_one_that_is_past(
    moments: list[int], expected: list[int]
) -> None:
    assert believable(moments, now=5) == expected
