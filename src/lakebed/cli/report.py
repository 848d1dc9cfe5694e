"""The report of a command, printed as lines for people or as a JSON document for programs.

    run.output.show(
        Value("log", name),                       # a member of the document
        Rows("segments", SEGMENTS, segments),     # a list of objects, and a table
        Text("3 segments"),                       # lines only
    )

A command passes the values that it got from the engines. A table is declared once, as columns that
each name a field, its member in the document and its heading. Dataclasses and named tuples are
converted to JSON objects automatically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Protocol

NONE = "-"


class Part(Protocol):
    """A part of a report. It adds members to the document, lines to the text, or both."""

    def members(self) -> Mapping[str, object]:
        """Returns the members that this part adds to the document."""

    def lines(self) -> Iterable[str]:
        """Returns the lines that this part adds to the text."""


@dataclass(frozen=True)
class Column:
    """A column of a table: a value of each row, as a JSON member and as a cell.

    A column without a `key` is only in the table; a column without a `heading` is only in the
    document. `source` is the name of a field of the row, or a function of the row; by default the
    field is named by `key`. `text` formats the cell and `json` converts the member of a value that
    is not None.
    """

    key: str
    source: str | Callable[[Any], object] = ""
    heading: str | None = None
    text: Callable[[Any], str] | None = None
    json: Callable[[Any], object] | None = None

    def value(self, row: object) -> object:
        if callable(self.source):
            return self.source(row)
        return getattr(row, self.source or self.key)

    def member(self, row: object) -> object:
        value = self.value(row)
        return plain(value if self.json is None or value is None else self.json(value))

    def cell(self, row: object) -> str:
        value = self.value(row)
        if value is not None and self.text is not None:
            return self.text(value)
        return cell_text(value)


Columns = Sequence[Column]


@dataclass(frozen=True)
class Value:
    """A value that only the JSON document has: it adds a member there, and no line to the text."""

    key: str
    value: object

    def members(self) -> Mapping[str, object]:
        return {self.key: plain(self.value)}

    def lines(self) -> Iterable[str]:
        return ()


@dataclass(frozen=True)
class Text:
    """Lines that only the text has: they add no member to the JSON document."""

    texts: tuple[str, ...]

    def __init__(self, *texts: str) -> None:
        object.__setattr__(self, "texts", texts)

    def members(self) -> Mapping[str, object]:
        return {}

    def lines(self) -> Iterable[str]:
        return self.texts


@dataclass(frozen=True)
class Rows:
    """Adds a list of objects to the document, and a table to the text.

    The list is named `key`; without a `key` there is only the table. The table has the columns that
    have headings. If there are no rows, it consists of the headings, or of nothing with
    `hides_empty`. With `is_headed` false it never has headings.
    """

    key: str
    columns: Columns
    rows: Iterable[object]
    hides_empty: bool = field(default=False, kw_only=True)
    is_headed: bool = field(default=True, kw_only=True)

    def members(self) -> Mapping[str, object]:
        return {self.key: objects(self.columns, self.rows)} if self.key else {}

    def lines(self) -> Iterable[str]:
        shown = [column for column in self.columns if column.heading is not None]
        cells = [[column.cell(row) for column in shown] for row in self.rows]
        if self.hides_empty and not cells:
            return []
        heading = [column.heading or "" for column in shown] if self.is_headed else None
        return table(heading, cells)


@dataclass(frozen=True)
class Item:
    """Adds the members of one object to the document.

    Each column with a heading also adds a line with the heading and the value, unless the value is
    None.
    """

    columns: Columns
    row: object

    def members(self) -> Mapping[str, object]:
        return object_of(self.columns, self.row)

    def lines(self) -> Iterable[str]:
        facts = [
            (column.heading, column.cell(self.row))
            for column in self.columns
            if column.heading is not None and column.value(self.row) is not None
        ]
        return table(None, facts)


def object_of(columns: Columns, row: object) -> dict[str, object]:
    return {column.key: column.member(row) for column in columns if column.key}


def objects(columns: Columns, rows: Iterable[object]) -> list[dict[str, object]]:
    return [object_of(columns, row) for row in rows]


def document_of(parts: Iterable[Part]) -> dict[str, object]:
    document: dict[str, object] = {}
    for part in parts:
        document |= part.members()
    return document


def members_of(value: object) -> dict[str, object]:
    """Returns the fields of a dataclass or a named tuple as JSON members."""
    members = plain(value)
    assert isinstance(members, dict)
    return members


def plain(value: object) -> object:
    """Converts a value to JSON types: dataclasses and named tuples to objects, tuples to lists, and
    members of enumerations to their values."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def cell_text(value: object) -> str:
    """Formats a value as a cell of a table: `-` if it is None, an empty list or an empty tuple."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) or type(value) is tuple:  # a named tuple has a text of its own
        return ", ".join(map(str, value)) or NONE
    return str(value)


def table(heading: Sequence[str] | None, rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table with aligned columns. Lines are not wrapped to the width of the
    terminal, so that each row stays on one line."""
    cells = [] if heading is None else [tuple(heading)]
    cells += [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def counted(count: int, noun: str) -> str:
    """Formats a count with its noun: `1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def one_line(text: str) -> str:
    """Escapes the characters of a text that are not printable, such as newlines."""
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":
        # How Python carries a byte of a path that is not UTF-8.
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
