"""Requests made by hand, and a service on a lake of one's own: for tests that need no socket.

response = call(put_object, service, PutObject(bucket="b", key="k"), request("PUT", body=b"…"))
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import urllib.parse
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lakebed.base.clock import SystemClock
from lakebed.base.layout import Buffer
from lakebed.http.request import ClientGone, Request
from lakebed.http.response import FileSlice, Piece, Response
from lakebed.s3.auth.identity import Identity, Payload, PayloadKind
from lakebed.s3.errors import STATUSES, S3Error
from lakebed.s3.router import route
from lakebed.s3.service import Service
from lakebed.s3.verb import Operation
from lakebed.seglake.endpoint_config import EndpointConfig
from tests.seglake.lakes import open_lake

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
REQUEST_ID = "00112233445566AA"


class GivenBody:
    """A body that came along with the head, or that comes in pieces; the client may go away."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        *,
        is_whole: bool = True,
        length: int | None = None,
        breaks_off: bool = False,
    ) -> None:
        data = b"".join(pieces)
        self.length: int | None = len(data) if length is None else length
        self.whole: bytes | None = data if is_whole else None
        self._left = [piece for piece in pieces if piece]
        self._breaks_off = breaks_off

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        if self._left:
            return self._left.pop(0)
        if self._breaks_off:
            raise ClientGone("the client went away")
        return b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self.read():
            yield piece


def request(
    method: str,
    target: str = "/",
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | Sequence[bytes] | GivenBody = b"",
) -> Request:
    """`target` is the raw path and query; a body in a sequence comes piece by piece."""
    path, _, query = target.partition("?")
    if isinstance(body, GivenBody):
        given = body
    elif isinstance(body, bytes):
        given = GivenBody([body])
    else:
        given = GivenBody(body, is_whole=False)
    named = {"host": "127.0.0.1:9000"}
    named |= {name.lower(): value for name, value in (headers or {}).items()}
    if given.length is not None:
        named.setdefault("content-length", str(given.length))
    return Request(
        method=method,
        raw_path=path.encode(),
        raw_query=query.encode(),
        version="1.1",
        fields=[(name.encode(), value.encode("latin-1")) for name, value in named.items()],
        headers=named,
        body=given,
        request_id=REQUEST_ID,
        peer="127.0.0.1",
        is_secure=False,
        received_ns=0,
    )


def routed(made: Request, *, domain: str = "") -> Operation:
    """The typed request that the router reads."""
    _, operation = route(made, domain=domain)
    return operation


def refused(method: str, target: str, *, headers: Mapping[str, str] | None = None) -> S3Error:
    """How a request is refused before any verb looks at it."""
    with pytest.raises(S3Error) as caught:
        route(request(method, target, headers=headers), domain="")
    assert caught.value.code in STATUSES
    return caught.value


def target(bucket: str = "", key: str = "", /, **query: str) -> str:
    """A path-style target of decoded names; underscores in the names of parameters are hyphens."""
    path = "/" + "/".join(urllib.parse.quote(part) for part in (bucket, key) if part)
    named = {name.replace("_", "-"): value for name, value in query.items()}
    return f"{path}?{urllib.parse.urlencode(named)}" if named else path


def identity(
    kind: PayloadKind = PayloadKind.UNSIGNED, *, sha256: str = "", is_exempt: bool = True
) -> Identity:
    return Identity(
        access_key="AKTEST", is_exempt=is_exempt, payload=Payload(kind=kind, sha256=sha256)
    )


@contextlib.contextmanager
def open_service(
    root: Path, *, config: EndpointConfig | None = None, **settings: Any
) -> Iterator[Service]:
    """A service on a new lake; `settings` are the lake's."""
    with open_lake(root, **settings) as lake, ThreadPoolExecutor(max_workers=4) as executor:
        yield Service(
            lake=lake, config=config or EndpointConfig(), clock=SystemClock(), executor=executor
        )


Verb = Callable[..., Response | Awaitable[Response]]


def call(
    verb: Verb,
    service: Service,
    operation: object,
    made: Request | None = None,
    who: Identity | None = None,
) -> Response:
    """What a verb answers, its body as bytes; its errors come through."""
    return asyncio.run(_call(verb, service, operation, made, who))


async def _call(
    verb: Verb, service: Service, operation: object, made: Request | None, who: Identity | None
) -> Response:
    response = verb(service, operation, made or request("GET"), who or identity())
    if inspect.isawaitable(response):
        response = await response
    assert isinstance(response, Response)
    response.body = await whole_body(response)
    return response


async def whole_body(response: Response) -> bytes:
    """All bytes of a response; those of file slices are read from the file."""
    if not isinstance(response.body, AsyncIterable):
        return bytes(response.body)
    data = bytearray()
    async for piece in response.body:
        data += bytes_of(piece)
    return bytes(data)


def bytes_of(piece: Piece) -> Buffer:
    """Those of a piece; of a file they are read."""
    if isinstance(piece, FileSlice):
        return os.pread(piece.descriptor, piece.length, piece.offset)
    return piece


def header(response: Response, name: str) -> str | None:
    """The value of a header, by its name in any case; it stands there at most once."""
    found = [value for one, value in response.headers if one.lower() == name.lower()]
    assert len(found) <= 1, f"{name} stands there {len(found)} times"
    return found[0] if found else None


def document(response: Response) -> ET.Element:
    """The XML of a response."""
    assert isinstance(response.body, bytes)
    return ET.fromstring(response.body)  # noqa: S314 - we wrote it


def texts(element: ET.Element, path: str) -> list[str]:
    """The texts of all elements of S3's namespace at a path such as `Contents/Key`."""
    steps = "/".join(NAMESPACE + step for step in path.split("/"))
    return [found.text or "" for found in element.findall(steps)]
