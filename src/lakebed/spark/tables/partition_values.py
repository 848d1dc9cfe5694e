"""The values of partition columns as Delta's log writes them: text, or null. Without I/O.

Timestamps are written in UTC with the suffix `Z`. As in every Delta table, an empty string becomes
null.
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
    """Returns the text in the log."""
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
    """Formats a timestamp: in UTC with the suffix `Z` if it has a zone. The year always has four
    digits, unlike with `strftime`.
    """
    if value.tzinfo is None:
        return value.isoformat(separator, timespec="microseconds")
    utc = value.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(separator, timespec="microseconds") + "Z"


def folder_of(values: dict[str, str | None]) -> str:
    """Returns `a=1/b=x/`, as a help for people; an empty string without partition columns."""
    return "".join(
        f"{_escaped(name)}={NULL_FOLDER if text is None else _escaped(text)}/"
        for name, text in values.items()
    )


def from_text(text: str | None, data_type: pa.DataType) -> Any:
    """Parses the log's text. Timestamps without a zone are in UTC."""
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
            f"the log has a partition value that is not of type {data_type}: {text!r}"
        ) from error


def _escaped(text: str) -> str:
    """Keeps letters, digits and `_ - .`, which never need another escape, and writes all others
    as `%XX`.
    """
    return quote(text, safe="").replace("~", "%7E")[:_FOLDER_CHARACTERS_MAX]
