"""Converts the reports of jobs to JSON documents, and the documents back to the same reports.

A report is a dataclass or a named tuple whose fields are numbers, strings, booleans, enumerations,
errors, other reports, and lists of these. An error is converted to a problem document, and back to
an error of the same class. So a command prints a report that it received from a server exactly like
a report of its own process.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from lakebed.api.media import BadDocument
from lakebed.api.problems import error_of, problem_of
from lakebed.base.errors import LakebedError

Report = TypeVar("Report")

_hints_by_kind: dict[type, dict[str, Any]] = {}
_PLAIN: Final = (str, int, float, bool, types.NoneType)


def document_of(report: object) -> dict[str, Any]:
    """Converts a report, which is a dataclass or a named tuple, to a JSON document."""
    return {name: _plain(getattr(report, name)) for name in _hints(type(report))}


def report_of(kind: type[Report], document: Mapping[str, Any]) -> Report:
    """Converts a JSON document to a report of class `kind`. Unknown fields are ignored.

    Raises `BadDocument` if a field is missing or has a wrong type.
    """
    if not isinstance(document, Mapping):
        raise BadDocument(f"expected a {kind.__name__} report, found {str(document)[:80]!r}")
    values = {}
    for name, hint in _hints(kind).items():
        if name not in document:
            raise BadDocument(f"the {kind.__name__} report lacks the field {name}")
        values[name] = _restored(hint, document[name], f"{kind.__name__}.{name}")
    return kind(**values)


def _hints(kind: type) -> dict[str, Any]:
    """Returns the field names of a report class, in order, with their types."""
    cached = _hints_by_kind.get(kind)
    if cached is not None:
        return cached
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else _tuple_names(kind)
    hints = get_type_hints(kind)
    return _hints_by_kind.setdefault(kind, {name: hints[name] for name in names})


def _tuple_names(kind: type) -> tuple[str, ...]:
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return names


def _is_report(kind: object) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields")


def _plain(value: object) -> Any:
    if isinstance(value, LakebedError):
        return problem_of(value)
    if isinstance(value, Enum):
        return value.value
    if _is_report(value):
        return document_of(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    assert isinstance(value, _PLAIN), f"{type(value)} has no plain form"
    return value


def _restored(hint: Any, value: Any, place: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        (kind,) = [item for item in get_args(hint) if item is not types.NoneType]
        return None if value is None else _restored(kind, value, place)
    if origin in (list, tuple):
        return origin(_restored(get_args(hint)[0], item, place) for item in _list(value, place))
    if _is_report(hint):
        return report_of(hint, value)
    if issubclass(hint, LakebedError):
        return _error(hint, value, place)
    if issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise BadDocument(
                f"{place}: {str(value)[:80]!r} is not a value of {hint.__name__}"
            ) from None
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise BadDocument(f"{place}: expected {hint.__name__}, found {str(value)[:80]!r}")
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadDocument(f"{place}: expected a list, found {str(value)[:80]!r}")
    return value


def _error(kind: type[LakebedError], value: object, place: str) -> LakebedError:
    if not isinstance(value, Mapping):
        raise BadDocument(f"{place}: expected a problem document, found {str(value)[:80]!r}")
    error = error_of(value)
    if not isinstance(error, kind):
        raise BadDocument(
            f"{place}: expected a problem document of the error {kind.__name__}, found one of "
            f"{type(error).__name__}"
        )
    return error
