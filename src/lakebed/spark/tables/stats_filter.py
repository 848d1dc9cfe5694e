"""Decides from a file's statistics whether any of its rows can match the filters. Does no I/O.

A file with a matching row is never skipped: if the statistics do not rule out a match, the file is
read. The rows are filtered again after reading, so reading too much is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import datasource as pushed

# Other programs truncate times in statistics to milliseconds, even the maximum.
_MOMENT_SLACK: Final = timedelta(milliseconds=1)

Path = tuple[str, ...]


@dataclass(frozen=True)
class ColumnStats:
    """The statistics of one column of a file. None means unknown.

    `is_exact` means that every row has the same value, which is both bounds.
    """

    least: Any = None
    greatest: Any = None
    nulls: int | None = None
    rows: int | None = None
    is_exact: bool = False

    @property
    def is_all_null(self) -> bool:
        return self.rows is not None and self.nulls == self.rows


UNKNOWN: Final = ColumnStats()


@dataclass(frozen=True)
class FileStats:
    """The statistics of a file, as nested dictionaries by column, as in the log.

    `partition` has the typed values of the partition columns.
    """

    rows: int | None
    least: dict[str, Any]
    greatest: dict[str, Any]
    nulls: dict[str, Any]
    partition: dict[str, Any]

    def column(self, path: Path) -> ColumnStats:
        if len(path) == 1 and path[0] in self.partition:
            value = self.partition[path[0]]
            nulls = self.rows if value is None else 0
            if value is None and nulls is None:
                return ColumnStats(nulls=1, rows=1, is_exact=True)
            return ColumnStats(value, value, nulls, self.rows, is_exact=True)
        return ColumnStats(
            _at(self.least, path), _at(self.greatest, path), _at(self.nulls, path), self.rows
        )


def columns_of(filters: Sequence[pushed.Filter]) -> set[str]:
    """Returns the names of the top-level columns whose statistics the filters need."""
    columns = set()
    for condition in filters:
        while isinstance(condition, pushed.Not):
            condition = condition.child
        columns.add(condition.attribute[0])  # type: ignore[attr-defined,unused-ignore]
    return columns


def may_match(filters: Sequence[pushed.Filter], stats: FileStats) -> bool:
    """Returns False only if no row of the file passes all filters."""
    return all(_may_pass(condition, stats) for condition in filters)


def _may_pass(condition: pushed.Filter, stats: FileStats) -> bool:
    try:
        return _decide(condition, stats)
    except TypeError:  # values that cannot be compared
        return True


def _decide(condition: pushed.Filter, stats: FileStats) -> bool:
    match condition:
        case pushed.Not(child=pushed.IsNull(attribute=path)):
            return not stats.column(path).is_all_null
        case pushed.Not(child=pushed.IsNotNull(attribute=path)):
            return stats.column(path).nulls != 0
        case pushed.Not(child=pushed.EqualTo(attribute=path, value=value)):
            return _may_differ(stats.column(path), (value,))
        case pushed.Not(child=pushed.In(attribute=path, value=values)):
            return _may_differ(stats.column(path), values)
        case pushed.IsNull(attribute=path) | pushed.EqualNullSafe(attribute=path, value=None):
            return stats.column(path).nulls != 0
        case pushed.IsNotNull(attribute=path):
            return not stats.column(path).is_all_null
        case (
            pushed.EqualTo(attribute=path, value=value)
            | pushed.EqualNullSafe(attribute=path, value=value)
        ):
            return _may_equal(stats.column(path), value)
        case pushed.In(attribute=path, value=values):
            column = stats.column(path)
            return any(_may_equal(column, value) for value in values)
        case pushed.GreaterThan(attribute=path, value=value):
            return _may_be_above(stats.column(path), value, or_equal=False)
        case pushed.GreaterThanOrEqual(attribute=path, value=value):
            return _may_be_above(stats.column(path), value, or_equal=True)
        case pushed.LessThan(attribute=path, value=value):
            return _may_be_below(stats.column(path), value, or_equal=False)
        case pushed.LessThanOrEqual(attribute=path, value=value):
            return _may_be_below(stats.column(path), value, or_equal=True)
        case pushed.StringStartsWith(attribute=path, value=value):
            return _may_start_with(stats.column(path), value)
    return True


def _may_equal(column: ColumnStats, value: Any) -> bool:
    if value is None:
        return False  # nothing equals null
    return _may_be_above(column, value, or_equal=True, is_equality=True) and _may_be_below(
        column, value, or_equal=True
    )


def _may_be_above(
    column: ColumnStats, value: Any, *, or_equal: bool, is_equality: bool = False
) -> bool:
    if column.is_all_null:
        return False
    greatest = column.greatest
    if greatest is None or _is_nan(value):
        return True
    if isinstance(greatest, float) and not is_equality:
        return True  # NaN is above all values, and in no statistics
    if isinstance(greatest, datetime):
        greatest, value = _comparable(greatest), _comparable(value)
        greatest = greatest if column.is_exact else greatest + _MOMENT_SLACK
    return bool(greatest >= value if or_equal else greatest > value)


def _may_be_below(column: ColumnStats, value: Any, *, or_equal: bool) -> bool:
    if column.is_all_null:
        return False
    least = column.least
    if least is None or _is_nan(value) or _is_nan(least):
        return True
    if isinstance(least, datetime):
        least, value = _comparable(least), _comparable(value)
    return bool(least <= value if or_equal else least < value)


def _may_differ(column: ColumnStats, values: Sequence[Any]) -> bool:
    if column.is_all_null or any(value is None for value in values):
        return False
    if not column.is_exact or _is_nan(column.least):
        return True
    least = column.least
    if isinstance(least, datetime):
        return _comparable(least) not in map(_comparable, values)
    return least not in values


def _may_start_with(column: ColumnStats, prefix: str) -> bool:
    if column.is_all_null:
        return False
    if column.greatest is not None and column.greatest < prefix:
        return False
    return column.least is None or column.least[: len(prefix)] <= prefix


def _comparable(moment: Any) -> Any:
    """Converts a time with a zone to UTC. Times without a zone are only compared with each
    other.
    """
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment.astimezone(UTC)
    return moment


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _at(document: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return None if isinstance(document, dict) else document
