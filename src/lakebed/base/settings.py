"""Loads all settings of a store: the defaults, then `lakebed.toml`, then the environment.

A program passes a mapping from section name to configuration class; this module does not depend on
any engine. A section is a TOML table, and the environment variable `LAKEBED_<SECTION>_<FIELD>`
overrides a field. The origin of each value is kept. Secrets are recognised by their names, and
`Setting.shown` hides their values.

The file must be a regular file of at most `FILE_BYTES_MAX` bytes. Nothing is written.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lakebed.base.config import (
    HIDDEN,
    ConfigClass,
    Value,
    construct,
    field_names,
    is_secret,
    read_text,
    read_value,
    unknown,
)
from lakebed.base.errors import BadConfig, from_os_error
from lakebed.base.units import MIB, shown

FILE_NAME = "lakebed.toml"
FILE_BYTES_MAX = 1 * MIB
ENVIRONMENT_PREFIX = "LAKEBED_"

Sections = Mapping[str, type[ConfigClass]]
AnyConfig = TypeVar("AnyConfig")


class Setting(NamedTuple):
    """A setting with its value and origin: `default`, a file, an environment variable or an
    option.
    """

    section: str
    name: str
    value: Value
    origin: str

    def shown(self) -> Setting:
        """Returns the setting for printing: the value of a secret is hidden unless it is empty."""
        return self._replace(value=HIDDEN) if is_secret(self.name) and self.value else self


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The configuration of all sections, already checked. Iterating yields each `Setting`.

    `file` is None if there is no file. `origins` has the origin of each value that is not the
    default, by section and name.
    """

    file: Path | None
    configs: Mapping[str, ConfigClass]
    origins: Mapping[tuple[str, str], str] = field(repr=False)

    def config(self, kind: type[AnyConfig]) -> AnyConfig:
        """Returns the configuration that is an instance of `kind`. Raises `KeyError` if none is."""
        for config in self.configs.values():
            if isinstance(config, kind):
                return config
        raise KeyError(kind.__name__)

    def __iter__(self) -> Iterator[Setting]:
        for section, config in self.configs.items():
            for name in field_names(type(config)):
                origin = self.origins.get((section, name), "default")
                yield Setting(section, name, getattr(config, name), origin)


def load_settings(
    sections: Sections,
    *,
    file: Path,
    environment: Mapping[str, str],
    elsewhere: Collection[str] = (),
) -> Settings:
    """Reads the file, if it exists, applies the environment variables, and checks the result.
    Raises `BadConfig` for the first setting or section that is not valid.

    The file may also have the sections named in `elsewhere`. Their contents are ignored.
    """
    document = read_file(file)
    for name, table in (document or {}).items():
        if name not in sections and name not in elsewhere:
            raise unknown(name, known={*sections, *elsewhere}, noun="section", where=str(file))
        if not isinstance(table, dict):
            raise BadConfig(f"{file}: {name} = {shown(table)}: expected a table, such as [{name}]")
    overrides = _overrides(sections, environment)
    origins: dict[tuple[str, str], str] = {}
    configs: dict[str, ConfigClass] = {}
    for section, kind in sections.items():
        where = f"{file}: [{section}]"
        values: dict[str, Value] = {}
        for name, raw in (document or {}).get(section, {}).items():
            if name not in field_names(kind):
                raise unknown(name, known=field_names(kind), noun="setting", where=where)
            values[name] = read_value(kind, name, raw, where=where)
            origins[section, name] = str(file)
        for name, variable in overrides.get(section, {}).items():
            values[name] = read_text(kind, name, environment[variable], where=variable)
            origins[section, name] = variable
        configs[section] = construct(
            kind, values, where=f"[{section}]" if section in overrides else where
        )
    return Settings(
        file=None if document is None else file,
        configs=MappingProxyType(configs),
        origins=MappingProxyType(origins),
    )


def read_file(file: Path) -> dict[str, Any] | None:
    """Returns the parsed TOML file, or None if it does not exist. Raises `BadConfig` if it is not a
    regular file, is larger than `FILE_BYTES_MAX`, may not be read, or is not valid TOML.
    """
    data = _read_bytes(file)
    if data is None:
        return None
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadConfig(f"{file}: not valid UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise BadConfig(f"{file}: values are nested too deeply") from error
    except ValueError as error:
        # `TOMLDecodeError`, which has line and column, or a number with thousands of digits.
        raise BadConfig(f"{file}: not valid TOML: {str(error)[:200]}") from error


def _read_bytes(file: Path) -> bytes | None:
    try:
        # Non-blocking, so that opening a pipe does not wait; it is refused below.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise BadConfig(f"{file}: is a folder, expected a file")
            if not stat.S_ISREG(mode):
                raise BadConfig(f"{file}: is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(FILE_BYTES_MAX + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.ELOOP):
            raise BadConfig(f"{file}: {error.strerror}") from error
        raise from_os_error(error, operation="open", path=file) from error
    if len(data) > FILE_BYTES_MAX:
        raise BadConfig(f"{file}: is larger than {FILE_BYTES_MAX} bytes")
    return data


def _overrides(sections: Sections, environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns the names of the environment variables that override settings, by section and field.

    Variables that belong to no known section, such as `LAKEBED_ROOT`, are ignored. Raises
    `BadConfig` for an unknown field of a known section, because it is probably a typing mistake.
    """
    found: dict[str, dict[str, str]] = {}
    for variable in sorted(environment):
        # The longest section name wins if one is a prefix of another.
        for section in sorted(sections, key=len, reverse=True):
            prefix = f"{ENVIRONMENT_PREFIX}{section.upper()}_"
            if variable.startswith(prefix):
                name = variable.removeprefix(prefix).lower()
                known = field_names(sections[section])
                if name not in known:
                    raise unknown(name, known=known, noun="setting", where=variable)
                found.setdefault(section, {})[name] = variable
                break
    return found
