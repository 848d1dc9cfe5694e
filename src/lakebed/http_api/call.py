"""A request that was understood: which operation, on what, and what comes with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from lakebed.api import media
from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.problems import Refused
from lakebed.base.errors import TooLarge
from lakebed.base.units import KIB
from lakebed.edge.budget import Share
from lakebed.http.request import Request

Kind = TypeVar("Kind", bound=Struct)
Made = TypeVar("Made")

HERE_BYTES_MAX: Final = 64 * KIB  # larger bodies are read in another thread
_QUERY_FIELDS_MAX: Final = 100
_TEXT: Final = "text/plain"


class UnsupportedMedia(Refused):
    """A body of a kind that this call does not take."""


class Run(Protocol):
    """Has something done in another thread."""

    def __call__(self, work: Callable[[], Made], /) -> Awaitable[Made]: ...


class Call:
    """`names` are the parts of the path, decoded; `query` is the operation's struct; `media` is
    that of the body, as it is said."""

    __slots__ = ("_run", "_share", "media", "names", "operation", "query", "request")

    def __init__(
        self,
        operation: Operation[Any],
        names: Mapping[str, str],
        request: Request,
        share: Share | None = None,
        *,
        run: Run | None = None,
    ) -> None:
        """`share` is what its body may hold; without one there is no limit but its own. Without
        `run` a body is read here, however large."""
        self._share = share
        self._run = run
        self.operation = operation
        self.names = names
        self.request = request
        self.query: Any = read_query(operation.query, request.raw_query)
        self.media = media_of(request)

    def number(self, name: str) -> int:
        """A part of the path that is a number."""
        text = self.names[name]
        if not text.isascii() or not text.isdigit() or len(text) > 20:
            raise Refused(f"{name} {text[:40]!r}: expected a number")
        return int(text)

    @property
    def raw(self) -> Raw | None:
        """The kind of a body that is no document; None if it should be one."""
        said = Raw.BYTES.value if self.media == _TEXT else self.media
        for kind in self.operation.also_takes:
            if said == kind.value:
                return kind
        return None

    async def read(self) -> bytes:
        """All of the body.

        `TooLarge` if it has more than the operation takes, `Busy` if there is no room for it now.
        """
        body, limit = self.request.body, self.operation.body_bytes_max
        if body.whole is not None:
            if len(body.whole) > limit:
                raise TooLarge("the body", size=len(body.whole), limit=limit)
            return body.whole
        if body.length is not None and body.length > limit:
            raise TooLarge("the body", size=body.length, limit=limit)
        share = self._share
        if share is not None:
            share.check(body.length or 0)
        pieces, size = [], 0
        while piece := await body.read():
            size += len(piece)
            if size > limit:
                raise TooLarge("the body", size=size, limit=limit)
            if share is not None:
                share.take(len(piece))
            pieces.append(bytes(piece))
        return b"".join(pieces)

    async def document(self, kind: type[Kind]) -> Kind:
        """The body as a struct; an empty one is one without anything said."""
        return await self.read_as(lambda data: self.decoded(data, kind))

    async def read_as(self, make: Callable[[bytes], Made], *, may_wait: bool = False) -> Made:
        """What is made of the body. If it is large, or `make` may wait, that is done in another
        thread."""
        data = await self.read()
        if self._run is None or (len(data) <= HERE_BYTES_MAX and not may_wait):
            return make(data)
        return await self._run(lambda: make(data))

    def decoded(self, data: bytes, kind: type[Kind]) -> Kind:
        """The same of a body that was read; in any thread."""
        if not data:
            return media.decode(b"{}", kind, media.JSON)
        said = self.media
        if said not in (media.JSON, media.MSGPACK):
            takes = [media.JSON, media.MSGPACK, *(one.value for one in self.operation.also_takes)]
            raise UnsupportedMedia(f"a body of type {said[:80]}: taken are {', '.join(takes)}")
        return media.decode(data, kind, said)

    def accepts(self, kind: str) -> bool:
        """Whether the answer may, and should, be of that kind."""
        return kind in self.request.headers.get("accept", "").lower()


def media_of(request: Request) -> str:
    """JSON if nothing is said."""
    said = request.headers.get("content-type", media.JSON)
    return said if said == media.MSGPACK else said.partition(";")[0].strip().lower()


def read_query(kind: type[Struct], raw_query: bytes) -> Struct:
    """`Refused` if a name is unknown, or there twice, or has a value that it cannot have."""
    if not raw_query:
        return Nothing() if kind is Nothing else _converted(kind, {})
    try:
        text = raw_query.decode("ascii")
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_QUERY_FIELDS_MAX,
        )
    except ValueError as error:
        raise Refused(f"the query cannot be read: {error}") from None
    found: dict[str, str] = {}
    known = kind.__struct_fields__ if kind is not Nothing else ()
    for name, value in pairs:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise Refused(f"the query has {name[:40]!r}: known are {allowed}")
        if name in found:
            raise Refused(f"the query has {name} twice")
        found[name] = value
    return _converted(kind, found)


def _converted(kind: type[Struct], found: dict[str, str]) -> Struct:
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"the query is not as it should be: {error}") from None
