"""Calls the handler of a request and writes its response.

If the handler returns a response with a complete body, the response is written before `begin`
returns. If the handler returns an awaitable, or a body that comes in pieces, a task of the server
writes the response. If the client is gone, the response is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from lakebed.base.events import event
from lakebed.base.layout import Buffer
from lakebed.http.body_sender import close_pieces, send_pieces, size_of
from lakebed.http.outgoing_stream import OutgoingStream
from lakebed.http.refusal import Refusal, Refused, plain_text
from lakebed.http.request import BadBody, ClientGone, Request
from lakebed.http.response import Piece, Response
from lakebed.http.response_head import (
    CHUNKED,
    CLOSE,
    KEEP_ALIVE,
    encode_head,
    framing_line,
    has_body,
)

if TYPE_CHECKING:
    from lakebed.http.server import Server

Handler = Callable[[Request], Response | Awaitable[Response]]

JOINED_BYTES_MAX = 64 * 1024  # up to this size a body is joined with its head
CLIENT_CLOSED = 499  # status reported to `on_done` if the client was gone; never sent

_log = logging.getLogger(__name__)


class Exchange(Protocol):
    """The methods of a connection that a responder calls."""

    def is_body_read(self) -> bool: ...

    def body_bytes(self, request: Request) -> int: ...

    def next(self, *, keeps_alive: bool) -> None: ...

    def go_on_later(self) -> None: ...

    def abort(self) -> None: ...


class Responder:
    """Writes the responses of one connection, for one request at a time."""

    __slots__ = ("_connection", "_keeps_alive", "_out", "_server", "has_begun")

    def __init__(self, connection: Exchange, server: Server, out: OutgoingStream) -> None:
        self._connection = connection
        self._server = server
        self._out = out
        self._keeps_alive = False
        self.has_begun = False  # whether part of the response is written

    def begin(self, request: Request, *, keeps_alive: bool) -> None:
        self._keeps_alive = keeps_alive
        self.has_begun = False
        try:
            result = self._server.handler(request)
            if isinstance(result, Response) and isinstance(result.body, Buffer):
                self._write(request, result, result.body)
                return
        except Exception as error:  # noqa: BLE001 - handlers may raise anything
            self._fail(request, error)
            return
        self._server.run(self._finish(request, result))

    def refuse(self, refused: Refused) -> None:
        """Sends the refusal of a connection, or of a request for which no handler was called."""
        self._send_refusal(
            Refusal(refused.status, refused.reason, self._server.request_ids.take(), None)
        )

    async def _finish(self, request: Request, result: Response | Awaitable[Response]) -> None:
        try:
            response = result if isinstance(result, Response) else await result
            if isinstance(response.body, Buffer):
                self._write(request, response, response.body)
            else:
                try:
                    await self._stream(request, response, response.body)
                finally:
                    await close_pieces(response.body)
        except asyncio.CancelledError:
            self._connection.abort()  # no response will follow
            request.end()
            raise
        except Exception as error:  # noqa: BLE001 - handlers may raise anything
            self._fail(request, error)
        self._connection.go_on_later()

    def _write(self, request: Request, response: Response, body: Buffer) -> None:
        """Writes a response whose body is complete."""
        if not self._out.is_open:
            self._done(request, CLIENT_CLOSED, 0, keeps_alive=False)
            return
        keeps_alive = self._may_go_on(response)
        status = response.status
        size = len(body) if type(body) is bytes else size_of(body)
        announced: int | None = size
        if not has_body(request.method, status):
            announced, size = _content_length(response, size), 0
        head = self._encode(
            request, response, framing_line(status, length=announced), keeps_alive=keeps_alive
        )
        self.has_begun = True
        if not size:
            self._out.write(head)
        elif size <= JOINED_BYTES_MAX:
            self._out.write(b"".join((head, body)))
        else:
            self._out.write_both(head, body)
        self._done(request, status, size, keeps_alive=keeps_alive)

    async def _stream(
        self, request: Request, response: Response, body: AsyncIterable[Piece]
    ) -> None:
        """Writes a response whose body comes in pieces."""
        if not self._out.is_open:
            raise ClientGone("the connection to the client is closed")
        status, length = response.status, response.length
        is_sent = has_body(request.method, status)
        is_chunked = is_sent and length is None and request.version == "1.1"
        keeps_alive = self._may_go_on(response) and (
            is_chunked or not is_sent or length is not None
        )
        framing = CHUNKED if is_chunked else framing_line(status, length=length)
        head = self._encode(request, response, framing, keeps_alive=keeps_alive)
        self.has_begun = True
        self._out.write(head)
        sent = 0
        if is_sent:
            sent = await send_pieces(self._out, body, length=length, is_chunked=is_chunked)
        self._done(request, status, sent, keeps_alive=keeps_alive)

    def _may_go_on(self, response: Response) -> bool:
        return (
            self._keeps_alive
            and not response.closes
            and not self._server.is_draining
            and self._connection.is_body_read()
        )

    def _encode(
        self, request: Request | None, response: Response, framing: str, *, keeps_alive: bool
    ) -> bytes:
        if keeps_alive and request is not None and request.version == "1.1":
            connection = ""
        else:
            connection = CLOSE if not keeps_alive else KEEP_ALIVE
        return encode_head(
            response.status,
            response.headers,
            date=self._server.date_line,
            framing=framing,
            connection=connection,
        )

    def _done(self, request: Request, status: int, sent: int, *, keeps_alive: bool) -> None:
        server = self._server
        if server.on_done is not None:
            duration_ns = server.clock.monotonic_ns() - request.received_ns
            server.call_done(
                request, status, self._connection.body_bytes(request), sent, duration_ns
            )
        self._connection.next(keeps_alive=keeps_alive)

    # Failures.

    def _fail(self, request: Request, error: Exception) -> None:
        if isinstance(error, ClientGone) or not self._out.is_open:
            self._done(request, CLIENT_CLOSED, 0, keeps_alive=False)
            self._connection.abort()
            return
        if isinstance(error, BadBody):
            status, reason = 400, str(error)
        else:
            status, reason = 500, "the request failed inside the server"
            event(_log, "handler_failed", level=logging.ERROR, request_id=request.id, error=error)
            _log.debug("the handler of request %s failed", request.id, exc_info=error)
        if self.has_begun:
            self._done(request, status, 0, keeps_alive=False)
            self._connection.abort()  # a truncated response must not look complete
            return
        self.has_begun = True
        self._send_refusal(Refusal(status, reason, request.id, request))

    def _send_refusal(self, refusal: Refusal) -> None:
        """Writes a refusal as the response. The connection closes after that response."""
        request = refusal.request
        response, head = self._render(refusal)
        body = response.body if isinstance(response.body, Buffer) else b""
        is_sent = request is None or request.method != "HEAD"
        self._out.write(b"".join((head, body)) if is_sent else head)
        if request is None:
            self._server.call_done(None, response.status, 0, size_of(body), 0)
        else:
            self._done(request, response.status, size_of(body) if is_sent else 0, keeps_alive=False)

    def _render(self, refusal: Refusal) -> tuple[Response, bytes]:
        for render in (self._server.on_refusal, plain_text):
            try:
                response = render(refusal)
                assert isinstance(response.body, Buffer), "the body of a refusal must be bytes"
                framing = framing_line(response.status, length=size_of(response.body))
                head = self._encode(refusal.request, response, framing, keeps_alive=False)
            except Exception:  # noqa: BLE001 - a callback may raise anything
                _log.exception("cannot render the refusal of request %s", refusal.request_id)
                continue
            return response, head
        raise AssertionError("a refusal could not be rendered as plain text")


def _content_length(response: Response, size: int) -> int | None:
    """Returns the Content-Length for a response whose body is not sent, or None to omit it."""
    if response.length is not None:
        return response.length
    return size if size or response.status != 304 else None
