"""`configuration.md`: the sections of `lakebed.toml`, from the classes that they are read into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_type_hints

from typer.main import get_command

from lakebed.aof.config import AofConfig
from lakebed.base.config import (
    ConfigClass,
    field_names,
    is_secret,
    limits_of,
    unit_of,
)
from lakebed.base.settings import ENVIRONMENT_PREFIX, FILE_NAME
from lakebed.base.units import VALUE_MAX, format_bytes, format_duration_ns, parse_duration_ns
from lakebed.cli import serve
from lakebed.node.config import NodeConfig
from lakebed.store.settings import NODE_SECTION, SECTIONS, AofSection
from tools.reference.markdown import code, plain, table
from tools.reference.markdown import page as page_of
from tools.reference.sources import docstring, field_docstrings

ALL_SECTIONS: Final[Mapping[str, type[ConfigClass]]] = {**SECTIONS, NODE_SECTION: NodeConfig}

_DECLARED_BY: Final[Mapping[type, type]] = {AofSection: AofConfig}
"""Classes derived from another one, whose source describes the settings."""

_INTRODUCTION = f"""
Each section is a table of `{FILE_NAME}`, and each setting a value in it. An environment variable
overrides the file, and an option of `lakebed serve` overrides both. Units are described in
[configuration](../guides/configuration.md). A plain number is in the unit given as its type.
""".strip()


def page() -> str:
    blocks = [_INTRODUCTION]
    for section, config in ALL_SECTIONS.items():
        blocks += [f"## `[{section}]`", _prose(config), _settings(section, config)]
    return page_of("Settings", *blocks)


def _prose(config: type[ConfigClass]) -> str:
    return plain(docstring(_DECLARED_BY.get(config, config)))


def _settings(section: str, config: type[ConfigClass]) -> str:
    sentences = field_docstrings(_DECLARED_BY.get(config, config))
    kinds, options = get_type_hints(config), _options(section)
    rows = [
        (
            code(name),
            _kind(name, kinds[name]),
            _shown(name, config.__dataclass_fields__[name].default),
            _allowed(config, name),
            code(f"{ENVIRONMENT_PREFIX}{section}_{name}".upper()),
            options.get(name, ""),
            plain(sentences[name]),
        )
        for name in field_names(config)
    ]
    option = ("option",) if options else ()
    headings = ("setting", "type", "default", "allowed", "variable", *option, "meaning")
    return table(headings, rows if options else [(*row[:5], row[6]) for row in rows])


def _options(section: str) -> dict[str, str]:
    """By setting, as `lakebed serve` has it."""
    if section == "s3":
        return {name: code(f"--s3 {name}=…") for name in field_names(SECTIONS[section])}
    if section != NODE_SECTION:
        return {}
    known = {one.name: one for one in get_command(serve.app).params}
    return {
        name: ", ".join(code(option) for option in (*known[name].opts, *known[name].secondary_opts))
        for name in field_names(NodeConfig)
    }


def _kind(name: str, kind: type) -> str:
    if unit := unit_of(name):
        return unit
    return {bool: "true or false", int: "number", float: "number", str: "text"}[kind]


def _allowed(config: type[ConfigClass], name: str) -> str:
    limits = limits_of(config, name)
    if limits is None:
        return ""
    return f"{_shown(name, limits.minimum)} to {_shown(name, limits.maximum)}"


def _shown(name: str, value: Any) -> str:
    """With its unit, as it may be written."""
    unit = unit_of(name)
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, str):
        return "empty" if not value or is_secret(name) else code(value)
    if not unit or not value:
        return code(f"{value:g}" if isinstance(value, float) else str(value))
    if unit == "bytes":
        return code(format_bytes(int(value)))
    duration_ns = round(value * parse_duration_ns(f"1{unit}"))
    return code(format_duration_ns(duration_ns) if duration_ns <= VALUE_MAX else str(value))
