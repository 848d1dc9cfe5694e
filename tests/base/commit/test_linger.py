"""How long what nobody waits for waits for company."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.clock import NS_PER_MS
from lakebed.base.commit import Linger

MAX_NS = 5 * NS_PER_MS


def test_a_fixed_time_is_always_the_same() -> None:
    linger = Linger(delay_ms_max=5, is_adaptive=False)
    assert linger.delay_ns(0) == MAX_NS
    linger.note(ended_ns=10, duration_ns=1)
    assert linger.delay_ns(10) == linger.delay_ns(1 << 40) == MAX_NS


def test_while_nothing_was_committed_nothing_waits() -> None:
    assert Linger(delay_ms_max=5).delay_ns(0) == 0


def test_shortly_behind_a_commit_it_is_about_as_long_as_one_takes() -> None:
    linger = Linger(delay_ms_max=5)
    for number in range(20):
        linger.note(ended_ns=number * NS_PER_MS, duration_ns=NS_PER_MS)
    delay_ns = linger.delay_ns(19 * NS_PER_MS)
    assert 0.9 * NS_PER_MS < delay_ns <= NS_PER_MS
    assert linger.delay_ns(24 * NS_PER_MS) == delay_ns
    assert linger.delay_ns(24 * NS_PER_MS + 1) == 0, "idle since"


def test_one_slow_commit_does_not_make_the_next_wait_as_long() -> None:
    linger = Linger(delay_ms_max=5)
    linger.note(ended_ns=0, duration_ns=4 * NS_PER_MS)
    assert linger.delay_ns(0) == NS_PER_MS


def test_without_a_ceiling_above_nothing_it_never_waits() -> None:
    linger = Linger(delay_ms_max=0)
    linger.note(ended_ns=7, duration_ns=NS_PER_MS)
    assert linger.delay_ns(7) == 0
    assert linger.delay_ns(8) == 0


@given(st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 10**10))), st.integers(0, 10**9))
def test_it_is_never_negative_and_never_above_the_ceiling(
    commits: list[tuple[int, int]], later_ns: int
) -> None:
    linger = Linger(delay_ms_max=5)
    now_ns = 0
    for pause_ns, duration_ns in commits:
        now_ns += pause_ns + duration_ns
        linger.note(ended_ns=now_ns, duration_ns=duration_ns)
    assert 0 <= linger.delay_ns(now_ns) <= MAX_NS
    assert 0 <= linger.delay_ns(now_ns + later_ns) <= MAX_NS
