"""Converts values of partition columns to the text that Delta's log stores, and back. Does no I/O.

Timestamps with a zone are written in UTC with the suffix `Z`. As in every Delta table, an empty
string becomes null.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lakebed.base.errors import DataError, InputError

if TYPE_CHECKING:
    import pyarrow as pa

NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"

_FOLDER_CHARACTERS_MAX: Final = (
    128  # per value; folder names are only for people, the log has the value
)


def as_text(value: Any) -> str | None:
    """Returns the text that the log stores for a partition value; None for null and for empty
    text.
    """
    match value:
        case None | "":
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime() if value.tzinfo is not None:
            return moment_text(value)
        case datetime():
            return moment_text(value, separator=" ")
        case date():
            return value.isoformat()
        case int() | float():
            return repr(value)
        case Decimal():
            return format(value, "f")
    raise InputError(f"a partition column cannot have a value of type {type(value).__name__}")


def moment_text(value: datetime, *, separator: str = "T") -> str:
    """Formats a timestamp. If it has a zone, the result is in UTC with the suffix `Z`.

    The year always has four digits, unlike with `strftime`.
    """
    if value.tzinfo is None:
        return value.isoformat(separator, timespec="microseconds")
    utc = value.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(separator, timespec="microseconds") + "Z"


def folder_of(values: dict[str, str | None]) -> str:
    """Returns the folder for files with these partition values, such as `a=1/b=x/`.

    The folder only helps people: the values are in the log. Without partition columns it is an
    empty string.
    """
    return "".join(
        f"{_escaped(name)}={NULL_FOLDER if text is None else _escaped(text)}/"
        for name, text in values.items()
    )


def from_text(text: str | None, data_type: pa.DataType) -> Any:
    """Converts the text of a partition value in the log to a value of the column's type.

    If the column's type has a time zone, text without one is taken as UTC; otherwise a time zone in
    the text is dropped. Raises `DataError` if the text is not a value of the type.
    """
    import pyarrow as pa

    if text is None or text == "":
        return None
    try:
        if pa.types.is_timestamp(data_type):
            moment = datetime.fromisoformat(text)
            if data_type.tz is None:
                return moment.replace(tzinfo=None)
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return pa.scalar(text, pa.string()).cast(data_type).as_py()
    except (ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"the table's log has a partition value that is not of type {data_type}: {text!r}"
        ) from error


def _escaped(text: str) -> str:
    """Escapes text for a folder name: all but letters, digits and `_ - .` become `%XX`.

    Long text is cut.
    """
    return quote(text, safe="").replace("~", "%7E")[:_FOLDER_CHARACTERS_MAX]
