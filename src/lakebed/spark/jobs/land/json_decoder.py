"""JSON values to columns: each document is read by a decoder that is made for the schema.

A field whose value does not fit its column is rescued: the column is null in that row, and the
field is kept as the text it was. A document that is no JSON object is an error of its own and does
not disturb the others. Measured against `pyarrow.json` (which takes all or nothing) it is as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakebed.base.errors import InputError
from lakebed.spark.tables.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

BadDocument: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_BITS: Final[dict[type[DataType], int]] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}
_PYTHON: Final[dict[type[DataType], Any]] = {
    BinaryType: bytes,  # in base64
    BooleanType: bool,
    DateType: date,
    DecimalType: Decimal,
    DoubleType: float,
    FloatType: float,
    StringType: str,
    TimestampNTZType: datetime,
    TimestampType: datetime,
}


FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])  # each as the text it is


class Documents:
    """Of one run of values. `objects` has None for a document that is none, and `errors` why."""

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.objects: list[Any] = []
        self.errors: dict[int, str] = {}
        self.with_more: list[int] = []  # those with fields that the schema lacks
        self._values = values
        self._rescued: dict[int, dict[str, msgspec.Raw]] = {}

    def rescue(self, index: int, names: Iterable[str]) -> None:
        """Keep these fields of a document as they are."""
        value = self._values[index]
        assert value is not None, "null has no fields"
        fields = FIELDS.decode(value)
        kept = self._rescued.setdefault(index, {})
        kept |= {name: fields[name] for name in names if name in fields}

    def rescued(self) -> list[str | None]:
        """For each document, its rescued fields as a JSON object; None if there are none."""
        found: list[str | None] = [None] * len(self._values)
        for index, fields in self._rescued.items():
            if fields and index not in self.errors:
                found[index] = msgspec.json.encode(fields).decode()
        return found


class JsonDecoder:
    """Of one schema; null is a row of nulls."""

    def __init__(self, schema: StructType, *, tells_more: bool) -> None:
        """`tells_more`: whether it is of interest which documents have fields beyond it."""
        self.schema = schema
        self._tells_more = tells_more
        loose = _class_of(schema, is_strict=False)
        self._loose = msgspec.json.Decoder(loose)
        self._fields = {
            one.encode_name: (one.name, msgspec.json.Decoder(one.type))
            for one in msgspec.structs.fields(loose)
        }
        self._first = self._loose
        if tells_more:
            self._first = msgspec.json.Decoder(_class_of(schema, is_strict=True))
        self._nothing = loose()
        self._types = [field.type for field in arrow_schema(schema)]
        self._plain = [_plain(field.dataType) for field in schema.fields]

    def decode(self, values: Sequence[bytes | None]) -> Documents:
        """Documents `with_more` are decoded without what the schema lacks."""
        found = Documents(values)
        objects, first = found.objects, self._first.decode
        for index, value in enumerate(values):
            if value is None:
                objects.append(self._nothing)
                continue
            try:
                objects.append(first(value))
            except BadDocument:
                objects.append(self._looser(found, index, value))
        return found

    def columns(self, found: Documents) -> list[pa.Array]:
        """Of all of them, with nulls in place of those that are none: there may be more then."""
        objects = found.objects
        if found.errors:
            objects = [self._nothing if one is None else one for one in objects]
        cells: Sequence[Sequence[Any]] = list(
            zip(*map(msgspec.structs.astuple, objects), strict=True)
        )
        if not cells:  # no column, or no row
            cells = [()] * len(self._types)
        return [
            self._column(index, cells[index], found) for index in range(len(self.schema.fields))
        ]

    def _looser(self, found: Documents, index: int, value: bytes) -> Any:
        try:
            document = self._loose.decode(value)
        except BadDocument as error:
            return self._rescued(found, index, value, error)
        found.with_more.append(index)
        return document

    def _rescued(self, found: Documents, index: int, value: bytes, why: BaseException) -> Any:
        """The document without the fields that do not fit."""
        try:
            fields = FIELDS.decode(value)
            value.decode()
        except BadDocument:
            found.errors[index] = _error_text(why)
            return None
        kept, misfits = {}, []
        for name, raw in fields.items():
            attribute, decoder = self._fields.get(name, (None, None))
            if decoder is None or attribute is None:
                continue
            try:
                kept[attribute] = decoder.decode(raw)
            except BadDocument:
                misfits.append(name)
        found.rescue(index, misfits)
        if self._tells_more and not fields.keys() <= self._fields.keys():
            found.with_more.append(index)
        return msgspec.structs.replace(self._nothing, **kept)

    def _column(self, index: int, cells: Sequence[Any], found: Documents) -> pa.Array:
        import pyarrow as pa

        plain, data_type = self._plain[index], self._types[index]
        if plain is not None:
            cells = [None if cell is None else plain(cell) for cell in cells]
        try:
            return pa.array(cells, data_type)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            return self._column_with_misfits(self.schema.names[index], cells, data_type, found)

    def _column_with_misfits(
        self, name: str, cells: Sequence[Any], data_type: pa.DataType, found: Documents
    ) -> pa.Array:
        """A number of too many digits, a time of too long ago: what JSON has, and Arrow has not."""
        import pyarrow as pa

        kept = list(cells)
        for index, cell in enumerate(cells):
            try:
                pa.array([cell], data_type)
            except (pa.ArrowException, ValueError, OverflowError, TypeError):
                kept[index] = None
                found.rescue(index, [name])
        return pa.array(kept, data_type)


def generic(value: bytes) -> Any:
    """The document as it is; one of `BadDocument` if it is none."""
    return msgspec.json.decode(value)


def check_decodable(schema: StructType) -> None:
    """`InputError` if JSON has no such values."""
    _class_of(schema, is_strict=True)


def _class_of(schema: StructType, *, is_strict: bool) -> type[msgspec.Struct]:
    """Names of fields are numbered: those of JSON can be anything."""
    names = {f"f{index}": field.name for index, field in enumerate(schema.fields)}
    return msgspec.defstruct(
        "Document",
        [
            (f"f{index}", _python_type(field.dataType, is_strict) | None, None)
            for index, field in enumerate(schema.fields)
        ],
        rename=names,
        forbid_unknown_fields=is_strict,
        gc=False,
    )


def _python_type(data_type: DataType, is_strict: bool) -> Any:
    match data_type:
        case StructType():
            return _class_of(data_type, is_strict=is_strict)
        case ArrayType():
            return list[_python_type(data_type.elementType, is_strict) | None]  # type: ignore[misc]
        case MapType():
            if not isinstance(data_type.keyType, StringType):
                raise InputError("the keys of a map in JSON are strings")
            return dict[str, _python_type(data_type.valueType, is_strict) | None]  # type: ignore[misc]
    if (bits := _BITS.get(type(data_type))) is not None:
        limit = 1 << (bits - 1)
        return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
    if type(data_type) not in _PYTHON:
        raise InputError(f"JSON values cannot be {data_type.simpleString()}")
    return _PYTHON[type(data_type)]


def _plain(data_type: DataType) -> Callable[[Any], Any] | None:
    """What makes of a decoded value one that Arrow takes; None if it takes it as it is."""
    match data_type:
        case StructType():
            names = data_type.names
            inner = [_plain(field.dataType) for field in data_type.fields]

            def struct(value: Any) -> Any:
                cells = msgspec.structs.astuple(value)
                return {
                    name: cell if one is None or cell is None else one(cell)
                    for name, cell, one in zip(names, cells, inner, strict=True)
                }

            return struct
        case ArrayType():
            element = _plain(data_type.elementType)
            if element is None:
                return None
            return lambda value: [None if one is None else element(one) for one in value]
        case MapType():
            item = _plain(data_type.valueType) or (lambda one: one)
            return lambda value: [
                (key, None if one is None else item(one)) for key, one in value.items()
            ]
    return None


def _error_text(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).partition("\n")[0]
