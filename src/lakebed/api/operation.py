"""One call over the wire: where it is, what goes in and comes out, whether it may be repeated.

Names in braces are parts of the path, percent-encoded: `{key*}` takes the rest of the path, slashes
and all.

`target` names the method that carries the call out, as `Group.lag`: the class is one of
`lakebed.api.surface`, and the path names the object of that class. Names of the path that do not
belong to it are the method's positional arguments, in order; the fields of query and body are its
keyword arguments. What it returns is the result, or the only field of the result. A call without a
target streams, waits or opens something: its handler and its client method are written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from msgspec import Struct

from lakebed.base.units import MIB

Result = TypeVar("Result", covariant=True)

SMALL_BODY_BYTES = 1 * MIB
NUMBERS = frozenset({"partition", "base_offset", "segment", "damage"})  # names that are numbers


class Raw(Enum):
    """A body that is no document."""

    BYTES = "application/octet-stream"
    LINES = "application/x-ndjson"


class Nothing(Struct, frozen=True):
    """No body, or no query."""


@dataclass(frozen=True, eq=False)
class Operation(Generic[Result]):
    """A row of the table. `result` is a struct, or says that bytes or lines come back."""

    name: str  # snake_case; of the handler and of the OpenAPI operation
    method: str
    path: str
    summary: str
    result: type[Result]  # what the client makes of the answer; `Nothing` if it has no body
    query: type[Struct] = Nothing  # fields are read from text: int, float, bool, str, and | None
    body: type[Struct] = Nothing
    also_takes: tuple[Raw, ...] = ()  # bodies of other kinds
    also_gives: tuple[Raw, ...] = ()  # answers of other kinds, for whoever accepts them
    status: int = 200
    tag: str = ""
    errors: tuple[int, ...] = field(default=())  # statuses beyond those that every call may have
    body_bytes_max: int = SMALL_BODY_BYTES
    target: str = ""  # class and method of the surface
    is_repeatable: bool = False  # done twice it is as done once, and answered alike
    is_public: bool = False  # needs no key

    def __repr__(self) -> str:
        return f"<Operation {self.name}: {self.method} {self.path}>"
