"""The options of a data source as Spark passes them: names, whose case does not matter, and values,
which are text.

    options = Options("lakebed.topic", self.options, known=[*BACKEND_OPTIONS, "topic", "columns"])
    options.size("partitionBytes")

Unknown options and invalid values are refused; the error names the source, the option and what is
allowed. By default, Spark's own options, such as `checkpointLocation`, are ignored: Spark may pass
them to any source or sink.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from lakebed.base.errors import BadConfig, InputError
from lakebed.base.units import MS_NS, S_NS, parse_bytes, parse_duration_ns, shown

# Options of reads and writes that Spark itself uses, in lower case.
SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "mergeschema", "overwriteschema"})

_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0"})
_NUMBER_DIGITS_MAX = 19
_US_PER_MS = 1000


class Options:
    """The options of one data source or sink.

    An option whose value is empty or blank counts as missing. Methods raise `BadConfig` for invalid
    values.
    """

    def __init__(
        self, source: str, values: Mapping[str, Any], *, known: Iterable[str], own: bool = False
    ) -> None:
        """Raises `BadConfig` if `values` has an option that is not in `known`.

        `known` lists the names of the options as they are documented. Options that belong to Spark
        itself are ignored; if `own` is true, they are refused too unless they are in `known`.
        """
        self._source = source
        self._names = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, text in values.items():
            if name.lower() in self._names:
                self._values[name.lower()] = str(text)
            elif own or name.lower() not in SPARKS_OWN:
                raise BadConfig(self._unknown(name))

    def has(self, name: str) -> bool:
        return self.text(name) is not None

    def text(self, name: str) -> str | None:
        """Returns the value of the option, or None if it is missing."""
        assert name.lower() in self._names, f"option {name} was not declared in `known`"
        return self._values.get(name.lower(), "").strip() or None

    def required(self, name: str) -> str:
        text = self.text(name)
        if text is None:
            raise BadConfig(f"{self._source}: the option {name} is missing")
        return text

    def one_of(self, *names: str) -> str:
        """Returns the name of the option that is set. Raises `BadConfig` unless exactly one of
        `names` is set.
        """
        present = [name for name in names if self.has(name)]
        if len(present) != 1:
            alternatives = " or ".join(names)
            problem = (
                f"set only one of the options {alternatives}"
                if present
                else f"set the option {alternatives}"
            )
            raise BadConfig(f"{self._source}: {problem}")
        return present[0]

    def at_most_one_of(self, *names: str) -> str | None:
        """Returns the name of the option that is set, or None if none is.

        Raises `BadConfig` if more than one of `names` is set.
        """
        return self.one_of(*names) if any(map(self.has, names)) else None

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """Returns the choice that equals the option's value, ignoring case.

        A missing option has the value `default`. Raises `BadConfig` if no choice matches.
        """
        text = (self.text(name) or default).lower()
        for choice in choices:
            if choice.lower() == text:
                return choice
        raise self._wrong(name, f"one of {', '.join(choices)}")

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in _TRUE | _FALSE:
            raise self._wrong(name, "true or false")
        return text.lower() in _TRUE

    def number(self, name: str, *, minimum: int = 0) -> int | None:
        """Returns the option's value as a whole number, or None if the option is missing.

        Raises `BadConfig` if it is not a whole number of up to 19 digits, or is less than
        `minimum`.
        """
        text = self.text(name)
        if text is None:
            return None
        is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX
        if not is_number or int(text) < minimum:
            raise self._wrong(name, f"a whole number of at least {minimum} (at most 19 digits)")
        return int(text)

    def size(self, name: str, *, minimum: int = 1) -> int | None:
        """Returns the option's value in bytes, or None if the option is missing.

        The value is a number of bytes, or has a unit as in `64MiB`. Raises `BadConfig` if it is
        not a size, or is less than `minimum`.
        """
        text = self.text(name)
        if text is None:
            return None
        try:
            size = parse_bytes(text)
        except InputError as error:
            raise self._wrong(name, f"a size: {error}") from None
        if size < minimum:
            raise self._wrong(name, f"a size of at least {minimum} bytes")
        return size

    def seconds(self, name: str, *, default: float, maximum: float) -> float:
        """Returns the option's value in seconds, or `default` if the option is missing.

        The value is a number of seconds, or a duration with a unit as in `10min`. Raises
        `BadConfig` if it is neither, or is not between 0 and `maximum`.
        """
        text = self.text(name)
        if text is None:
            return default
        try:
            seconds = float(text) if text[-1].isdigit() else parse_duration_ns(text) / S_NS
        except (ValueError, InputError):
            raise self._wrong(name, "a number of seconds, or a duration such as 10min") from None
        if not 0 <= seconds <= maximum:
            raise self._wrong(name, f"between 0 and {maximum:.0f} seconds")
        return seconds

    def names(self, name: str) -> list[str]:
        """Returns the names in the option's value, which are separated by commas.

        Returns an empty list if the option is missing. Raises `BadConfig` if a name is repeated.
        """
        parts = [part.strip() for part in (self.text(name) or "").split(",")]
        parts = [part for part in parts if part]
        if len(set(parts)) < len(parts):
            raise self._wrong(name, "a list of different names, separated by commas")
        return parts

    def document(self, name: str) -> Any:
        """Returns the option's value, parsed as JSON. Raises `BadConfig` if it is missing or not
        JSON.
        """
        try:
            return json.loads(self.required(name))
        except (ValueError, RecursionError):
            raise self._wrong(name, "JSON") from None

    def moment_us(self, name: str) -> int | None:
        """Returns the option's value in microseconds since 1970, or None if the option is missing.

        The value is a number of milliseconds since 1970, or a date with or without a time (in UTC
        unless it has a zone).
        """
        text = self.text(name)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX:
            return int(text) * _US_PER_MS
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise self._wrong(
                name, "milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z"
            ) from None
        return moment_us(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))

    def wrong(self, name: str, requirement: str) -> BadConfig:
        """Returns the error to raise for an invalid value of the option `name`.

        The message shows the value, so do not use this for secrets. `requirement` completes the
        sentence "it must be …".
        """
        return self._wrong(name, requirement)

    def _wrong(self, name: str, requirement: str) -> BadConfig:
        text = shown(self._values.get(name.lower(), ""))
        return BadConfig(f"{self._source}: the option {name} is {text}: it must be {requirement}")

    def _unknown(self, name: str) -> str:
        names = ", ".join(sorted(self._names.values()))
        near = get_close_matches(name.lower(), self._names, n=1)
        hint = f": did you mean {self._names[near[0]]}?" if near else "."
        return f"{self._source}: unknown option {shown(name)}{hint} The options are: {names}"


def moment_us(moment: datetime) -> int:
    """Returns the time as whole microseconds since 1970. The time must have a time zone."""
    assert moment.tzinfo is not None, "the moment has no time zone"
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def milliseconds(seconds: float) -> int:
    """Converts seconds to milliseconds, rounding down to a whole number."""
    return round(seconds * S_NS) // MS_NS
