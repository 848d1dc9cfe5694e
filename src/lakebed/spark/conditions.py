"""Conditions that a frame is loaded with: its rows are those for which all of them hold.

    .option("filters", '[["partition", "=", 1], ["timestamp", ">=", "2026-01-31T12:00:00Z"]]')

They decide what is read at all, and belong to the frame: every query of it has the same rows. The
filters of queries are not pushed down. Spark 4.3.0 keeps what one query of a Python source has
pushed with the frame, and other queries of it, a join with itself included, then lack rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from lakebed.base.errors import BadConfig
from lakebed.spark.options import Options

OPTION: Final = "filters"
REFUSED: Final = "pushFilters"  # what there was before

_COMPARISONS: Final[Mapping[str, type[Any]]] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "startswith": StringStartsWith,
}
_NULLS: Final[Mapping[str, type[Any]]] = {"is null": IsNull, "is not null": IsNotNull}
_OPERATORS: Final = (*_COMPARISONS, "!=", "in", *_NULLS)
_MASKS: Final[Mapping[type[Any], Callable[[Any, Any], Any]]] = {
    EqualTo: pc.equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
}


def conditions_of(options: Options, schema: Callable[[], pa.Schema]) -> tuple[Filter, ...]:
    """Of the option `filters`, on the columns of the schema; `BadConfig` if it is wrong."""
    if options.flag(REFUSED, default=False):
        raise options.wrong(
            REFUSED,
            f"left out: queries of one frame would get each other's filters; give the option "
            f'{OPTION}, as in [["partition", "=", 1]]',
        )
    if not options.has(OPTION):
        return ()
    document = options.document(OPTION)
    try:
        if not isinstance(document, list):
            raise TypeError("it is no list")
        return tuple(_condition(each, schema()) for each in document)
    except (TypeError, ValueError, KeyError, pa.ArrowException) as error:
        wanted = f"JSON as [[column, operator, value], …] of {', '.join(_OPERATORS)}: {error}"
        raise options.wrong(OPTION, wanted) from None


def kept(batch: pa.RecordBatch, conditions: Sequence[Filter]) -> pa.RecordBatch:
    """The rows for which all of them hold."""
    for condition in conditions:
        batch = batch.filter(_mask(batch, condition))  # a null is no row
    return batch


def _condition(parts: Sequence[Any], schema: pa.Schema) -> Filter:
    column, operator, *values = parts
    if column not in schema.names:
        raise ValueError(f"there is no column {column}; there are {', '.join(schema.names)}")
    name = str(operator).lower()
    if name in _NULLS and not values:
        return _NULLS[name]((column,))  # type: ignore[no-any-return]
    (value,) = values
    kind = schema.field(column).type
    if name == "in":
        return In((column,), tuple(_value(each, kind) for each in value))
    if name == "!=":
        return Not(EqualTo((column,), _value(value, kind)))
    return _COMPARISONS[name]((column,), _value(value, kind))  # type: ignore[no-any-return]


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None or isinstance(value, list | dict):
        raise ValueError(f"{value} is no value to compare with")
    found = pa.scalar(value).cast(kind).as_py()
    if isinstance(value, int | float) and not isinstance(value, bool) and found != value:
        raise ValueError(f"{value} is no {kind}")
    return found


def _mask(batch: pa.RecordBatch, condition: Filter) -> pa.Array:
    if isinstance(condition, Not):
        return pc.invert(_mask(batch, condition.child))
    (name,) = condition.attribute  # type: ignore[attr-defined]
    column = batch.column(name)
    if isinstance(condition, IsNull | IsNotNull):
        return pc.is_null(column) if isinstance(condition, IsNull) else pc.is_valid(column)
    if isinstance(condition, In):
        among = pc.is_in(column, pa.array(list(condition.value), column.type))
        return pc.and_(among, pc.is_valid(column))
    if isinstance(condition, StringStartsWith):
        return pc.starts_with(column, condition.value)
    value = pa.scalar(condition.value, column.type)  # type: ignore[attr-defined]
    return _MASKS[type(condition)](column, value)


def check_columns(source: str, conditions: Sequence[Filter], columns: Sequence[str]) -> None:
    """`BadConfig` if rows cannot be looked at because a column of a condition is not read."""
    for condition in conditions:
        plain: Any = condition.child if isinstance(condition, Not) else condition
        if plain.attribute[0] not in columns:
            raise BadConfig(
                f"{source}: the option {OPTION} has a condition on {plain.attribute[0]}, which is "
                "not among the columns that are read"
            )
