"""An ASGI 3 application as a handler: plain HTTP, streamed both ways.

The application runs as a task of its own. What it sends waits until the client takes it. A client
that is gone shows as `http.disconnect`, and as an `OSError` from `send`, as the specification has
it; the application is not cancelled. There is no lifespan.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from lakebed.base.events import event
from lakebed.http.request import BadBody, ClientGone, Request
from lakebed.http.response import Response

Message = MutableMapping[str, Any]
Application = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]

_log = logging.getLogger(__name__)

_OURS = frozenset({"connection", "content-length", "date", "transfer-encoding"})


class AsgiHandler:
    """`root_path` is where the application is mounted; it is told, and not cut off the path."""

    def __init__(self, application: Application, *, root_path: str = "") -> None:
        self._application = application
        self._root_path = root_path
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, request: Request) -> Response:
        exchange = _Exchange(request)
        task = asyncio.create_task(self._run(request, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await exchange.response()

    async def _run(self, request: Request, exchange: _Exchange) -> None:
        try:
            await self._application(
                scope_of(request, root_path=self._root_path), exchange.receive, exchange.send
            )
            await exchange.end(None)
        except Exception as error:  # noqa: BLE001 - told to whoever answers the request
            await exchange.end(error)


def scope_of(request: Request, *, root_path: str = "") -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": request.version,
        "method": request.method,
        "scheme": "https" if request.is_secure else "http",
        "path": unquote_to_bytes(request.raw_path).decode("utf-8", "replace"),
        "raw_path": request.raw_path,
        "query_string": request.raw_query,
        "root_path": root_path,
        "headers": [(name.lower(), value) for name, value in request.fields],
        "client": (request.peer, 0) if request.peer else None,
        "server": None,
    }


class _Exchange:
    """One request, between the application's task and the one that answers."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._start: Message | None = None
        self._whole: bytes | None = None  # a response sent in one piece
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)  # None is the end
        self._has_first = asyncio.Event()
        self._is_over = asyncio.Event()  # the client has all, or is gone
        self._is_read = False
        self._is_sent = False
        self._error: Exception | None = None

    # For the application.

    async def receive(self) -> Message:
        if self._is_read:
            await self._is_over.wait()
        if self._is_over.is_set():
            return {"type": "http.disconnect"}
        try:
            whole = self._request.body.whole
            piece = await self._request.body.read() if whole is None else whole
        except (ClientGone, BadBody):
            return {"type": "http.disconnect"}
        self._is_read = whole is not None or not piece
        return {"type": "http.request", "body": bytes(piece), "more_body": not self._is_read}

    async def send(self, message: Message) -> None:
        if self._is_over.is_set():
            raise OSError("the client closed the connection")
        kind = message["type"]
        if kind == "http.response.start" and self._start is None:
            self._start = message
        elif kind == "http.response.body" and self._start is not None and not self._is_sent:
            await self._send_body(message)
        else:
            raise RuntimeError(f"an application may not send {kind} here")

    async def _send_body(self, message: Message) -> None:
        is_last = not message.get("more_body", False)
        piece = bytes(message.get("body", b""))
        if is_last and not self._has_first.is_set():
            self._whole = piece
        elif piece:
            self._has_first.set()
            await self._put(piece)
        if is_last:
            self._is_sent = True
            if self._whole is None:
                await self._put(None)
        self._has_first.set()

    async def _put(self, piece: bytes | None) -> None:
        if not self._is_over.is_set():
            await self._pieces.put(piece)

    async def end(self, error: Exception | None) -> None:
        """The application returned, or failed."""
        if not self._is_sent:
            self._error = error or RuntimeError("an application ended without a whole response")
            self._has_first.set()
            await self._put(None)
        elif error is not None:
            event(_log, "application_failed", level=logging.ERROR, error=error)

    # For the one who answers.

    async def response(self) -> Response:
        await self._has_first.wait()
        start = self._start
        if start is None:
            raise self._error or RuntimeError("an application sent a body without a start")
        named = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in start.get("headers", ())
        ]
        headers = [(name, value) for name, value in named if name.lower() not in _OURS]
        length = next((int(text) for name, text in named if name.lower() == "content-length"), None)
        if self._whole is None:
            return Response(start["status"], headers, self, length=length)
        self._is_over.set()
        return Response(start["status"], headers, self._whole, length=length)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._pieces.get()
        if piece is not None:
            return piece
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """The client has all of it, or is gone."""
        self._is_over.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()  # lets a `send` that waits go on, and fail next time
