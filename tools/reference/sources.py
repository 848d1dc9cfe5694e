"""Reads texts from the modules' sources that are not available at run time.

These are strings after the fields of a class, comments at the end of a line, and the source text of
constants.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple


class Constant(NamedTuple):
    """A constant of a module, `written` as in the source."""

    name: str
    value: Any
    written: str
    note: str


def field_docstrings(kind: type) -> dict[str, str]:
    """By field: the string after it, in the class and its bases."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if dataclasses.is_dataclass(one):
            found |= _strings_after(_class_body(one))
    return found


def field_notes(kind: type) -> dict[str, str]:
    """By field or member: the comment at the end of its line."""
    notes = _read(kind.__module__).notes
    lines = _named_lines(_class_body(kind))
    return {name: notes[line] for name, line in lines if line in notes}


def constants(module: ModuleType) -> Iterator[Constant]:
    """The public numbers, bytes and texts in capitals that the module itself declares."""
    source, body, notes = _read(module.__name__)
    strings = _strings_after(body)
    for node in body:
        for name in _targets(node):
            value = getattr(module, name)
            is_plain = isinstance(value, int | bytes | str)
            if not name.isupper() or name.startswith("_") or not is_plain:
                continue
            written = node.value  # type: ignore[attr-defined]
            text = ast.get_source_segment(source, written) or ""
            shown = text if isinstance(written, ast.Constant) else repr(value)
            note = strings.get(name) or notes.get(node.end_lineno or 0, "")
            yield Constant(name, value, shown, note)


def declared(module: ModuleType, base: type) -> Iterator[tuple[str, Any]]:
    """The classes below `base` that the module itself declares."""
    for name, value in vars(module).items():
        is_below = isinstance(value, type) and issubclass(value, base)
        if is_below and value.__module__ == module.__name__:
            yield name, value


def docstring(kind: type) -> str:
    """What its author wrote: not what was inherited, nor what a dataclass or a struct makes up."""
    own = vars(kind).get("__doc__") or ""
    return "" if own.startswith(f"{kind.__name__}(") else inspect.cleandoc(own)


class _Source(NamedTuple):
    """A module, read. `notes` are the comments after code, by line."""

    text: str
    body: list[ast.stmt]
    notes: Mapping[int, str]


@functools.cache
def _read(module: str) -> _Source:
    text = inspect.getsource(sys.modules[module])
    notes = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not token.line.lstrip().startswith("#")
    }
    return _Source(text, ast.parse(text).body, notes)


def _class_body(kind: type) -> list[ast.stmt]:
    """The body of a class at the top level of its module."""
    classes = [one for one in _read(kind.__module__).body if isinstance(one, ast.ClassDef)]
    (found,) = [one for one in classes if one.name == kind.__name__]
    return found.body


def _strings_after(body: list[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for node, following in pairwise(body):
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                found |= dict.fromkeys(_targets(node), inspect.cleandoc(text))
    return found


def _named_lines(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    for node in body:
        for name in _targets(node):
            yield name, node.end_lineno or 0


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.AnnAssign):
        places: list[ast.expr] = [node.target]
    else:
        places = node.targets if isinstance(node, ast.Assign) else []
    return [place.id for place in places if isinstance(place, ast.Name)]
