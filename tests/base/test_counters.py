"""Counts are exact, whatever threads do; quantiles are near."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.counters import Counter, Counters, Gauge, Histogram
from lakebed.base.errors import Busy


def test_additions_of_many_threads_are_all_counted() -> None:
    counter, histogram = Counter(), Histogram()

    def work() -> None:
        for n in range(2000):
            counter.add(2)
            histogram.observe(n)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value == 8 * 2000 * 2
    assert histogram.snapshot().count == 8 * 2000


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=200), st.floats(0, 1))
def test_a_quantile_is_at_most_a_quarter_too_high(values: list[int], fraction: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    snapshot = histogram.snapshot()
    assert (snapshot.count, snapshot.total, snapshot.maximum) == (
        len(values),
        sum(values),
        max(values),
    )
    rank = max(0, -int(-fraction * len(values) // 1) - 1)
    exact = sorted(values)[rank]
    assert exact <= snapshot.quantile(fraction) <= exact * 1.25 + 1


def test_hostile_values_are_counted_at_the_ends() -> None:
    histogram = Histogram()
    histogram.observe(-5)
    histogram.observe(2**200)
    snapshot = histogram.snapshot()
    assert snapshot.count == 2
    assert snapshot.buckets[0] == (0, 1)
    assert snapshot.maximum == 2**200


def test_an_empty_histogram_has_quantile_zero() -> None:
    assert Histogram().snapshot().quantile(0.99) == 0


def test_a_name_asked_for_again_is_the_same_counter() -> None:
    counters = Counters()
    counters.counter("appends").add(3)
    counters.counter("appends").add(4)
    counters.gauge("depth").set(9)
    counters.gauge("depth").add(-2)
    counters.histogram("ns").observe(5)
    snapshot = counters.snapshot()
    assert snapshot.counters == {"appends": 7}
    assert snapshot.gauges == {"depth": 7}
    assert snapshot.histograms["ns"].count == 1


class HeldLock:
    """A lock that another thread holds."""

    def __enter__(self) -> None:
        raise Busy("the lock is held")

    def __exit__(self, *_: object) -> None:
        pass


def test_a_gauge_changes_only_under_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = Gauge()
    monkeypatch.setattr(gauge, "_lock", HeldLock())
    for change in (gauge.set, gauge.add):
        with pytest.raises(Busy):
            change(5)
    assert gauge.value == 0
