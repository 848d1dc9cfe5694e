"""The values of partition columns, as Delta's log writes them: text, or null.

Pure. Moments are written in UTC and say so. An empty string is null there, as in every Delta table.
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

_FOLDER_CHARACTERS_MAX: Final = 128  # of a value; folders are for people, the log has the value


def as_text(value: Any) -> str | None:
    """What stands in the log."""
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
    """In UTC, and it says so, if it has a zone. A year has four digits, unlike `strftime`'s."""
    if value.tzinfo is None:
        return value.isoformat(separator, timespec="microseconds")
    utc = value.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(separator, timespec="microseconds") + "Z"


def folder_of(values: dict[str, str | None]) -> str:
    """`a=1/b=x/`, for people who look at the bucket; nothing, without partition columns."""
    return "".join(
        f"{_escaped(name)}={NULL_FOLDER if text is None else _escaped(text)}/"
        for name, text in values.items()
    )


def from_text(text: str | None, data_type: pa.DataType) -> Any:
    """The value that the log's text stands for. Moments without a zone are of UTC."""
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
            f"the log has a partition value that is no {data_type}: {text!r}"
        ) from error


def _escaped(text: str) -> str:
    """Only what needs no further escape on any way: letters, digits and `_ - . ~`; else `%XX`."""
    return quote(text, safe="").replace("~", "%7E")[:_FOLDER_CHARACTERS_MAX]
