"""Schemas: Spark's, which Delta's log has in the same JSON, and what may be written to a table.

Pure. Columns are matched by name, exactly. A table's columns may all be null, as everywhere where
Spark writes Delta; a table that says otherwise was made by somebody else, and is obeyed.
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
_PARTITIONING: Final = tuple(one for one in _SIMPLE if one is not BinaryType)


class SchemaMismatch(InputError):
    """Rows that do not fit the table, and what would make them fit."""


def as_table_schema(schema: StructType) -> StructType:
    """What a table made for such rows has: every column may be null, and carries no metadata."""
    for field in schema.fields:
        _check_type(field.dataType, field.name)
    folded = [field.name.lower() for field in schema.fields]
    for name in folded:
        if folded.count(name) > 1:
            raise SchemaMismatch(f"the column {name!r} is there twice, but for its case")
    if not schema.fields:
        raise SchemaMismatch("there are no columns")
    loosened = _loosened(schema)
    assert isinstance(loosened, StructType), "of a struct"
    return loosened


def check_partitioning(schema: StructType, columns: Sequence[str]) -> None:
    """Whether a table of that schema can be partitioned by those columns."""
    for name in columns:
        if name not in schema.names:
            raise InputError(f"partitionBy: there is no column {name!r}: {_listed(schema)}")
        if not isinstance(schema[name].dataType, _PARTITIONING):
            kind = schema[name].dataType.simpleString()
            raise InputError(f"partitionBy: the column {name!r} is {kind}: nothing to part by")
    if len(columns) == len(schema.names):
        raise InputError("partitionBy: a table needs a column that it is not partitioned by")


def evolved(
    table: StructType, rows: StructType, *, may_add: bool, may_widen: bool = True
) -> StructType:
    """The schema that the table needs to take those rows; the same, if it needs no other.

    Columns that rows lack are null there; whole numbers and floats may be of a smaller type than
    the table's, if they may be widened. New columns go behind the others, if they may be added.
    """
    found = _Comparison(may_widen)
    schema = found.struct(table, as_table_schema(rows), "")
    problems = found.problems
    if found.added and not may_add:
        problems.append(
            f"the table has no column {', '.join(found.added)} (the option mergeSchema adds it)"
        )
    if problems:
        raise SchemaMismatch(
            "the rows do not fit the table: " + "; ".join(problems) + f"; {_listed(table)}"
        )
    return schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """As Spark wants it from a data source, and as files are written; moments are of UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def only(schema: StructType, columns: Sequence[str]) -> StructType:
    """These columns, in their order; all, if none is named."""
    for name in columns:
        if name not in schema.names:
            raise InputError(f"columns: there is no column {name!r}: {_listed(schema)}")
    return StructType([schema[name] for name in columns]) if columns else schema


def is_readable_as(schema: StructType, wanted: StructType) -> bool:
    """Whether rows of `schema` can be given as `wanted` with nothing left out or changed."""
    found = _Comparison(may_widen=False)
    found.struct(_loosened(wanted), _loosened(schema), "")
    return not found.added and not found.problems


class _Comparison:
    """Of a table's schema with that of rows: what is new, and what does not fit."""

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
                known = names[field.name.lower()]
                self.problems.append(f"{path}{field.name} is called {known} there")
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
                f"{path} is {table.simpleString()}, and here {rows.simpleString()}"
            )
        return table


def _check_type(data_type: DataType, path: str) -> None:
    for kind, place in _leaves(data_type, path):
        if not isinstance(kind, _SIMPLE):
            raise SchemaMismatch(f"the column {place} is {kind.simpleString()}: Delta has no such")


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
    """Null everywhere, but for the keys of maps; strings of any length and the plain collation."""
    match data_type:
        case StructType():
            return StructType(
                [StructField(one.name, _loosened(one.dataType), True) for one in data_type.fields]
            )
        case ArrayType():
            return ArrayType(_loosened(data_type.elementType), True)
        case MapType():
            return MapType(_loosened(data_type.keyType), _loosened(data_type.valueType), True)
        case StringType():
            return StringType()
    return data_type


def _listed(schema: StructType) -> str:
    return "its columns: " + ", ".join(
        f"{field.name} {field.dataType.simpleString()}" for field in schema.fields
    )
