"""Whether rows of a file can match the filters that Spark pushed down, told by its statistics.

Pure. No file is passed over that has a matching row: where the statistics do not tell, it is read.
Spark filters the rows again, so nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import datasource as pushed

# Other writers cut the milliseconds of a moment off, also of the greatest one.
_MOMENT_SLACK: Final = timedelta(milliseconds=1)

Path = tuple[str, ...]


@dataclass(frozen=True)
class ColumnStats:
    """None is what nobody knows. `is_exact`: both bounds are the value of every row."""

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
    """Nested documents by column, as the log has them; `partition` has values of their type."""

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
    """The top-level columns whose statistics the filters need."""
    found = set()
    for one in filters:
        while isinstance(one, pushed.Not):
            one = one.child
        found.add(one.attribute[0])  # type: ignore[attr-defined,unused-ignore]
    return found


def may_match(filters: Sequence[pushed.Filter], stats: FileStats) -> bool:
    """False only if no row of the file passes all of them."""
    return all(_may_pass(one, stats) for one in filters)


def _may_pass(one: pushed.Filter, stats: FileStats) -> bool:
    try:
        return _decide(one, stats)
    except TypeError:  # two kinds of values that cannot be compared
        return True


def _decide(one: pushed.Filter, stats: FileStats) -> bool:
    match one:
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
        return True  # a NaN is above all, and in no statistics
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
    """Moments with and without a zone: the latter are only ever compared with their like."""
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
