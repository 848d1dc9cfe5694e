"""`formats.md`: every binary layout and its constants, from the modules that declare them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from lakebed.base.layout import Layout
from tools.reference.markdown import code, fenced, plain, table
from tools.reference.markdown import page as page_of
from tools.reference.sources import constants, declared, docstring, field_notes

MODULES: Final = (
    "lakebed.kernels.format",
    "lakebed.aof.format",
    "lakebed.aof.interchange",
    "lakebed.aof.manifest.format",
    "lakebed.aof.tiers.format",
    "lakebed.keratin.format",
    "lakebed.stroma.format",
    "lakebed.seglake.format",
)
"""All that declare layouts."""

GRAMMARS: Final = Path(__file__).parents[2] / "docs" / "formats"
_ORDERS: Final = {"<": "little-endian", ">": "big-endian"}

_INTRODUCTION = """
Every record of a fixed size. The pages of [formats](../README.md) describe how they follow each
other in files, what is checked, and which versions exist; each layout links to its page.
""".strip()


def page() -> str:
    blocks = [_INTRODUCTION]
    for name in MODULES:
        module = import_module(name)
        blocks += [f"## `{name}`", *_prose(module)]
        for constant, layout in layouts(module):
            columns = layout.markdown()
            blocks += [f"### {constant}", _summary(layout, columns), columns.rstrip("\n")]
        blocks += _enumerations(module)
        blocks += _constants(module)
    return page_of("Layouts", *blocks)


def layouts(module: ModuleType) -> Iterator[tuple[str, Layout[Any]]]:
    """Those that the module declares, not those that it only passes on."""
    for name, value in vars(module).items():
        if isinstance(value, Layout) and value.record.__module__ == module.__name__:
            yield name, value


def _prose(module: ModuleType) -> Iterator[str]:
    """The docstring: prose, and a grammar whose lines stay as they are."""
    for paragraph in (inspect.getdoc(module) or "").split("\n\n"):
        lines = inspect.cleandoc(paragraph)
        yield fenced(lines) if ":=" in lines else plain(lines)


def _summary(layout: Layout[Any], columns: str) -> str:
    text = plain(docstring(layout.record))
    bytes_ = "1 byte" if layout.size == 1 else f"{layout.size} bytes"
    return f"{text} {bytes_}, {_ORDERS[layout.order]}; {_link(layout, columns)}."


def _link(layout: Layout[Any], columns: str) -> str:
    """The page that has its table; a test of the layouts sees to it that there is one."""
    for name, text in _grammars():
        if columns in text:
            return f"[{name}](../formats/{name})"
    raise LookupError(f"no page of docs/formats contains the table of {layout.record.__name__}")


@cache
def _grammars() -> tuple[tuple[str, str], ...]:
    pages = sorted(GRAMMARS.glob("*.md"))
    return tuple((one.name, one.read_text(encoding="utf-8")) for one in pages)


def _enumerations(module: ModuleType) -> Iterator[str]:
    for base, noun in ((IntEnum, "value"), (IntFlag, "bit")):
        for name, kind in declared(module, base):
            notes = field_notes(kind)
            yield f"### {name}"
            yield plain(docstring(kind))
            rows = [(code(one.name), str(int(one)), plain(notes.get(one.name, ""))) for one in kind]
            yield table(("name", noun, "note"), rows)


def _constants(module: ModuleType) -> Iterator[str]:
    rows = [(code(one.name), code(one.written), plain(one.note)) for one in constants(module)]
    if rows:
        yield f"### Constants of {module.__name__.removeprefix('lakebed.')}"
        yield table(("name", "value", "note"), rows)
