"""Reports as plain documents, and documents as the same reports again.

A report is a dataclass or a named tuple, made of such, of lists, numbers, texts and enumerations.
An error in it becomes a problem document, and an error of the same class again. So a command that
gets a report over the wire prints what it prints of one of its own.
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

_known: dict[type, dict[str, Any]] = {}
_PLAIN: Final = (str, int, float, bool, types.NoneType)


def document_of(report: object) -> dict[str, Any]:
    """Of a dataclass or a named tuple."""
    return {name: _plain(getattr(report, name)) for name in _hints(type(report))}


def report_of(kind: type[Report], document: Mapping[str, Any]) -> Report:
    """`BadDocument` if it is none of that kind. What it has besides is passed over."""
    if not isinstance(document, Mapping):
        raise BadDocument(f"no report of kind {kind.__name__}: {str(document)[:80]!r}")
    found = {}
    for name, hint in _hints(kind).items():
        if name not in document:
            raise BadDocument(f"a report of kind {kind.__name__} without {name}")
        found[name] = _restored(hint, document[name], f"{kind.__name__}.{name}")
    return kind(**found)


def _hints(kind: type) -> dict[str, Any]:
    """The fields, in their order, and what they hold."""
    known = _known.get(kind)
    if known is not None:
        return known
    names = [one.name for one in fields(kind)] if is_dataclass(kind) else _tuple_names(kind)
    hints = get_type_hints(kind)
    return _known.setdefault(kind, {name: hints[name] for name in names})


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
        return [_plain(one) for one in value]
    assert isinstance(value, _PLAIN), f"{type(value)} has no plain form"
    return value


def _restored(hint: Any, value: Any, place: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        (kind,) = [one for one in get_args(hint) if one is not types.NoneType]
        return None if value is None else _restored(kind, value, place)
    if origin in (list, tuple):
        return origin(_restored(get_args(hint)[0], one, place) for one in _list(value, place))
    if _is_report(hint):
        return report_of(hint, value)
    if issubclass(hint, LakebedError):
        return _error(hint, value, place)
    if issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise BadDocument(f"{place}: {str(value)[:80]!r} is none of {hint.__name__}") from None
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise BadDocument(f"{place}: expected {hint.__name__}, found {str(value)[:80]!r}")
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadDocument(f"{place}: expected a list, found {str(value)[:80]!r}")
    return value


def _error(kind: type[LakebedError], value: object, place: str) -> LakebedError:
    if not isinstance(value, Mapping):
        raise BadDocument(f"{place}: expected a problem, found {str(value)[:80]!r}")
    error = error_of(value)
    if not isinstance(error, kind):
        raise BadDocument(f"{place}: expected a {kind.__name__}, found {type(error).__name__}")
    return error
