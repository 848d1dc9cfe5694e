"""The budget for spares and zeros: busy logs have priority, whatever their requests are."""

from __future__ import annotations

from threading import Lock

from lakebed.base.zero_fill import SpareBudget


def test_a_busy_log_that_was_refused_has_priority_until_a_busy_log_succeeds() -> None:
    budget = SpareBudget(bytes_max=100, mutex=Lock())
    assert budget.take(60, is_busy=False)
    assert not budget.take(60, is_busy=True)
    assert (budget.is_short, budget.take(10, is_busy=False)) == (True, False)
    budget.give_back(60)
    assert budget.take(60, is_busy=True)
    assert (budget.is_short, budget.take(10, is_busy=False)) == (False, True)


def test_a_request_above_the_whole_budget_changes_no_priority() -> None:
    calls: list[str] = []
    budget = SpareBudget(bytes_max=100, mutex=Lock(), on_short=lambda: calls.append("short"))
    assert not budget.take(101, is_busy=True)
    assert (budget.is_short, calls) == (False, [])
    assert budget.take(60, is_busy=False)
    assert not budget.take(60, is_busy=True)
    assert not budget.take(101, is_busy=True)
    assert (budget.is_short, budget.take(10, is_busy=False)) == (True, False)
    assert calls == ["short"]
