"""Converts filters into limits of a read: names of topics or logs, partitions, and ranges of
positions (offsets or record ids) and times.

Does no I/O. Some filters are applied exactly by these limits, and need no further work. All others
must still be applied row by row: filters that only narrow the read (a range of times does, because
timestamps need not be in order), and filters that this module does not understand.
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
    """The integers in `[start, end)`. A bound of None means no limit on that side."""

    start: int | None = None
    end: int | None = None

    def __contains__(self, number: int) -> bool:
        is_from_start = self.start is None or number >= self.start
        return is_from_start and (self.end is None or number < self.end)

    def narrowed(self, other: Interval) -> Interval:
        starts = [bound for bound in (self.start, other.start) if bound is not None]
        ends = [bound for bound in (self.end, other.end) if bound is not None]
        return Interval(max(starts, default=None), min(ends, default=None))


@dataclass(frozen=True)
class ReadFilter:
    """Limits of what is read: only data within all of these limits. By default there is no
    limit.
    """

    names: frozenset[str] | None = None  # of topics or logs
    numbers: frozenset[int] | None = None  # partition numbers
    number_interval: Interval = Interval()  # of partition numbers
    positions: Interval = Interval()  # offsets, or record ids as numbers
    times_us: Interval = Interval()

    def has_lane(self, name: str, number: int) -> bool:
        if self.names is not None and name not in self.names:
            return False
        is_among = self.numbers is None or number in self.numbers
        return is_among and number in self.number_interval


Narrowing = Callable[[ReadFilter, Filter], tuple[ReadFilter, bool] | None]
"""A function that narrows the limits by a filter. It returns the new limits and whether they apply
the filter exactly, or None if it does not understand the filter."""


def narrow(
    filters: Iterable[Filter], columns: Mapping[str, Narrowing]
) -> tuple[ReadFilter, Sequence[Filter]]:
    """Returns the limits of the read, and the filters that must still be applied row by row.

    `columns` maps the name of a column to the function that narrows the limits by a filter on that
    column.
    """
    limits, unapplied = ReadFilter(), []
    for condition in filters:
        path: Sequence[str] = getattr(condition, "attribute", ())
        narrowing = columns.get(path[0]) if len(path) == 1 else None
        if narrowing is not None and isinstance(condition, IsNotNull):
            continue  # these columns have no nulls
        narrowed = None if narrowing is None else narrowing(limits, condition)
        if narrowed is not None:
            limits = narrowed[0]
        if narrowed is None or not narrowed[1]:
            unapplied.append(condition)
    return limits, unapplied


def by_name(limits: ReadFilter, condition: Filter) -> tuple[ReadFilter, bool] | None:
    values = _values(condition, str)
    if values is None:
        return None
    names = values if limits.names is None else values & limits.names
    return replace(limits, names=names), True


def by_partition(limits: ReadFilter, condition: Filter) -> tuple[ReadFilter, bool] | None:
    values = _values(condition, int)
    if values is not None:
        numbers = values if limits.numbers is None else values & limits.numbers
        return replace(limits, numbers=numbers), True
    interval = _interval(condition, _int_of)
    if interval is None:
        return None
    return replace(limits, number_interval=limits.number_interval.narrowed(interval)), True


def by_offset(limits: ReadFilter, condition: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(condition, _int_of)
    if interval is None:
        return None
    exact = not isinstance(condition, In)
    return replace(limits, positions=limits.positions.narrowed(interval)), exact


def by_record_id(limits: ReadFilter, condition: Filter) -> tuple[ReadFilter, bool] | None:
    """Narrows the limits by a filter on the record id, or returns None if the filter is not
    understood.

    The second item of the result is always False: the filter must still be applied row by row. A
    read starts and ends at record boundaries, and the record ids in a filter may lie between them.
    """
    narrowed = by_offset(limits, condition)
    return None if narrowed is None else (narrowed[0], False)


def by_segment(limits: ReadFilter, condition: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(condition, _int_of)
    if interval is None:
        return None
    positions = Interval(*(_first_of(number) for number in (interval.start, interval.end)))
    return replace(limits, positions=limits.positions.narrowed(positions)), False


def by_time(limits: ReadFilter, condition: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(condition, _us_of)
    if interval is None:
        return None
    return replace(limits, times_us=limits.times_us.narrowed(interval)), False


def by_time_ns(limits: ReadFilter, condition: Filter) -> tuple[ReadFilter, bool] | None:
    interval = _interval(condition, _int_of)
    if interval is None:
        return None
    start = None if interval.start is None else interval.start // US_NS
    end = None if interval.end is None else -(-interval.end // US_NS)
    return replace(limits, times_us=limits.times_us.narrowed(Interval(start, end))), False


def _values(condition: Filter, kind: type[Value]) -> frozenset[Value] | None:
    if isinstance(condition, EqualTo | EqualNullSafe):
        values = [condition.value]
    elif isinstance(condition, In):
        values = list(condition.value)
    else:
        return None
    return frozenset(values) if all(type(value) is kind for value in values) else None


def _interval(condition: Filter, number_of: Callable[[object], int | None]) -> Interval | None:
    """Returns an interval that contains all numbers that the filter accepts.

    Returns None if the filter is not understood.
    """
    if isinstance(condition, In):
        numbers = [number_of(value) for value in condition.value]
        integers = [number for number in numbers if number is not None]
        if not integers or len(integers) < len(numbers):
            return None
        return Interval(min(integers), max(integers) + 1)
    value = number_of(getattr(condition, "value", None))
    if value is None:
        return None
    if isinstance(condition, EqualTo | EqualNullSafe):
        return Interval(value, value + 1)
    if isinstance(condition, GreaterThan):
        return Interval(value + 1, None)
    if isinstance(condition, GreaterThanOrEqual):
        return Interval(value, None)
    if isinstance(condition, LessThan):
        return Interval(None, value)
    if isinstance(condition, LessThanOrEqual):
        return Interval(None, value + 1)
    return None


def _int_of(value: object) -> int | None:
    return value if type(value) is int else None


def _us_of(value: object) -> int | None:
    is_moment = isinstance(value, datetime) and value.tzinfo is not None
    return moment_us(value) if is_moment and isinstance(value, datetime) else None


def _first_of(segment_id: int | None) -> int | None:
    """Returns the record id of a segment's first record, as a number, or None for None.

    It is computed from the segment id alone; the segment need not exist.
    """
    return None if segment_id is None else segment_id * (SEGMENT_OFFSET_MAX + 1) + RECORDS_START
