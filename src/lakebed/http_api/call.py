"""A routed request: its operation, the names in its path, its query and its body."""

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

HERE_BYTES_MAX: Final = 64 * KIB  # larger bodies are decoded in another thread
_QUERY_FIELDS_MAX: Final = 100
_TEXT: Final = "text/plain"


class UnsupportedMedia(Refused):
    """The call does not accept a body of this type."""


class Run(Protocol):
    """A function that runs another function in a worker thread."""

    def __call__(self, work: Callable[[], Made], /) -> Awaitable[Made]: ...


class Call:
    """One call of an operation.

    `names` are the variable parts of the path, decoded; `query` is a struct of the operation's
    query class; `media` is the declared media type of the body, by default JSON.
    """

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
        """`share` limits the memory that the body may use. `run` runs functions in another thread.

        Without `run`, even large bodies are decoded in the loop's thread.
        """
        self._share = share
        self._run = run
        self.operation = operation
        self.names = names
        self.request = request
        self.query: Any = read_query(operation.query, request.raw_query)
        self.media = media_of(request)

    def number(self, name: str) -> int:
        """Returns the part of the path with that name as a number. Raises `Refused` if the part is
        not a number."""
        text = self.names[name]
        if not text.isascii() or not text.isdigit() or len(text) > 20:
            raise Refused(
                f"{name} is {text[:40]!r} in the path; it must be a number of at most 20 digits"
            )
        return int(text)

    @property
    def raw(self) -> Raw | None:
        """The type of a raw body (lines or bytes) that the operation accepts; None if the body is
        not of such a type. `text/plain` counts as bytes."""
        media_type = Raw.BYTES.value if self.media == _TEXT else self.media
        for kind in self.operation.also_takes:
            if media_type == kind.value:
                return kind
        return None

    async def read(self) -> bytes:
        """Returns the whole body.

        Raises `TooLarge` if it exceeds the operation's limit, and `Busy` if there is currently no
        memory for it.
        """
        body, limit = self.request.body, self.operation.body_bytes_max
        if body.whole is not None:
            if len(body.whole) > limit:
                raise TooLarge(
                    "the size of the request body in bytes", size=len(body.whole), limit=limit
                )
            return body.whole
        if body.length is not None and body.length > limit:
            raise TooLarge("the size of the request body in bytes", size=body.length, limit=limit)
        share = self._share
        if share is not None:
            share.check(body.length or 0)
        pieces, size = [], 0
        while piece := await body.read():
            size += len(piece)
            if size > limit:
                raise TooLarge("the size of the request body in bytes", size=size, limit=limit)
            if share is not None:
                share.take(len(piece))
            pieces.append(bytes(piece))
        return b"".join(pieces)

    async def document(self, kind: type[Kind]) -> Kind:
        """Decodes the body as a `kind`. An empty body counts as a document without fields."""
        return await self.read_as(lambda data: self.decoded(data, kind))

    async def read_as(self, make: Callable[[bytes], Made], *, may_wait: bool = False) -> Made:
        """Reads the body, calls `make` with it and returns the result.

        `make` runs in another thread if the body is large, or if `may_wait` is true because `make`
        may block.
        """
        data = await self.read()
        if self._run is None or (len(data) <= HERE_BYTES_MAX and not may_wait):
            return make(data)
        return await self._run(lambda: make(data))

    def decoded(self, data: bytes, kind: type[Kind]) -> Kind:
        """Decodes a body that was already read. May be called in any thread."""
        if not data:
            return media.decode(b"{}", kind, media.JSON)
        media_type = self.media
        if media_type not in (media.JSON, media.MSGPACK):
            accepted = [
                media.JSON,
                media.MSGPACK,
                *(raw.value for raw in self.operation.also_takes),
            ]
            raise UnsupportedMedia(
                f"the media type {media_type[:80]} is not supported; send {', '.join(accepted)}"
            )
        return media.decode(data, kind, media_type)

    def accepts(self, kind: str) -> bool:
        """Returns whether the `Accept` header names that media type; `*/*` does not count."""
        return kind in self.request.headers.get("accept", "").lower()


def media_of(request: Request) -> str:
    """Returns the media type of the body, by default JSON."""
    media_type = request.headers.get("content-type", media.JSON)
    return (
        media_type if media_type == media.MSGPACK else media_type.partition(";")[0].strip().lower()
    )


def read_query(kind: type[Struct], raw_query: bytes) -> Struct:
    """Decodes a query string as a `kind`.

    Raises `Refused` if the query is malformed, or if a parameter is unknown or repeated, or its
    value is not valid.
    """
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
        raise Refused(f"the query is malformed: {error}") from None
    values: dict[str, str] = {}
    field_names = kind.__struct_fields__ if kind is not Nothing else ()
    for name, value in pairs:
        if name not in field_names:
            allowed = ", ".join(field_names) or "none"
            raise Refused(f"unknown query parameter {name[:40]!r}; the known ones are: {allowed}")
        if name in values:
            raise Refused(f"the query parameter {name!r} is given twice")
        values[name] = value
    return _converted(kind, values)


def _converted(kind: type[Struct], values: dict[str, str]) -> Struct:
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"the query is not valid: {error}") from None
