"""Fixed-size binary records, declared once as a `NamedTuple` of annotated fields.

    class FrameHeader(NamedTuple):
        \"\"\"Precedes every record of a segment.\"\"\"

        length: u32  # payload bytes
        checksum: u32  # folded crc64-nvme of the payload
        timestamp: u64  # ns
        ext_id: u64

    FRAME = Layout(FrameHeader, order="<", size=24)

A layout compiles to one `struct.Struct` and computes the offsets of its fields. When it is created,
it checks that the size of the record is the declared one. `markdown` returns the table for the page
that documents the format; the notes in the table are the comments after the fields.

Padding belongs to the field before it: `version: Annotated[u32, PadAfter(4)]`. It is written as
zeros and skipped on reading; `padding_is_zero` checks it.
"""

from __future__ import annotations

import inspect
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_type_hints

from lakebed.base.errors import Torn

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Scalar:
    """An integer of fixed width, identified by its `struct` code."""

    code: str
    name: str


@dataclass(frozen=True)
class Raw:
    """A fixed number of bytes."""

    length: int


@dataclass(frozen=True)
class PadAfter:
    """`length` zero bytes after a field. They are not part of the record's values."""

    length: int


u8 = Annotated[int, Scalar("B", "u8")]
u16 = Annotated[int, Scalar("H", "u16")]
u32 = Annotated[int, Scalar("I", "u32")]
u64 = Annotated[int, Scalar("Q", "u64")]
i16 = Annotated[int, Scalar("h", "i16")]
i32 = Annotated[int, Scalar("i", "i32")]
i64 = Annotated[int, Scalar("q", "i64")]

Record = TypeVar("Record", bound=tuple[object, ...])
Order = Literal["<", ">"]


class Field(NamedTuple):
    """One field of a layout with its computed offset."""

    name: str
    kind: str
    offset: int
    size: int


class LayoutError(TypeError):
    """The declaration of a layout is wrong, or a layout has no field of the requested name."""


class Layout(Generic[Record]):
    """Packs and unpacks one `NamedTuple` class in one byte order."""

    __slots__ = ("_make", "_pads", "_struct", "fields", "order", "pack_values", "record", "size")

    def __init__(self, record: type[Record], *, order: Order, size: int) -> None:
        if order not in ("<", ">"):
            raise LayoutError(f"{record.__name__}: byte order must be '<' or '>', not {order!r}")
        fields, pads, code = _compile(record)
        self.record = record
        self.order = order
        self.fields: tuple[Field, ...] = fields
        self._pads = pads
        self._struct = struct.Struct(order + code)
        self.pack_values = self._struct.pack  # takes bare field values, for packing many
        self._make = record._make  # type: ignore[attr-defined]
        self.size = self._struct.size
        if self.size != size:
            raise LayoutError(f"{record.__name__} is {self.size} bytes, but {size} are declared")

    def pack(self, value: Record) -> bytes:
        """Returns the record's bytes. A number that does not fit its field raises `struct.error`;
        bytes are cut or filled with zeros to the length of their field.
        """
        return self._struct.pack(*value)

    def pack_into(self, buffer: bytearray | memoryview, offset: int, value: Record) -> None:
        self._struct.pack_into(buffer, offset, *value)

    def unpack(self, buffer: Buffer, offset: int = 0) -> Record:
        """Returns the record at `offset`. Raises `Torn` if the buffer ends inside it."""
        if offset < 0 or len(buffer) - offset < self.size:
            raise Torn(
                f"{self.record.__name__} is truncated",
                offset=offset,
                expected=f"{self.size} bytes",
                found=f"{max(0, len(buffer) - offset)}",
            )
        return self._make(self._struct.unpack_from(buffer, offset))  # type: ignore[no-any-return]

    def values(self, buffer: Buffer, offset: int) -> tuple[Any, ...]:
        """Returns the field values as a plain tuple, for tight loops over many records. The
        caller guarantees that the buffer holds the whole record.
        """
        return self._struct.unpack_from(buffer, offset)

    def iter_unpack(self, buffer: Buffer) -> Iterator[Record]:
        """Iterates over a buffer that holds records of this layout and nothing else. Raises `Torn`
        if its length is not a multiple of the record size.
        """
        if len(buffer) % self.size:
            raise Torn(
                f"{self.record.__name__} array is truncated",
                offset=len(buffer) - len(buffer) % self.size,
                expected=f"a multiple of {self.size} bytes",
                found=len(buffer),
            )
        return map(self._make, self._struct.iter_unpack(buffer))

    def offset_of(self, name: str) -> int:
        return self.field(name).offset

    def field(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise LayoutError(f"{self.record.__name__} has no field {name!r}")

    def padding_is_zero(self, buffer: Buffer, offset: int = 0) -> bool:
        """Returns whether all padding bytes are zero."""
        return not any(any(buffer[offset + pad.start : offset + pad.stop]) for pad in self._pads)

    def markdown(self) -> str:
        """Returns a Markdown table of the fields for the documentation of the format. The columns
        are offset, size, field, type and note.
        """
        notes = _field_notes(self.record)
        rows = [
            (str(f.offset), str(f.size), f"`{f.name}`", f.kind, notes.get(f.name, ""))
            for f in self.fields
        ]
        rows += [(str(p.start), str(len(p)), "", "zero", "padding") for p in self._pads]
        rows.sort(key=lambda row: int(row[0]))
        lines = ["| offset | size | field | type | note |", "| ---: | ---: | --- | --- | --- |"]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join(lines) + "\n"


def _compile(record: type[Record]) -> tuple[tuple[Field, ...], tuple[range, ...], str]:
    hints = get_type_hints(record, include_extras=True)
    fields: list[Field] = []
    pads: list[range] = []
    code = ""
    offset = 0
    for name in record._fields:  # type: ignore[attr-defined]
        kind, field_code = _kind(record, name, get_args(hints[name])[1:])
        size = struct.calcsize("<" + field_code)
        fields.append(Field(name, kind, offset, size))
        code += field_code
        offset += size
        for pad in (part for part in get_args(hints[name])[1:] if isinstance(part, PadAfter)):
            pads.append(range(offset, offset + pad.length))
            code += f"{pad.length}x"
            offset += pad.length
    return tuple(fields), tuple(pads), code


def _kind(record: type, name: str, parts: tuple[object, ...]) -> tuple[str, str]:
    for part in parts:
        if isinstance(part, Scalar):
            return part.name, part.code
        if isinstance(part, Raw):
            return f"bytes[{part.length}]", f"{part.length}s"
    raise LayoutError(f"{record.__name__}.{name} is not annotated with a binary type")


def _field_notes(record: type) -> dict[str, str]:
    """Returns the comment after each field in the source code of the class, by the field's name."""
    module = sys.modules.get(record.__module__)
    if module is None or not hasattr(module, "__file__"):
        return {}
    notes: dict[str, str] = {}
    for line in inspect.getsource(record).splitlines():
        declaration, hash_mark, comment = line.partition("#")
        name, colon, _ = declaration.partition(":")
        if hash_mark and colon:
            notes[name.strip()] = comment.strip()
    return notes
