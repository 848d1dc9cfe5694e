"""Schemas of tables and rows, and the rules for which rows may be written to a table. Does no I/O.

Delta's log stores schemas in Spark's JSON. Columns are matched by their exact names. All columns of
a new table are nullable, as when Spark writes Delta. If another program created a table with
columns that are not nullable, writes respect that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakebed.base.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_SIMPLE: Final = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
_WIDER: Final[dict[type, tuple[type, ...]]] = {
    ByteType: (ShortType, IntegerType, LongType),
    ShortType: (IntegerType, LongType),
    IntegerType: (LongType,),
    FloatType: (DoubleType,),
}
_PARTITIONING: Final = tuple(kind for kind in _SIMPLE if kind is not BinaryType)


class SchemaMismatch(InputError):
    """The rows do not fit the schema of the table. The message states what does not fit."""


def as_table_schema(schema: StructType) -> StructType:
    """Returns the schema of a new table for rows with this schema.

    All columns are nullable and have no metadata. Raises `SchemaMismatch` if Delta does not support
    such a table.
    """
    for field in schema.fields:
        _check_type(field.dataType, field.name)
    folded = [field.name.lower() for field in schema.fields]
    for name in folded:
        if folded.count(name) > 1:
            raise SchemaMismatch(
                f"the rows have the column {name!r} twice (upper and lower case count as equal)"
            )
    if not schema.fields:
        raise SchemaMismatch("the rows have no columns, so they cannot be written to a table")
    loosened = _loosened(schema)
    assert isinstance(loosened, StructType), "a struct stays a struct"
    return loosened


def check_partitioning(schema: StructType, columns: Sequence[str]) -> None:
    """Raises `InputError` if a table of that schema cannot be partitioned by these columns."""
    for name in columns:
        if name not in schema.names:
            raise InputError(f"partitionBy: the column {name!r} does not exist; {_listed(schema)}")
        if not isinstance(schema[name].dataType, _PARTITIONING):
            kind = schema[name].dataType.simpleString()
            raise InputError(
                f"partitionBy: the column {name!r} has the type {kind}, which is not allowed"
            )
    if len(columns) == len(schema.names):
        raise InputError("partitionBy: it names all columns; at least one column must not be in it")


def evolved(
    table: StructType, rows: StructType, *, may_add: bool, may_widen: bool = True
) -> StructType:
    """Returns the schema that the table needs to store the rows: often the one that it has.

    Columns that the rows do not have become null. If `may_add`, new columns are added at the end.
    If `may_widen`, the rows may have smaller types of integers and floats than the table. Raises
    `SchemaMismatch` if the rows do not fit.
    """
    comparison = _Comparison(may_widen)
    schema = comparison.struct(table, as_table_schema(rows), "")
    problems = comparison.problems
    if comparison.added and not may_add:
        problems.append(
            f"these columns are not in the table: {', '.join(comparison.added)} (set mergeSchema "
            "to add them)"
        )
    if problems:
        raise SchemaMismatch(
            "the rows do not fit the table: " + "; ".join(problems) + f"; {_listed(table)}"
        )
    return schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """Converts a Spark schema to the Arrow schema that Spark expects and that files are written
    with.

    Timestamps are in UTC.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def only(schema: StructType, columns: Sequence[str]) -> StructType:
    """Returns the schema with only these columns, in this order; all columns if `columns` is empty.

    Raises `InputError` if a column does not exist.
    """
    for name in columns:
        if name not in schema.names:
            raise InputError(f"columns: the column {name!r} does not exist; {_listed(schema)}")
    return StructType([schema[name] for name in columns]) if columns else schema


def is_readable_as(schema: StructType, requested: StructType) -> bool:
    """Returns whether rows with the schema `schema` can be returned with the schema `requested`
    without converting a value. Columns that `schema` lacks become null.
    """
    comparison = _Comparison(may_widen=False)
    comparison.struct(_loosened(requested), _loosened(schema), "")
    return not comparison.added and not comparison.problems


class _Comparison:
    """Compares the schema of a table with that of rows.

    Lists the columns that are new in the rows, and what does not fit.
    """

    def __init__(self, may_widen: bool) -> None:
        self._may_widen = may_widen
        self.added: list[str] = []
        self.problems: list[str] = []

    def struct(self, table: StructType, rows: StructType, path: str) -> StructType:
        fields = []
        names = {name.lower(): name for name in table.names}
        for field in table.fields:
            kind = field.dataType
            if field.name in rows.names:
                kind = self._type(kind, rows[field.name].dataType, f"{path}{field.name}")
            fields.append(StructField(field.name, kind, field.nullable, field.metadata))
        for field in rows.fields:
            if field.name in table.names:
                continue
            if field.name.lower() in names:
                table_name = names[field.name.lower()]
                self.problems.append(f"{path}{field.name} is called {table_name} in the table")
                continue
            self.added.append(f"{path}{field.name} {field.dataType.simpleString()}")
            fields.append(field)
        return StructType(fields)

    def _type(self, table: DataType, rows: DataType, path: str) -> DataType:
        match table, rows:
            case StructType(), StructType():
                return self.struct(table, rows, f"{path}.")
            case ArrayType(), ArrayType():
                element = self._type(table.elementType, rows.elementType, f"{path}[]")
                return ArrayType(element, table.containsNull)
            case MapType(), MapType():
                key = self._type(table.keyType, rows.keyType, f"{path}.key")
                value = self._type(table.valueType, rows.valueType, f"{path}.value")
                return MapType(key, value, table.valueContainsNull)
        wider = _WIDER.get(type(rows), ()) if self._may_widen else ()
        if table != rows and not isinstance(table, wider):
            self.problems.append(
                f"{path} is {table.simpleString()} in the table, but {rows.simpleString()} "
                "in the rows"
            )
        return table


def _check_type(data_type: DataType, path: str) -> None:
    for kind, leaf_path in _leaves(data_type, path):
        if not isinstance(kind, _SIMPLE):
            raise SchemaMismatch(
                f"the column {leaf_path!r} is of type {kind.simpleString()}, "
                "which Delta does not support"
            )


def _leaves(data_type: DataType, path: str) -> Iterator[tuple[DataType, str]]:
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield from _leaves(field.dataType, f"{path}.{field.name}")
        case ArrayType():
            yield from _leaves(data_type.elementType, f"{path}[]")
        case MapType():
            yield from _leaves(data_type.keyType, f"{path}.key")
            yield from _leaves(data_type.valueType, f"{path}.value")
        case _:
            yield data_type, path


def _loosened(data_type: DataType) -> Any:
    """Returns the type with everything nullable except the keys of maps.

    Also removes the collation of strings.
    """
    match data_type:
        case StructType():
            return StructType(
                [
                    StructField(field.name, _loosened(field.dataType), True)
                    for field in data_type.fields
                ]
            )
        case ArrayType():
            return ArrayType(_loosened(data_type.elementType), True)
        case MapType():
            return MapType(_loosened(data_type.keyType), _loosened(data_type.valueType), True)
        case StringType():
            return StringType()
    return data_type


def _listed(schema: StructType) -> str:
    return "the columns are " + ", ".join(
        f"{field.name} {field.dataType.simpleString()}" for field in schema.fields
    )
