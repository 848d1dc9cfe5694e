"""Sizes and durations as people write them: `64MiB`, `1.5GiB`, `5ms`, `2h`.

A size is a whole number of bytes, a duration a whole number of nanoseconds; both fit a signed
64-bit integer. Parsing is exact: text that is not a whole number of bytes or nanoseconds is
refused, never rounded. Formatting picks the largest unit that divides the value (for sizes, of the
binary units), so that

    parse_bytes(format_bytes(n)) == n        parse_duration_ns(format_duration_ns(n)) == n

Text that cannot be parsed raises `InputError`, whose message has the shortened text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakebed.base.errors import InputError

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40

US_NS: Final = 1_000
MS_NS: Final = 1_000_000
S_NS: Final = 1_000_000_000

VALUE_MAX: Final = (1 << 63) - 1

# The tables that are used for formatting run from the smallest unit to the largest.
_FORMAT_BYTES: Final[Mapping[str, int]] = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
_PARSE_BYTES: Final[Mapping[str, int]] = {
    **_FORMAT_BYTES,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_DURATIONS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": US_NS,
    "ms": MS_NS,
    "s": S_NS,
    "min": 60 * S_NS,
    "h": 3_600 * S_NS,
    "d": 86_400 * S_NS,
}

# Digits are bounded, so that no text, however long, makes a large number before it is refused.
_QUANTITY = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,20}))? ?([A-Za-z]{0,5})", re.ASCII)
_SHOWN_CHARACTERS_MAX = 60


def parse_bytes(text: str) -> int:
    """Parses a size, such as `64MiB`, and returns it in bytes. A number without a unit is bytes;
    the case of a unit does not matter. Raises `InputError` if `text` is not a size.
    """
    return _parse(
        text, units=_PARSE_BYTES, unit_missing="B", noun="size", smallest="bytes", example="64MiB"
    )


def format_bytes(size_bytes: int) -> str:
    """Formats a number of bytes with the largest binary unit that divides it, such as `64MiB`."""
    return _format(size_bytes, units=_FORMAT_BYTES, zero="0B")


def parse_duration_ns(text: str) -> int:
    """Parses a duration, such as `5ms`, and returns it in nanoseconds. The unit is required. Raises
    `InputError` if `text` is not a duration.
    """
    return _parse(
        text, units=_DURATIONS, unit_missing=None, noun="duration", smallest="ns", example="5ms"
    )


def format_duration_ns(duration_ns: int) -> str:
    """Formats a number of nanoseconds with the largest unit that divides it, such as `5ms`."""
    return _format(duration_ns, units=_DURATIONS, zero="0s")


def shown(value: object) -> str:
    """Formats a value for an error message: on one line and shortened, and text in quotes."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "an enormous number"
    # Text is also cut before it is quoted: a hostile value may be megabytes of escapes.
    text = ascii(value[: _SHOWN_CHARACTERS_MAX + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"


def _parse(
    text: str,
    *,
    units: Mapping[str, int],
    unit_missing: str | None,
    noun: str,
    smallest: str,
    example: str,
) -> int:
    problem = f"{shown(text)} is not a {noun}"
    known = f"a number and one of {', '.join(units)}, as in {example}"
    match = _QUANTITY.fullmatch(text.strip(" "))
    if match is None:
        raise InputError(f"{problem}: expected {known}")
    whole, fraction, unit = match.groups(default="")
    if not unit and unit_missing is None:
        raise InputError(f"{problem}: the unit is missing; expected {known}")
    scale = _scale(unit or unit_missing or "", units)
    if scale is None:
        raise InputError(f"{problem}: unknown unit {unit!r}; expected {known}")
    value, remainder = divmod(int(whole + fraction) * scale, int(10 ** len(fraction)))
    if remainder:
        raise InputError(f"{problem}: it is not a whole number of {smallest}")
    if value > VALUE_MAX:
        raise InputError(f"{problem}: the maximum is {VALUE_MAX} {smallest}")
    return value


def _scale(unit: str, units: Mapping[str, int]) -> int | None:
    for name, scale in units.items():
        if name.lower() == unit.lower():
            return scale
    return None


def _format(value: int, *, units: Mapping[str, int], zero: str) -> str:
    if not 0 <= value <= VALUE_MAX:
        raise InputError(f"{shown(value)} is out of range: expected 0 to {VALUE_MAX}")
    if value == 0:
        return zero
    name, scale = next((n, s) for n, s in reversed([*units.items()]) if value % s == 0)
    return f"{value // scale}{name}"
