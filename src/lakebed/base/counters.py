"""Counters, gauges and histograms that are cheap enough for the hot path.

To add to a metric takes a lock and a fraction of a microsecond, and is exact with any number of
threads. A `Counters` object holds the metrics of one engine by name; the node exports the result of
its `snapshot()`.

A histogram has four buckets per power of two, so its quantiles are at most 25 % too high. It counts
whole numbers, such as nanoseconds or bytes, and has a fixed size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

_SUB_BITS = 2
_SUBS = 1 << _SUB_BITS
_BUCKETS = _SUBS * 63


class Counter:
    """A count that only goes up."""

    __slots__ = ("_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    def add(self, amount: int = 1) -> None:
        with self._lock:
            self._value += amount

    @property
    def value(self) -> int:
        return self._value


class Gauge:
    """A value that goes up and down. After `follow`, the value is what a function returns."""

    __slots__ = ("_lock", "_read", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value: float = 0
        self._read: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        with self._lock:  # otherwise a concurrent `add` could overwrite the value
            self._value = value

    def add(self, amount: float) -> None:
        with self._lock:
            self._value += amount

    def follow(self, read: Callable[[], float]) -> None:
        """Makes `value` call `read` from now on, for example for an age or a length. `read` must be
        fast.
        """
        self._read = read

    @property
    def value(self) -> float:
        return self._value if self._read is None else self._read()


@dataclass(frozen=True)
class HistogramSnapshot:
    """The state of a histogram at one moment."""

    count: int
    total: int
    maximum: int
    buckets: tuple[tuple[int, int], ...]  # (largest value, count) of each bucket that is not empty

    def quantile(self, fraction: float) -> int:
        """Returns the value that the given fraction of all values does not exceed: 0.99 for the
        99th percentile. The result is at most 25 % too high, and 0 if the histogram is empty.
        """
        rank = fraction * self.count
        counted = 0
        for upper, count in self.buckets:
            counted += count
            if counted >= rank:
                return min(upper, self.maximum)
        return self.maximum


class Histogram:
    """Counts values in buckets by their size. Negative values count as 0."""

    __slots__ = ("_counts", "_lock", "_maximum", "_total")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * _BUCKETS
        self._total = 0
        self._maximum = 0

    def observe(self, value: int) -> None:
        value = max(value, 0)
        bucket = _bucket(value)
        with self._lock:
            self._counts[bucket] += 1
            self._total += value
            if value > self._maximum:
                self._maximum = value

    def snapshot(self) -> HistogramSnapshot:
        with self._lock:
            counts = list(self._counts)
            total, maximum = self._total, self._maximum
        buckets = tuple((_upper(i), count) for i, count in enumerate(counts) if count)
        return HistogramSnapshot(sum(counts), total, maximum, buckets)


def _bucket(value: int) -> int:
    """Returns the bucket of a value. Each value below 8 has its own bucket; for larger values, the
    number of bits and the highest three bits choose the bucket.
    """
    if value < _SUBS:
        return value
    shift = value.bit_length() - _SUB_BITS - 1
    bucket = (shift << _SUB_BITS) + (value >> shift)
    return bucket if bucket < _BUCKETS else _BUCKETS - 1


def _upper(bucket: int) -> int:
    """Returns the largest value of a bucket. (The last bucket also counts all larger values.)"""
    if bucket < 2 * _SUBS:
        return bucket
    shift = (bucket >> _SUB_BITS) - 1
    return ((_SUBS + (bucket & (_SUBS - 1)) + 1) << shift) - 1


@dataclass(frozen=True)
class Snapshot:
    """The values of all metrics of a `Counters` object, read at about the same moment."""

    counters: dict[str, int]
    gauges: dict[str, float]
    histograms: dict[str, HistogramSnapshot]


class Counters:
    """The metrics of one engine by name. A metric is created when its name is first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, Counter] = {}  # guarded by _lock, like the next two
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}

    def counter(self, name: str) -> Counter:
        with self._lock:
            return self._counters.setdefault(name, Counter())

    def gauge(self, name: str) -> Gauge:
        with self._lock:
            return self._gauges.setdefault(name, Gauge())

    def histogram(self, name: str) -> Histogram:
        with self._lock:
            return self._histograms.setdefault(name, Histogram())

    def snapshot(self) -> Snapshot:
        with self._lock:
            counters, gauges = dict(self._counters), dict(self._gauges)
            histograms = dict(self._histograms)
        return Snapshot(
            {name: counter.value for name, counter in counters.items()},
            {name: gauge.value for name, gauge in gauges.items()},
            {name: histogram.snapshot() for name, histogram in histograms.items()},
        )
