"""Infers from JSON documents which types a table needs for their fields. Does no I/O.

Numbers become `bigint`, or `double` if any of them is not an integer of 64 bits. Text is always
`string`: it is never parsed as a time. If the values of a field have different types, the most
frequent type wins; nulls do not count. A field has no type yet if it was always null, or if its
most frequent type is a list or an object in which nothing has a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

DEPTH_MAX: Final = 16
NAME_CHARACTERS_MAX: Final = 255

_I64: Final = range(-(1 << 63), 1 << 63)
_NO_NAME: Final = frozenset(
    " ,;{}()\n\t\r="
)  # Spark or Delta refuse these in the column names of Parquet files
_SIMPLE: Final[Mapping[str, type[DataType]]] = {
    "boolean": BooleanType,
    "long": LongType,
    "double": DoubleType,
    "string": StringType,
}


class Shape(msgspec.Struct):
    """Counts the types of the values that JSON documents have in one field, with its nested fields.

    Sent between processes as JSON.
    """

    counts: dict[str, int] = {}
    fields: dict[str, Shape] = {}
    element: Shape | None = None

    def add_value(self, value: object) -> None:
        match value:
            case None:
                return
            case bool():
                kind = "boolean"
            case int():
                kind = "long" if value in _I64 else "double"
            case float():
                kind = "double"
            case str():
                kind = "string"
            case list():
                kind = "array"
                self.element = self.element or Shape()
                for item in value:
                    self.element.add_value(item)
            case _:
                assert isinstance(value, dict), "JSON has no other types"
                kind = "struct"
                for name, item in value.items():
                    self.fields.setdefault(name, Shape()).add_value(item)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def add(self, other: Shape) -> None:
        """Adds the counts of another shape to this one."""
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
        for name, shape in other.fields.items():
            self.fields.setdefault(name, Shape()).add(shape)
        if other.element is not None:
            self.element = self.element or Shape()
            self.element.add(other.element)

    def struct(self, depth: int = 0) -> StructType:
        """Returns the nested fields of JSON objects as Spark columns.

        Leaves out fields that have no type yet, whose name is not a valid column name, or which
        are nested more than `DEPTH_MAX` levels deep; `depth` is how deeply the objects themselves
        are nested. Of the names that differ only in case, the first one wins.
        """
        columns: dict[str, StructField] = {}
        for name, shape in self.fields.items():
            data_type = shape.data_type(depth + 1)
            if data_type is not None and is_column_name(name):
                columns.setdefault(name.lower(), StructField(name, data_type))
        return StructType(list(columns.values()))

    def data_type(self, depth: int = 0) -> DataType | None:
        if not self.counts or depth > DEPTH_MAX:
            return None
        counts = dict(self.counts)
        if "double" in counts:
            counts["double"] += counts.pop("long", 0)
        kind = max(counts, key=lambda name: counts[name])
        if kind == "struct":
            struct = self.struct(depth)
            return struct if struct.fields else None
        if kind == "array":
            element = None if self.element is None else self.element.data_type(depth + 1)
            return None if element is None else ArrayType(element)
        return _SIMPLE[kind]()


def is_column_name(name: str) -> bool:
    """Returns whether a field of JSON values with this name may become a column.

    Refuses characters that Spark or Delta refuse in the column names of Parquet files, unprintable
    characters, and names that are empty or too long. A query may have to quote an accepted name,
    for example one with a hyphen.
    """
    is_short = 0 < len(name) <= NAME_CHARACTERS_MAX
    return is_short and name.isprintable() and not set(name) & _NO_NAME


def extended(table: StructType, requested: StructType) -> StructType:
    """Returns the table's schema plus the requested fields that it lacks, also nested ones.

    Existing fields keep their types. A requested field is ignored if its name differs only in case
    from that of an existing field.
    """
    names = {name.lower() for name in table.names}
    fields = [
        StructField(
            field.name,
            _extended(field.dataType, requested[field.name].dataType)
            if field.name in requested.names
            else field.dataType,
            field.nullable,
            field.metadata,
        )
        for field in table.fields
    ]
    return StructType(
        fields + [field for field in requested.fields if field.name.lower() not in names]
    )


def _extended(table: DataType, requested: DataType) -> DataType:
    match table, requested:
        case StructType(), StructType():
            return extended(table, requested)
        case ArrayType(), ArrayType():
            return ArrayType(
                _extended(table.elementType, requested.elementType), table.containsNull
            )
    return table


def leaf_count(data_type: DataType) -> int:
    """Returns how many columns the type takes in a Parquet file; a map counts as one."""
    match data_type:
        case StructType():
            return sum(leaf_count(field.dataType) for field in data_type.fields)
        case ArrayType():
            return leaf_count(data_type.elementType)
    return 1


def left_over(document: Mapping[str, Any], schema: StructType) -> list[str]:
    """Returns the names of the document's top-level fields with content that has no column.

    Either the field or something inside it has no column, for example because its name cannot be a
    column name, because it is nested too deeply, or because the table would have too many columns.
    Nulls, and empty lists and objects, are not content. A value whose type does not fit its column
    does not count: the decoder rescues such values.
    """
    return [
        name
        for name, value in document.items()
        if (_is_more(value, schema[name].dataType) if name in schema.names else _has_content(value))
    ]


def _is_more(value: object, data_type: DataType) -> bool:
    match value, data_type:
        case dict(), StructType():
            return bool(left_over(value, data_type))
        case list(), ArrayType():
            return any(_is_more(item, data_type.elementType) for item in value)
    return False


def _has_content(value: object) -> bool:
    match value:
        case None:
            return False
        case dict():
            return any(map(_has_content, value.values()))
        case list():
            return any(map(_has_content, value))
    return True
