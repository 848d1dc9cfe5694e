"""The option `filters` of batch reads: conditions that every row of a loaded frame meets.

    .option("filters", '[["partition", "=", 1], ["timestamp", ">=", "2026-01-31T12:00:00Z"]]')

All data sources but `lakebed.manifest` have this option. Conditions on some columns limit which
data is read; unless that applies a condition exactly, each row is checked after it is read. The
conditions belong to the frame, so every query of the frame sees the same rows. A query's own
`where` conditions are not pushed down to the source: Spark 4.3.0 would store the filters that one
query pushed into a Python source with the frame, and other queries of that frame, including a
self-join, would then miss rows.
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
REFUSED: Final = "pushFilters"  # removed; the error names its replacement

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
    """Parses the option `filters`. Returns an empty tuple if the option is not set.

    Raises `BadConfig` if the option is invalid, if a condition uses a column that is not in the
    schema, or if the removed option `pushFilters` is true.
    """
    if options.flag(REFUSED, default=False):
        raise options.wrong(
            REFUSED,
            f"omitted: it was removed, because the filters of one query would also apply to other "
            f"queries of the same frame; use the option "
            f'{OPTION} instead, as in [["partition", "=", 1]]',
        )
    if not options.has(OPTION):
        return ()
    document = options.document(OPTION)
    try:
        if not isinstance(document, list):
            raise TypeError("not a list")
        return tuple(_condition(parts, schema()) for parts in document)
    except (TypeError, ValueError, KeyError, pa.ArrowException) as error:
        requirement = (
            "JSON like [[column, operator, value], …] with the operators "
            f"{', '.join(_OPERATORS)}: {error}"
        )
        raise options.wrong(OPTION, requirement) from None


def kept(batch: pa.RecordBatch, conditions: Sequence[Filter]) -> pa.RecordBatch:
    """Returns the rows of the batch that meet all conditions.

    A comparison with a null is not met.
    """
    for condition in conditions:
        batch = batch.filter(_mask(batch, condition))  # drops rows for which the condition is null
    return batch


def _condition(parts: Sequence[Any], schema: pa.Schema) -> Filter:
    column, operator, *values = parts
    if column not in schema.names:
        raise ValueError(
            f"the column {column!r} does not exist; the columns are {', '.join(schema.names)}"
        )
    name = str(operator).lower()
    if name not in _OPERATORS:
        raise ValueError(f"the operator {operator!r} does not exist")
    if name in _NULLS and not values:
        return _NULLS[name]((column,))  # type: ignore[no-any-return]
    if name in _NULLS or len(values) != 1:
        raise ValueError(
            f"the operator {operator!r} takes {'no' if name in _NULLS else 'one'} value"
        )
    (value,) = values
    kind = schema.field(column).type
    if name == "in":
        return In((column,), tuple(_value(item, kind) for item in value))
    if name == "!=":
        return Not(EqualTo((column,), _value(value, kind)))
    return _COMPARISONS[name]((column,), _value(value, kind))  # type: ignore[no-any-return]


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None or isinstance(value, list | dict):
        raise ValueError(f"a value must be text, a number or a boolean, not {value!r}")
    converted = pa.scalar(value).cast(kind).as_py()
    if isinstance(value, int | float) and not isinstance(value, bool) and converted != value:
        raise ValueError(f"the value {value!r} does not fit the type {kind} of its column")
    return converted


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
    """Raises `BadConfig` if a condition uses a column that is not among the columns to read.

    `source` is the name of the data source, for the error message.
    """
    for condition in conditions:
        comparison: Any = condition.child if isinstance(condition, Not) else condition
        if comparison.attribute[0] not in columns:
            raise BadConfig(
                f"{source}: the option {OPTION} has a condition on the column "
                f"{comparison.attribute[0]!r}, which is not read: add it to the option columns"
            )
