"""The description of one API call: its path, request and response, and whether it may be repeated.

Names in braces are variable parts of the path, percent-encoded. `{key*}` matches the rest of the
path, including slashes.

`target` names the method that runs the call, such as `Group.lag`. The class is one of those in
`OWNERS` of `lakebed.http_api.binder`, which makes the call's handler; parts of the path identify
the object. Other parts of the path are the method's positional arguments, in order; the fields of
the query and of the body are its keyword arguments. The method returns the result, or the value of
the result's only field. The handler of a call without a target is written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from msgspec import Struct

from lakebed.base.units import MIB

Result = TypeVar("Result", covariant=True)

SMALL_BODY_BYTES = 1 * MIB
NUMBERS = frozenset({"partition", "base_offset", "segment", "damage"})  # numbers in a path


class Raw(Enum):
    """The media types of bodies that are not documents."""

    BYTES = "application/octet-stream"
    LINES = "application/x-ndjson"


class Nothing(Struct, frozen=True):
    """An empty body or query."""


@dataclass(frozen=True, eq=False)
class Operation(Generic[Result]):
    """Describes one API call. `result` is the class that the client decodes the response to.

    It is a struct or a dataclass (for `openapi` a dict), or `bytes` if the response is always raw
    bytes or lines.
    """

    name: str  # snake_case; names the handler and the OpenAPI operation
    method: str
    path: str
    summary: str
    result: type[Result]  # what the client decodes; `Nothing` if the response has no body
    query: type[Struct] = Nothing  # its fields are int, float, bool or str, and may be None
    body: type[Struct] = Nothing
    also_takes: tuple[Raw, ...] = ()  # raw request bodies that are accepted too
    also_gives: tuple[Raw, ...] = ()  # raw response bodies, if the request accepts them
    status: int = 200
    tag: str = ""
    errors: tuple[int, ...] = field(default=())  # statuses besides those that every call may have
    body_bytes_max: int = SMALL_BODY_BYTES
    target: str = ""  # class and method of the surface
    is_repeatable: bool = False  # a client that got no response may send the call again
    is_public: bool = False  # needs no access key

    def __repr__(self) -> str:
        return f"<Operation {self.name}: {self.method} {self.path}>"
