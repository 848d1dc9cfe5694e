"""Decodes JSON values into columns, with a decoder that is generated for the schema.

A field whose value does not fit its column is rescued: the column is null in that row, and the
field's text is kept. A document that is not a JSON object is recorded as an error, and does not
affect other documents. The decoder is about as fast as `pyarrow.json`, which accepts either all
documents or none.
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


FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])  # each field as its text


class Documents:
    """The decoded JSON documents of one batch.

    A document that is not a JSON object is None in `objects`, and `errors` has the reason.
    """

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.objects: list[Any] = []
        self.errors: dict[int, str] = {}
        self.with_more: list[
            int
        ] = []  # indexes of documents that may have fields beyond the schema
        self._values = values
        self._rescued: dict[int, dict[str, msgspec.Raw]] = {}

    def rescue(self, index: int, names: Iterable[str]) -> None:
        """Keeps the JSON text of these fields of a document, because they do not fit their
        columns.
        """
        value = self._values[index]
        assert value is not None, "null has no fields"
        fields = FIELDS.decode(value)
        rescued = self._rescued.setdefault(index, {})
        rescued |= {name: fields[name] for name in names if name in fields}

    def rescued(self) -> list[str | None]:
        """Returns the rescued fields of each document as the text of a JSON object.

        A document without rescued fields has None.
        """
        texts: list[str | None] = [None] * len(self._values)
        for index, fields in self._rescued.items():
            if fields and index not in self.errors:
                texts[index] = msgspec.json.encode(fields).decode()
        return texts


class JsonDecoder:
    """Decodes JSON documents to the columns of one schema. A null value becomes a row of nulls."""

    def __init__(self, schema: StructType, *, lists_extra: bool) -> None:
        """Generates the decoder for the schema.

        If `lists_extra` is set, `decode` also lists the documents that may have fields beyond the
        schema.
        """
        self.schema = schema
        self._lists_extra = lists_extra
        loose = _class_of(schema, is_strict=False)
        self._loose = msgspec.json.Decoder(loose)
        self._fields = {
            field.encode_name: (field.name, msgspec.json.Decoder(field.type))
            for field in msgspec.structs.fields(loose)
        }
        self._first = self._loose
        if lists_extra:
            self._first = msgspec.json.Decoder(_class_of(schema, is_strict=True))
        self._nothing = loose()
        self._types = [field.type for field in arrow_schema(schema)]
        self._plain = [_plain(field.dataType) for field in schema.fields]

    def decode(self, values: Sequence[bytes | None]) -> Documents:
        """Decodes the JSON documents.

        Fields that the schema does not have are left out. If they are to be listed, the result's
        `with_more` has the indexes of documents that may have such fields.
        """
        documents = Documents(values)
        objects, first = documents.objects, self._first.decode
        for index, value in enumerate(values):
            if value is None:
                objects.append(self._nothing)
                continue
            try:
                objects.append(first(value))
            except BadDocument:
                objects.append(self._looser(documents, index, value))
        return documents

    def columns(self, documents: Documents) -> list[pa.Array]:
        """Returns the documents as Arrow columns. Documents that are not JSON objects have nulls.

        Rescues fields whose values Arrow cannot store, so call it before `Documents.rescued`.
        """
        objects = documents.objects
        if documents.errors:
            objects = [self._nothing if document is None else document for document in objects]
        cells: Sequence[Sequence[Any]] = list(
            zip(*map(msgspec.structs.astuple, objects), strict=True)
        )
        if not cells:  # no column, or no row
            cells = [()] * len(self._types)
        return [
            self._column(index, cells[index], documents) for index in range(len(self.schema.fields))
        ]

    def _looser(self, documents: Documents, index: int, value: bytes) -> Any:
        try:
            document = self._loose.decode(value)
        except BadDocument as error:
            return self._rescued(documents, index, value, error)
        documents.with_more.append(index)
        return document

    def _rescued(self, documents: Documents, index: int, value: bytes, why: BaseException) -> Any:
        """Decodes a document field by field, after decoding it as a whole failed because of `why`.

        Returns the document without the fields that do not fit their columns, and rescues these
        fields. If the document is not a JSON object, returns None and records `why` as its error.
        """
        try:
            fields = FIELDS.decode(value)
            value.decode()
        except BadDocument:
            documents.errors[index] = _error_text(why)
            return None
        fitting, misfits = {}, []
        for name, raw in fields.items():
            attribute, decoder = self._fields.get(name, (None, None))
            if decoder is None or attribute is None:
                continue
            try:
                fitting[attribute] = decoder.decode(raw)
            except BadDocument:
                misfits.append(name)
        documents.rescue(index, misfits)
        if self._lists_extra:  # nested fields may be unknown too; the caller checks
            documents.with_more.append(index)
        return msgspec.structs.replace(self._nothing, **fitting)

    def _column(self, index: int, cells: Sequence[Any], documents: Documents) -> pa.Array:
        import pyarrow as pa

        plain, data_type = self._plain[index], self._types[index]
        if plain is not None:
            cells = [None if cell is None else plain(cell) for cell in cells]
        try:
            return pa.array(cells, data_type)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            return self._column_with_misfits(self.schema.names[index], cells, data_type, documents)

    def _column_with_misfits(
        self, name: str, cells: Sequence[Any], data_type: pa.DataType, documents: Documents
    ) -> pa.Array:
        """Returns the column with nulls for values that Arrow cannot store, and rescues these
        values.

        Such values are valid JSON, for example numbers with too many digits.
        """
        import pyarrow as pa

        fitting = list(cells)
        for index, cell in enumerate(cells):
            try:
                pa.array([cell], data_type)
            except (pa.ArrowException, ValueError, OverflowError, TypeError):
                fitting[index] = None
                documents.rescue(index, [name])
        return pa.array(fitting, data_type)


def generic(value: bytes) -> Any:
    """Decodes a JSON document without a schema.

    Raises one of the exceptions in `BadDocument` if it is not JSON.
    """
    return msgspec.json.decode(value)


def check_decodable(schema: StructType) -> None:
    """Raises `InputError` if a column has a type that JSON values cannot have."""
    _class_of(schema, is_strict=True)


def _class_of(schema: StructType, *, is_strict: bool) -> type[msgspec.Struct]:
    """Creates the class of a decoded document, with one field for each column.

    The attributes are named by number, because JSON names need not be identifiers. If `is_strict`,
    the decoder refuses documents with other fields.
    """
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
                raise InputError(
                    "the schema has a map whose keys are not strings, but JSON keys are strings"
                )
            return dict[str, _python_type(data_type.valueType, is_strict) | None]  # type: ignore[misc]
    if (bits := _BITS.get(type(data_type))) is not None:
        limit = 1 << (bits - 1)
        return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
    if type(data_type) not in _PYTHON:
        raise InputError(
            f"a column of type {data_type.simpleString()} cannot be filled from JSON values"
        )
    return _PYTHON[type(data_type)]


def _plain(data_type: DataType) -> Callable[[Any], Any] | None:
    """Returns a function that converts a decoded value to what Arrow accepts for this type.

    Returns None if no conversion is needed.
    """
    match data_type:
        case StructType():
            names = data_type.names
            inner = [_plain(field.dataType) for field in data_type.fields]

            def struct(value: Any) -> Any:
                cells = msgspec.structs.astuple(value)
                return {
                    name: cell if convert is None or cell is None else convert(cell)
                    for name, cell, convert in zip(names, cells, inner, strict=True)
                }

            return struct
        case ArrayType():
            element = _plain(data_type.elementType)
            if element is None:
                return None
            return lambda value: [None if cell is None else element(cell) for cell in value]
        case MapType():
            item = _plain(data_type.valueType) or (lambda cell: cell)
            return lambda value: [
                (key, None if cell is None else item(cell)) for key, cell in value.items()
            ]
    return None


def _error_text(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "the document is nested too deeply"
    return str(error).partition("\n")[0]
