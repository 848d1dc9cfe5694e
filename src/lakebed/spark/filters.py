"""What pushed filters leave to be read: names, partitions, a range of positions, a span of time.

Pure. A filter that the read carries out exactly is taken away from Spark; one that only narrows
what is read (times need not be in order) stays with it, and so does all that is not understood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from lakebed.aof.format import RECORDS_START
from lakebed.aof.record_id import SEGMENT_OFFSET_MAX
from lakebed.base.units import US_NS
from lakebed.spark.options import moment_us

Value = TypeVar("Value", str, int)


@dataclass(frozen=True)
class Interval:
    """Numbers from `start` on and below `end`; None is without a limit."""

    start: int | None = None
    end: int | None = None

    def __contains__(self, number: int) -> bool:
        is_behind = self.start is None or number >= self.start
        return is_behind and (self.end is None or number < self.end)

    def narrowed(self, other: Interval) -> Interval:
        starts = [one for one in (self.start, other.start) if one is not None]
        ends = [one for one in (self.end, other.end) if one is not None]
        return Interval(max(starts, default=None), min(ends, default=None))


@dataclass(frozen=True)
class ReadFilter:
    """What can be in the answer; without filters everything."""

    names: frozenset[str] | None = None
    numbers: frozenset[int] | None = None  # of partitions
    number_interval: Interval = Interval()
    positions: Interval = Interval()
    times_us: Interval = Interval()

    def has_lane(self, name: str, number: int) -> bool:
        if self.names is not None and name not in self.names:
            return False
        is_among = self.numbers is None or number in self.numbers
        return is_among and number in self.number_interval


Narrowing = Callable[[ReadFilter, Filter], tuple[ReadFilter, bool] | None]
"""What is left of what is wanted, and whether that is exactly the filter; None: not understood."""


def narrow(
    filters: Iterable[Filter], columns: Mapping[str, Narrowing]
) -> tuple[ReadFilter, Sequence[Filter]]:
    """What is wanted, and the filters that Spark must still carry out."""
    wanted, left = ReadFilter(), []
    for one in filters:
        path: Sequence[str] = getattr(one, "attribute", ())
        narrowing = columns.get(path[0]) if len(path) == 1 else None
        if narrowing is not None and isinstance(one, IsNotNull):
            continue  # these columns have no nulls
        found = None if narrowing is None else narrowing(wanted, one)
        if found is not None:
            wanted = found[0]
        if found is None or not found[1]:
            left.append(one)
    return wanted, left


def by_name(wanted: ReadFilter, one: Filter) -> tuple[ReadFilter, bool] | None:
    values = _values(one, str)
    if values is None:
        return None
    names = values if wanted.names is None else values & wanted.names
    return replace(wanted, names=names), True


def by_partition(wanted: ReadFilter, one: Filter) -> tuple[ReadFilter, bool] | None:
    values = _values(one, int)
    if values is not None:
        numbers = values if wanted.numbers is None else values & wanted.numbers
        return replace(wanted, numbers=numbers), True
    interval = _interval(one, _int_of)
    if interval is None:
        return None
    return replace(wanted, number_interval=wanted.number_interval.narrowed(interval)), True


def by_offset(wanted: ReadFilter, one: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(one, _int_of)
    if interval is None:
        return None
    exact = not isinstance(one, In)
    return replace(wanted, positions=wanted.positions.narrowed(interval)), exact


def by_record_id(wanted: ReadFilter, one: Filter) -> tuple[ReadFilter, bool] | None:
    """Reads begin and end where a record does, which a filter cannot know: only about so."""
    found = by_offset(wanted, one)
    return None if found is None else (found[0], False)


def by_segment(wanted: ReadFilter, one: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(one, _int_of)
    if interval is None:
        return None
    positions = Interval(*(_first_of(number) for number in (interval.start, interval.end)))
    return replace(wanted, positions=wanted.positions.narrowed(positions)), False


def by_time(wanted: ReadFilter, one: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(one, _us_of)
    if interval is None:
        return None
    return replace(wanted, times_us=wanted.times_us.narrowed(interval)), False


def by_time_ns(wanted: ReadFilter, one: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(one, _int_of)
    if interval is None:
        return None
    start = None if interval.start is None else interval.start // US_NS
    end = None if interval.end is None else -(-interval.end // US_NS)
    return replace(wanted, times_us=wanted.times_us.narrowed(Interval(start, end))), False


def _values(one: Filter, kind: type[Value]) -> frozenset[Value] | None:
    if isinstance(one, EqualTo | EqualNullSafe):
        values = [one.value]
    elif isinstance(one, In):
        values = list(one.value)
    else:
        return None
    return frozenset(values) if all(type(value) is kind for value in values) else None


def _interval(one: Filter, number_of: Callable[[object], int | None]) -> Interval | None:
    """What has all numbers that the filter lets through."""
    if isinstance(one, In):
        numbers = [number_of(value) for value in one.value]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            return None
        return Interval(min(known), max(known) + 1)
    value = number_of(getattr(one, "value", None))
    if value is None:
        return None
    if isinstance(one, EqualTo | EqualNullSafe):
        return Interval(value, value + 1)
    if isinstance(one, GreaterThan):
        return Interval(value + 1, None)
    if isinstance(one, GreaterThanOrEqual):
        return Interval(value, None)
    if isinstance(one, LessThan):
        return Interval(None, value)
    if isinstance(one, LessThanOrEqual):
        return Interval(None, value + 1)
    return None


def _int_of(value: object) -> int | None:
    return value if type(value) is int else None


def _us_of(value: object) -> int | None:
    is_moment = isinstance(value, datetime) and value.tzinfo is not None
    return moment_us(value) if is_moment and isinstance(value, datetime) else None


def _first_of(segment_id: int | None) -> int | None:
    """Where a segment's records begin, as a plain number: beyond all there are is allowed."""
    return None if segment_id is None else segment_id * (SEGMENT_OFFSET_MAX + 1) + RECORDS_START
