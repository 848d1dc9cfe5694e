"""What came of a call, without what cannot be the same in two stores: moments, paths, made-up ids.

Ids become numbers in the order in which a store told them, also within texts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from lakebed.base.errors import LakebedError
from lakebed.keratin.message_batch import MessageBatch
from lakebed.store.dead_letters import TOPIC_ID

_LEFT_OUT: Final = frozenset(
    {
        "modified_ms", "created_ms", "created_at", "expires_ms", "deadline_ms", "last_used_ms",
        "renewed_ms",
        "hlc", "site_id", "path", "stream_id", "secret", "snapshot_bytes", "delta_bytes",
        "incarnation", "topic_id",
    }
)  # fmt: skip
_IDS: Final = frozenset({"version_id", "pin_id", "access_key", "key_of_segment"})
_NULL_VERSION: Final = "null"
_KINDS_OF_THE_WIRE: Final = frozenset({"BadDocument", "Refused", "BadName"})
_API_WORDS: Final = re.compile(  # of records that are sent together
    r"record \d+ is empty"
    r"|(ext_ids|timestamps) has "
    r"(a number that is not from 0 to 2\*\*64 - 1|\d+ items for \d+ records)"
)
_UNSENDABLE: Final = "the arguments cannot be encoded"
_KINDS_OF_WRONG_VALUES: Final = frozenset({"InputError", "BadConfig", "BadName", "BadKey"})


class Failed(NamedTuple):
    """An error, as whoever catches it can tell it from others."""

    kind: str
    text: str
    facts: object

    @property
    def is_of_the_wire(self) -> bool:
        """It says that a value cannot be sent, or is not taken: numbers of more than 64 bits, or
        below 0 where that is nonsense; names without a character."""
        return self.kind in _KINDS_OF_THE_WIRE or self.text.startswith(_UNSENDABLE)


def are_alike(expected: object, found: object) -> bool:
    """What came of a call embedded, and over the wire.

    A value that is wrong for the wire itself is told in other words; embedded it is wrong, too.
    """
    if not isinstance(expected, Failed) or not isinstance(found, Failed):
        return expected == found
    if found.is_of_the_wire:
        return expected.kind in _KINDS_OF_WRONG_VALUES
    if expected.kind == found.kind == "InputError" and _API_WORDS.match(found.text):
        return True
    if expected.kind == found.kind == "TooLarge":  # with the number of who sent it, it is larger
        return (
            isinstance(found.facts, dict)
            and isinstance(expected.facts, dict)
            and (found.facts["limit"] == expected.facts["limit"])
        )
    return expected == found


class Told:
    """By one store, so far."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._ids: dict[str, str] = {}

    def outcome(self, call: Callable[[], object]) -> object:
        try:
            return self.plain(call())
        except LakebedError as error:
            return self.plain(error)

    def plain(self, value: Any) -> object:
        if isinstance(value, LakebedError):
            facts = {name: one for name, one in vars(value).items() if not name.startswith("_")}
            return Failed(type(value).__name__, self._text(str(value)), self.plain(facts))
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int | float | None):
            return value if isinstance(value, bool | float | None) else int(value)
        return self._plain_of_many(value)

    def _plain_of_many(self, value: Any) -> object:
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return self._fields(value._asdict())
        if dataclasses.is_dataclass(value):
            fields = [one for one in dataclasses.fields(value) if one.compare]
            return self._fields({one.name: getattr(value, one.name) for one in fields})
        if isinstance(value, Mapping):
            return {self.plain(name): self.plain(one) for name, one in value.items()}
        if isinstance(value, Sequence) and value and value[0] == TOPIC_ID:
            return [TOPIC_ID]  # the header of a dead letter
        if isinstance(value, Sequence | Iterator | MessageBatch):
            return [self.plain(one) for one in value]
        raise AssertionError(f"how is a {type(value).__name__} told?")

    def _fields(self, fields: Mapping[str, Any]) -> dict[str, object]:
        for name in _IDS & fields.keys():
            if isinstance(fields[name], str) and fields[name] != _NULL_VERSION:
                self._ids.setdefault(fields[name], f"<id {len(self._ids)}>")
        return {name: self.plain(value) for name, value in fields.items() if name not in _LEFT_OUT}

    def _text(self, text: str) -> str:
        text = text.replace(self._root, "<root>")
        if self._ids and any(one in text for one in self._ids):
            known = "|".join(map(re.escape, self._ids))
            text = re.sub(known, lambda found: self._ids[found.group()], text)
        return text
