"""The shape of JSON documents, as they were seen: what types a table needs for their fields. Pure.

Whole numbers are `bigint`, together with others `double`; text is always `string`, times are not
guessed. Where types differ, the most frequent one is taken. What was only ever null, or an empty
list or object, has no type yet.
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
_NO_NAME: Final = frozenset(" ,;{}()\n\t\r=")  # what Parquet files of Spark and Delta refuse
_SIMPLE: Final[Mapping[str, type[DataType]]] = {
    "boolean": BooleanType,
    "long": LongType,
    "double": DoubleType,
    "string": StringType,
}


class Shape(msgspec.Struct):
    """Of the values at one place of the documents. `counts` are of kinds; as JSON it travels."""

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
                for one in value:
                    self.element.add_value(one)
            case _:
                assert isinstance(value, dict), "JSON has no other types"
                kind = "struct"
                for name, one in value.items():
                    self.fields.setdefault(name, Shape()).add_value(one)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def add(self, other: Shape) -> None:
        """What somebody else saw."""
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
        for name, shape in other.fields.items():
            self.fields.setdefault(name, Shape()).add(shape)
        if other.element is not None:
            self.element = self.element or Shape()
            self.element.add(other.element)

    def struct(self, depth: int = 0) -> StructType:
        """Of objects: the fields that can be columns and have a type. Of two names that differ in
        case alone the one that was seen first."""
        found: dict[str, StructField] = {}
        for name, shape in self.fields.items():
            data_type = shape.data_type(depth + 1)
            if data_type is not None and is_column_name(name):
                found.setdefault(name.lower(), StructField(name, data_type))
        return StructType(list(found.values()))

    def data_type(self, depth: int = 0) -> DataType | None:
        if not self.counts or depth > DEPTH_MAX:
            return None
        counts = dict(self.counts)
        if "double" in counts:
            counts["double"] += counts.pop("long", 0)
        kind = max(counts, key=lambda one: counts[one])
        if kind == "struct":
            struct = self.struct(depth)
            return struct if struct.fields else None
        if kind == "array":
            element = None if self.element is None else self.element.data_type(depth + 1)
            return None if element is None else ArrayType(element)
        return _SIMPLE[kind]()


def is_column_name(name: str) -> bool:
    """Whether Parquet, Delta and Spark take it without an escape."""
    is_short = 0 < len(name) <= NAME_CHARACTERS_MAX
    return is_short and name.isprintable() and not set(name) & _NO_NAME


def extended(table: StructType, wanted: StructType) -> StructType:
    """The table's schema with the fields that it lacks; what it has stays as it is."""
    names = {name.lower() for name in table.names}
    fields = [
        StructField(
            one.name,
            _extended(one.dataType, wanted[one.name].dataType)
            if one.name in wanted.names
            else one.dataType,
            one.nullable,
            one.metadata,
        )
        for one in table.fields
    ]
    return StructType(fields + [one for one in wanted.fields if one.name.lower() not in names])


def _extended(table: DataType, wanted: DataType) -> DataType:
    match table, wanted:
        case StructType(), StructType():
            return extended(table, wanted)
        case ArrayType(), ArrayType():
            return ArrayType(_extended(table.elementType, wanted.elementType), table.containsNull)
    return table


def leaf_count(data_type: DataType) -> int:
    """How many columns files have for it."""
    match data_type:
        case StructType():
            return sum(leaf_count(one.dataType) for one in data_type.fields)
        case ArrayType():
            return leaf_count(data_type.elementType)
    return 1


def left_over(document: Mapping[str, Any], schema: StructType) -> list[str]:
    """The fields that have no column, or have within them something that has none: there are too
    many columns, it is nested too deeply, its type is unclear, or its name cannot be a column's."""
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
            return any(_is_more(one, data_type.elementType) for one in value)
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
