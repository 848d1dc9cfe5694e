"""The options of a data source, as Spark hands them over: text by name, whatever the case.

    options = Options("lakebed.topic", self.options, known=[*PLACE_OPTIONS, "topic", "columns"])
    options.size("partitionBytes", default=64 * MIB)

An option that is not known is refused, and so is one whose text is not what it must be; the error
names the source, the option and what would do. Spark's own options, which it passes to every
source and sink, are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from lakebed.base.errors import BadConfig, InputError
from lakebed.base.units import MS_NS, S_NS, parse_bytes, parse_duration_ns, shown

# What Spark itself reads from the options of a read or a write.
SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "mergeschema", "overwriteschema"})

_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0"})
_NUMBER_DIGITS_MAX = 19
_US_PER_MS = 1000


class Options:
    """Of one source. Empty text counts as not given. `BadConfig` if something is wrong."""

    def __init__(
        self, source: str, given: Mapping[str, Any], *, known: Iterable[str], own: bool = False
    ) -> None:
        """`known` are the names as documents spell them. `own`: Spark's are no exception."""
        self._source = source
        self._names = {name.lower(): name for name in known}
        self._given: dict[str, str] = {}
        for name, text in given.items():
            if name.lower() in self._names:
                self._given[name.lower()] = str(text)
            elif own or name.lower() not in SPARKS_OWN:
                raise BadConfig(self._unknown(name))

    def has(self, name: str) -> bool:
        return self.text(name) is not None

    def text(self, name: str) -> str | None:
        """What was given; None if nothing was."""
        assert name.lower() in self._names, f"{name} is read, and not among the known ones"
        return self._given.get(name.lower(), "").strip() or None

    def required(self, name: str) -> str:
        text = self.text(name)
        if text is None:
            raise BadConfig(f"{self._source}: the option {name} is missing")
        return text

    def one_of(self, *names: str) -> str:
        """Which of these was given: one must be, and not two."""
        given = [name for name in names if self.has(name)]
        if len(given) != 1:
            wanted = " or ".join(names)
            problem = f"only one of {wanted} can be given" if given else f"{wanted} is missing"
            raise BadConfig(f"{self._source}: {problem}")
        return given[0]

    def at_most_one_of(self, *names: str) -> str | None:
        """Which of these was given, if any was."""
        return self.one_of(*names) if any(map(self.has, names)) else None

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """One of these words, in any case."""
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
        """A whole number; None if it was not given."""
        text = self.text(name)
        if text is None:
            return None
        is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX
        if not is_number or int(text) < minimum:
            raise self._wrong(name, f"a whole number from {minimum} on")
        return int(text)

    def size(self, name: str, *, minimum: int = 1) -> int | None:
        """Bytes, as in `64MiB`; None if it was not given."""
        text = self.text(name)
        if text is None:
            return None
        try:
            size = parse_bytes(text)
        except InputError as error:
            raise self._wrong(name, f"a size: {error}") from None
        if size < minimum:
            raise self._wrong(name, f"a size from {minimum} bytes on")
        return size

    def seconds(self, name: str, *, default: float, maximum: float) -> float:
        """A number of seconds, or a duration with its unit, as in `10min`."""
        text = self.text(name)
        if text is None:
            return default
        try:
            seconds = float(text) if text[-1].isdigit() else parse_duration_ns(text) / S_NS
        except (ValueError, InputError):
            raise self._wrong(name, "a number of seconds, or a duration as in 10min") from None
        if not 0 <= seconds <= maximum:
            raise self._wrong(name, f"0 to {maximum:.0f} seconds")
        return seconds

    def names(self, name: str) -> list[str]:
        """Several, between commas; none twice."""
        found = [part.strip() for part in (self.text(name) or "").split(",")]
        found = [part for part in found if part]
        if len(set(found)) < len(found):
            raise self._wrong(name, "names between commas, none of them twice")
        return found

    def document(self, name: str) -> Any:
        """What the JSON of it says."""
        try:
            return json.loads(self.required(name))
        except (ValueError, RecursionError):
            raise self._wrong(name, "JSON") from None

    def moment_us(self, name: str) -> int | None:
        """Microseconds since 1970: of milliseconds, or of a date and time (UTC unless it says)."""
        text = self.text(name)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX:
            return int(text) * _US_PER_MS
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise self._wrong(name, "milliseconds since 1970, or as 2026-01-31T12:00:00Z") from None
        return moment_us(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))

    def wrong(self, name: str, wanted: str) -> BadConfig:
        """What to raise if it cannot be used; secrets are not for this."""
        return self._wrong(name, wanted)

    def _wrong(self, name: str, wanted: str) -> BadConfig:
        text = shown(self._given.get(name.lower(), ""))
        return BadConfig(f"{self._source}: the option {name} is {text}: it must be {wanted}")

    def _unknown(self, name: str) -> str:
        known = ", ".join(sorted(self._names.values()))
        near = get_close_matches(name.lower(), self._names, n=1)
        hint = f": did you mean {self._names[near[0]]}?" if near else "."
        return (
            f"{self._source}: there is no option {shown(name)}{hint} Those that there are: {known}"
        )


def moment_us(moment: datetime) -> int:
    """Microseconds since 1970, exactly; the moment must know its time zone."""
    assert moment.tzinfo is not None, "a moment of nobody knows where"
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def milliseconds(seconds: float) -> int:
    """Of a duration."""
    return round(seconds * S_NS) // MS_NS
