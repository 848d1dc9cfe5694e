"""Delays as data, and the loop that uses them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import BadConfig, Busy, SyncFailed
from lakebed.base.retry import Backoff, RetryPolicy, retry


def test_delays_double_up_to_the_cap() -> None:
    policy = RetryPolicy(attempts=8, delay_ms_first=5, delay_ms_max=100, jitter=0)
    delays = [ns // NS_PER_MS for ns in policy.delays_ns(Random(0))]
    assert delays == [5, 10, 20, 40, 80, 100, 100]


@given(st.integers(), st.floats(0, 1))
def test_jitter_only_shortens_and_by_no_more_than_it_says(seed: int, jitter: float) -> None:
    policy = RetryPolicy(attempts=4, delay_ms_first=100, delay_ms_max=100, jitter=jitter)
    for delay_ns in policy.delays_ns(Random(seed)):
        assert (1 - jitter) * 100 * NS_PER_MS - 1 <= delay_ns <= 100 * NS_PER_MS


def test_a_backoff_grows_to_the_cap_and_starts_over_after_a_success() -> None:
    backoff = Backoff(RetryPolicy(delay_ms_first=5, delay_ms_max=18, jitter=0), Random(0))
    assert [backoff.next_ns() // NS_PER_MS for _ in range(4)] == [5, 10, 18, 18]
    backoff.reset()
    assert backoff.next_ns() == 5 * NS_PER_MS


class Flaky:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_it_succeeds_after_passing_errors() -> None:
    flaky, slept, seen = Flaky(Busy("1"), Busy("2")), list[int](), list[Exception]()
    policy = RetryPolicy(attempts=3, jitter=0.0)
    result = retry(
        flaky, policy=policy, random=Random(0), sleep_ns=slept.append, on_retry=seen.append
    )
    assert result == "done"
    assert slept == [5 * NS_PER_MS, 10 * NS_PER_MS]
    assert [str(error) for error in seen] == ["1", "2"]


def test_the_last_error_is_raised_when_the_tries_are_used_up() -> None:
    flaky, slept = Flaky(Busy("1"), Busy("2"), Busy("3")), list[int]()
    with pytest.raises(Busy, match="2"):
        retry(flaky, policy=RetryPolicy(attempts=2), random=Random(0), sleep_ns=slept.append)
    assert flaky.calls == 2
    assert len(slept) == 1


def test_a_failed_sync_is_never_repeated() -> None:
    flaky, slept = Flaky(SyncFailed("fdatasync", "f")), list[int]()
    with pytest.raises(SyncFailed):
        retry(flaky, policy=RetryPolicy(), random=Random(0), sleep_ns=slept.append)
    assert flaky.calls == 1
    assert slept == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attempts": 0}, "attempts"),
        ({"jitter": 1.5}, "jitter"),
        ({"delay_ms_first": 300.0}, "more than delay_ms_max"),
        ({"delay_ms_first": -1.0}, "delay_ms_first"),
        ({"delay_ms_max": float("nan")}, "delay_ms_max"),
    ],
)
def test_a_bad_policy_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        RetryPolicy(**settings)  # type: ignore[arg-type]
