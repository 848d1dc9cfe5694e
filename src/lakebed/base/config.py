"""Configuration classes: how they are declared, checked, and filled from plain values.

    @dataclass(frozen=True, kw_only=True)
    class CommitConfig:
        \"\"\"When a batch is written.\"\"\"

        batch_bytes_max: int = bounded(8 * MIB, minimum=4 * KIB, maximum=GIB)
        \"\"\"The maximum number of bytes in one commit.\"\"\"
        delay_ms_max: int = bounded(5, minimum=0, maximum=60_000)
        \"\"\"Items that no caller waits for are committed after this time.\"\"\"

        def __post_init__(self) -> None:
            check(self)

The settings reference prints the docstring after each field.

`check` refuses values of the wrong type or outside their limits. A class that also compares fields
with each other does so in `__post_init__` after `check`, and raises `BadConfig` itself.

`load` fills a class from a mapping (a TOML table), and `read_text` converts text (an environment
variable) to the value of one field. Both know a field's unit from its name: a number field called
`…_bytes`, `…_ns`, `…_us`, `…_ms` or `…_s`, with or without `_max` or `_min` after it, also takes
text such as `"64MiB"` or `"5ms"`. A bare number is in the field's own unit.

Every invalid value raises a `BadConfig` that states the setting, its value and what is allowed, and
the place, such as a file, if it is known. The value is left out if the name of the setting marks it
as a secret.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

from lakebed.base.errors import BadConfig, InputError
from lakebed.base.units import MS_NS, S_NS, US_NS, parse_bytes, parse_duration_ns, shown

Value = bool | int | float | str


class ConfigClass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


HIDDEN = "(hidden)"

Config = TypeVar("Config", bound=ConfigClass)
Number = TypeVar("Number", int, float)

_LIMITS = "lakebed.limits"
_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}
_DURATION_SCALES_NS = {"ns": 1, "us": US_NS, "ms": MS_NS, "s": S_NS}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}\.[0-9]{1,20}", re.ASCII)
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
_SECRET_WORDS = frozenset({"secret", "password", "token"})


@dataclasses.dataclass(frozen=True)
class Limits:
    """The smallest and the largest allowed value of a number."""

    minimum: int | float
    maximum: int | float


def bounded(default: Number, *, minimum: Number, maximum: Number) -> Number:
    """Declares a dataclass field whose value must lie in `[minimum, maximum]`."""
    if not minimum <= default <= maximum:
        raise ValueError(f"default {default} is not between {minimum} and {maximum}")
    # A field specifier is typed as the value it stands for, as `dataclasses.field` itself is.
    return dataclasses.field(default=default, metadata={_LIMITS: Limits(minimum, maximum)})


def limits_of(config: type[ConfigClass], name: str) -> Limits | None:
    """Returns the limits of a field that was declared with `bounded`, otherwise None."""
    limits: Limits | None = config.__dataclass_fields__[name].metadata.get(_LIMITS)
    return limits


def check(config: ConfigClass, *, where: str = "") -> None:
    """Raises `BadConfig` if a field has a value of the wrong type or outside its limits, or a float
    that is not finite. Configuration classes call this in `__post_init__`.
    """
    kinds = _kinds(type(config))
    for name, kind in kinds.items():
        _checked(
            getattr(config, name),
            kind=kind,
            limits=limits_of(type(config), name),
            where=where,
            name=name,
        )


def load(config: type[Config], mapping: Mapping[str, object], *, where: str) -> Config:
    """Builds an instance from `mapping`; settings that the mapping leaves out keep their defaults.
    Raises `BadConfig` if a setting is unknown or its value is not valid.
    """
    kinds = _kinds(config)
    values: dict[str, Value] = {}
    for name, raw in mapping.items():
        if name not in kinds:
            raise unknown(name, known=kinds, noun="setting", where=where)
        values[name] = read_value(config, name, raw, where=where)
    return construct(config, values, where=where)


def construct(config: type[Config], values: Mapping[str, Value], *, where: str) -> Config:
    """Builds an instance of `config` from the values of its fields. If its `__post_init__` raises
    `BadConfig`, adds `where` to the message.
    """
    try:
        return config(**values)
    except BadConfig as error:
        raise BadConfig(f"{where}: {error}") from error


def read_value(config: type[ConfigClass], name: str, raw: object, *, where: str) -> Value:
    """Converts a TOML value to the value of one field. Raises `BadConfig` if it is not valid."""
    kind = _kinds(config)[name]
    value = _from_unit_text(raw, name=name, kind=kind, where=where) if isinstance(raw, str) else raw
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value)
    return _checked(value, kind=kind, limits=limits_of(config, name), where=where, name=name)


def read_text(config: type[ConfigClass], name: str, text: str, *, where: str) -> Value:
    """Converts text, such as the value of an environment variable, to the value of one field.
    Raises `BadConfig` if it is not valid.
    """
    kind = _kinds(config)[name]
    stripped = text.strip(" ")
    raw: Value = text
    if kind is bool:
        raw = _TRUTHS.get(stripped.lower(), text)
    elif kind in (int, float) and _INTEGER.fullmatch(stripped):
        raw = int(stripped)
    elif kind is float and _DECIMAL.fullmatch(stripped):
        raw = float(stripped)
    return read_value(config, name, raw, where=where)


def unknown(name: str, *, known: Iterable[str], noun: str, where: str) -> BadConfig:
    """Builds the error for an unknown name. The message suggests the most similar known name, or
    lists all known names if none is similar.
    """
    known = sorted(known)
    near = get_close_matches(name[:100], known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
    return BadConfig(f"{where}: unknown {noun} {shown(name)}; {hint}")


def field_names(config: type[ConfigClass]) -> tuple[str, ...]:
    """Returns the names of the fields in declaration order."""
    return tuple(config.__dataclass_fields__)


def is_secret(name: str) -> bool:
    """Returns whether a setting's name marks its value as secret: whether one of the words between
    its underscores is `secret`, `password` or `token`.
    """
    return not _SECRET_WORDS.isdisjoint(name.split("_"))


def unit_of(name: str) -> str | None:
    """Returns the unit with which a field's name ends, not counting a final `_max` or `_min`:
    `bytes`, `ns`, `us`, `ms` or `s`. Returns None if the name has no unit.
    """
    words = name.split("_")
    if words[-1] in ("max", "min"):
        words.pop()
    unit = words[-1] if len(words) > 1 else ""
    return unit if unit == "bytes" or unit in _DURATION_SCALES_NS else None


@cache
def _kinds(config: type[ConfigClass]) -> dict[str, type]:
    """Returns the types of the fields by name. Fields that are configuration classes themselves are
    left out, because they check themselves.
    """
    hints = get_type_hints(config)
    kinds = {
        name: hints[name]
        for name in config.__dataclass_fields__
        if not hasattr(hints[name], "__dataclass_fields__")
    }
    for name, kind in kinds.items():
        assert kind in _KINDS, f"{config.__name__}.{name}: a setting is a bool, int, float or str"
    return kinds


def _from_unit_text(text: str, *, name: str, kind: type, where: str) -> object:
    unit = unit_of(name)
    if kind not in (int, float) or unit is None:
        return text
    try:
        if unit == "bytes":
            return parse_bytes(text)
        duration_ns = parse_duration_ns(text)
    except InputError as error:
        if is_secret(name):  # the error has the text
            expected = _expected(kind, name)
            raise BadConfig(f"{where}: {name} = {HIDDEN}: expected {expected}") from None
        raise BadConfig(f"{where}: {name}: {error}") from error
    whole, remainder_ns = divmod(duration_ns, _DURATION_SCALES_NS[unit])
    if not remainder_ns:
        return whole
    if kind is float:
        return duration_ns / _DURATION_SCALES_NS[unit]
    raise BadConfig(f"{where}: {name} = {_shown(text, name)}: not a whole number of {unit}")


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _checked(value: object, *, kind: type, limits: Limits | None, where: str, name: str) -> Value:
    place = f"{where}: " if where else ""
    allowed = (int, float) if kind is float else kind
    # `True` is an int in Python, but not in a configuration file.
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        expected = _expected(kind, name)
        raise BadConfig(f"{place}{name} = {_shown(value, name)}: expected {expected}")
    assert isinstance(value, bool | int | float | str)
    if limits is not None and not _within(value, limits):
        expected = f"{limits.minimum} to {limits.maximum}"
        raise BadConfig(f"{place}{name} = {_shown(value, name)}: expected {expected}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadConfig(f"{place}{name} = {_shown(value, name)}: expected a finite number")
    return value


def _shown(value: object, name: str) -> str:
    return HIDDEN if is_secret(name) else shown(value)


def _within(value: Value, limits: Limits) -> bool:
    return not isinstance(value, str) and limits.minimum <= value <= limits.maximum


def _expected(kind: type, name: str) -> str:
    unit = unit_of(name)
    if unit is None or kind not in (int, float):
        return _KINDS[kind]
    example = "64MiB" if unit == "bytes" else "5ms"
    return f'{_KINDS[kind]} of {unit}, or text such as "{example}"'
