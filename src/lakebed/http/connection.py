"""The HTTP protocol of one client connection: parses requests and answers them in order.

A connection handles one request at a time. Bytes that arrive after the current request are
buffered; while more than `Limits.pipelined_bytes` are buffered, the socket is not read. The next
request starts when the previous response was passed to the transport and the transport accepts more
data.

A connection ends after a response if either side requests it, if the server refused the request
(`refusal`) or is shutting down, or if the request's body was not read to its end. If the client may
have sent bytes that were not read, the server first reads and drops what the client sends for a
while, because closing a socket that has unread bytes can discard the response.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from lakebed.base.clock import NS_PER_S
from lakebed.http.body import IncomingBody, WholeBody
from lakebed.http.chunks import ChunkedReader
from lakebed.http.head import END, Head, check_begin
from lakebed.http.minimum_rate import MinimumRate
from lakebed.http.outgoing_stream import OutgoingStream
from lakebed.http.refusal import Refused
from lakebed.http.request import ClientGone, Request
from lakebed.http.responder import Responder
from lakebed.http.response_head import CONTINUE

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

    from lakebed.http.server import Server

REFUSED_MAX = 64  # connections above the limit that get a 503; more are closed without a response

_EMPTY = WholeBody(b"")


class Phase(Enum):
    """What a connection is waiting for. The phase selects the timer that applies (`_timer_s`)."""

    IDLE = auto()  # waits for a request
    HEAD = auto()  # waits for more bytes of a request's head or small body
    BUSY = auto()  # waits for the handler, or for the client to receive the response
    LINGERING = auto()  # waits for the client to close the connection
    CLOSING = auto()  # waits until the written bytes are sent


# Looking up an enum member in its class is slow, so the members are also module variables.
IDLE, HEAD, BUSY = Phase.IDLE, Phase.HEAD, Phase.BUSY
LINGERING, CLOSING = Phase.LINGERING, Phase.CLOSING


class Connection(asyncio.Protocol):
    """One client connection. Runs in the event loop's thread.

    It has a current request while its phase is BUSY, and, after the connection was lost or aborted,
    until the handler ends.
    """

    __slots__ = (
        "_answering",
        "_body",
        "_got_eof",
        "_head",
        "_is_known",
        "_is_reading",
        "_is_secure",
        "_linger_bytes",
        "_out",
        "_pace",
        "_peer",
        "_pending",
        "_phase",
        "_request",
        "_searched",
        "_server",
        "_since_ns",
        "_transport",
        "_unsent",
        "_wants_continue",
    )

    _transport: asyncio.Transport
    _out: OutgoingStream
    _answering: Responder

    def __init__(self, server: Server) -> None:
        self._server = server
        self._phase = IDLE
        self._since_ns = server.clock.monotonic_ns()
        self._pending = bytearray()  # bytes not yet part of a request
        self._searched = 0  # pending bytes already searched for the end of a head
        self._head: Head | None = None  # a head whose small body is incomplete
        self._request: Request | None = None  # the current request
        self._unsent: Request | None = None  # the previous request, until its response is sent
        self._body: IncomingBody | None = None  # the current request's body, if it is large
        self._pace: MinimumRate | None = None  # the rate of an incomplete body
        self._wants_continue = False
        self._is_reading = True
        self._got_eof = False
        self._linger_bytes = 0

    @property
    def socket(self) -> TransportSocket | None:
        """The socket, or None if the event loop no longer provides it."""
        try:
            transport_socket: TransportSocket | None = self._transport.get_extra_info("socket")
        except (RuntimeError, ValueError):  # raised by a loop that has ended
            return None
        return transport_socket

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for a request to arrive, and no handler is running."""
        return self._phase is IDLE or self._phase is HEAD

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._is_secure = transport.get_extra_info("sslcontext") is not None
        address = transport.get_extra_info("peername")
        self._peer = str(address[0]) if isinstance(address, tuple) else ""
        self._out = OutgoingStream(
            self._transport, is_secure=self._is_secure, now_ns=self._since_ns
        )
        self._answering = Responder(self, self._server, self._out)
        self._is_known = not self._peer  # a local socket: file permissions guard it
        room = self._server.admit(self, is_known=self._is_known)
        if self._server.is_draining:
            self.close()  # accepted just before the listener was closed
        elif room < -REFUSED_MAX:
            self.abort()
        elif room < 0:
            self._refuse(Refused(503, "the server has too many connections; retry later"))

    def data_received(self, data: bytes) -> None:
        phase = self._phase
        if phase is IDLE and not self._pending:
            used = self._take(data)
            if used < len(data):
                self._pending += data[used:]
                if used:
                    self._go_on()
        elif phase is BUSY:
            used = self._feed_body(data)
            if used < len(data):
                self._pending += data[used:]
                self._balance()
        elif phase is LINGERING:
            self._linger_bytes += len(data)
            if self._linger_bytes > self._server.limits.linger_bytes_max:
                self.abort()
        elif phase is not CLOSING:
            self._pending += data
            if self._head is not None:
                self._note_body(len(data), was_waited_for=True)
            self._go_on()

    def eof_received(self) -> bool:
        """Called by the transport when the client has stopped sending.

        Returns True to keep the connection open until pending responses are sent, and False to
        close it. Always returns False with TLS, which does not allow half-open connections.
        """
        self._got_eof = True
        self._lose_client()
        if self._phase is IDLE and self._pending:
            return not self._is_secure  # pipelined requests are still to be answered
        return self._phase is BUSY and not self._is_secure

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._phase = CLOSING
        self._pending.clear()
        self._out.lose()
        self._end_request()
        self._lose_client()
        self._server.forget(self)

    def _lose_client(self) -> None:
        if self._body is not None:
            self._body.fail(ClientGone("the connection ended before the request body was complete"))
        if self._request is not None:
            self._request.hurry(is_gone=True)

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()
        self._end_request()
        if self._pending:
            self._go_on()

    # From bytes to requests.

    def _go_on(self) -> None:
        """Handles buffered requests until one must wait, for example for its handler.

        After `Limits.pipelined_requests`, continues in the next turn of the loop.
        """
        turns = self._server.limits.pipelined_requests
        while self._pending and self._is_ready():
            if not turns:
                self._server.loop.call_soon(self._go_on)  # let other connections run
                break
            turns -= 1
            if not self._take(self._pending):
                break
        else:
            if self._got_eof and self._is_ready():
                self.close()
        self._balance()

    def _is_ready(self) -> bool:
        return self._phase in (IDLE, HEAD) and self._out.is_writable

    def _take(self, data: bytes | bytearray) -> int:
        """Parses and handles the request at the start of `data`; returns the number of bytes used.

        Returns 0 if more bytes are needed first, the size of the head if a small body is still
        incomplete, the size of `data` if the request is refused, and 2 if `data` starts with an
        empty line, which is skipped. `data` is either the pending buffer, from which the used bytes
        are removed before the handler is called, or newly received bytes.
        """
        if self._head is not None:
            return self._take_small_body(self._head, data)
        end = data.find(END, self._searched)
        if end < 0:
            return self._take_no_head(data)
        end += len(END)
        self._searched = 0
        try:
            head = self._server.heads.read(bytes(data[:end]))
        except Refused as refused:
            if data.startswith(b"\r\n"):
                return self._cut(2)  # some clients send an empty line after a body
            self._refuse(refused)
            return len(data)
        length = head.length
        if length == 0:
            return self._begin(head, _EMPTY, used=end)
        if length is not None and self._is_small(head, length):
            if len(data) - end >= length:
                body = WholeBody(bytes(data[end : end + length]))
                return self._begin(head, body, used=end + length)
            self._head = head
            self._wait_in(HEAD)
            self._pace = self._new_pace()
            return self._cut(end)
        return self._take_large_body(head, data, end)

    def _take_large_body(self, head: Head, data: bytes | bytearray, at: int) -> int:
        length = head.length
        chunks = ChunkedReader(self._server.limits) if length is None else None
        self._body = body = IncomingBody(self, length, chunks)
        self._pace = self._new_pace()
        self._wants_continue = head.expects_continue
        used = self._feed_body(bytes(data[at:])) if len(data) > at else 0
        return self._begin(head, body, used=at + used)

    def _is_small(self, head: Head, length: int) -> bool:
        return length <= self._server.limits.small_body_bytes and not head.expects_continue

    def _take_small_body(self, head: Head, data: bytes | bytearray) -> int:
        length = head.length or 0
        if len(data) < length:
            return 0
        self._head = None
        return self._begin(head, WholeBody(bytes(data[:length])), used=length)

    def _take_no_head(self, data: bytes | bytearray) -> int:
        if data.startswith(b"\r\n"):
            return self._cut(2)
        try:
            if data != b"\r":
                check_begin(data, self._server.limits)
        except Refused as refused:
            self._refuse(refused)
            return len(data)
        self._searched = max(len(data) - len(END) + 1, 0)
        if self._phase is not HEAD:
            self._wait_in(HEAD)
        if self._got_eof:
            self.close()
        return 0

    def _cut(self, used: int) -> int:
        if self._pending:
            del self._pending[:used]
        return used

    def _begin(self, head: Head, body: WholeBody | IncomingBody, *, used: int) -> int:
        self._cut(used)
        server = self._server
        self._phase = BUSY
        self._since_ns = now_ns = server.clock.monotonic_ns()
        request = Request(
            method=head.method,
            raw_path=head.raw_path,
            raw_query=head.raw_query,
            version=head.version,
            fields=head.fields,
            headers=head.headers,
            body=body,
            request_id=server.request_ids.take(),
            peer=self._peer,
            is_secure=self._is_secure,
            received_ns=now_ns,
        )
        self._request = request
        if self._got_eof or server.is_draining:
            request.hurry(is_gone=self._got_eof)
        self._answering.begin(request, keeps_alive=head.keeps_alive)
        return used

    def _wait_in(self, phase: Phase) -> None:
        self._phase = phase
        self._since_ns = self._server.clock.monotonic_ns()

    # The body of the current request.

    def _feed_body(self, data: bytes) -> int:
        """Passes bytes to the current request's body and returns how many belong to it.

        Bytes after the end of the body belong to the next request. A body that has failed drops all
        bytes.
        """
        body = self._body
        if body is None or body.is_complete:
            return 0
        if body.has_failed:
            return len(data)
        self._wants_continue = False
        self._note_body(len(data), was_waited_for=body.is_waited_for)
        used = body.feed(data)
        self._balance()
        return used

    def want_body(self) -> None:
        """Sends `100 Continue` if the client waits for it and no response has begun.

        Also resumes reading from the socket, unless a buffer is full. The body calls it when the
        handler waits for bytes or has read some.
        """
        self._note_body(0, was_waited_for=False)
        if self._wants_continue and not self._answering.has_begun:
            self._wants_continue = False
            self._out.write(CONTINUE)
        self._balance()

    def _new_pace(self) -> MinimumRate:
        server = self._server
        return MinimumRate(
            rate_bytes_min=server.limits.rate_bytes_min, now_ns=server.clock.monotonic_ns()
        )

    def _note_body(self, count: int, *, was_waited_for: bool) -> None:
        """Records that `count` bytes of a body were received, for the timer and minimum rate."""
        self._since_ns = now_ns = self._server.clock.monotonic_ns()
        if self._pace is not None:
            self._pace.note(count, now_ns, was_waited_for=was_waited_for)

    def is_body_read(self) -> bool:
        return self._body is None or self._body.is_read

    def body_bytes(self, request: Request) -> int:
        """Returns how many bytes of the request's body have been received so far."""
        return len(request.body.whole or b"") if self._body is None else self._body.received_bytes

    def _balance(self) -> None:
        """Pauses reading from the socket if a buffer is full, and otherwise resumes it."""
        limits, body = self._server.limits, self._body
        is_full = (len(self._pending) > limits.pipelined_bytes and self._phase is not HEAD) or (
            body is not None and body.held_bytes > limits.read_ahead_bytes
        )
        if is_full is not self._is_reading or self._phase is CLOSING:
            return
        self._is_reading = not is_full
        if is_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # After a response, and at the end.

    def next(self, *, keeps_alive: bool) -> None:
        """Ends the current request after its response was written or failed.

        Then the connection waits for the next request or, if `keeps_alive` is false, closes. Before
        it closes, it may drop unread bytes for a while.
        """
        body, self._body = self._body, None
        request, self._request = self._request, None
        if request is not None:
            self._unsent = request
            if not self._is_known and request.label is not None and request.label.access_key:
                self._is_known = True
                self._server.mark_authenticated(self)
            if self._out.is_writable or not self._out.is_open:
                self._end_request()
        if body is not None:
            body.fail(ClientGone("the response was sent before the request body was complete"))
        if self._phase is not BUSY:
            return
        if keeps_alive:
            self._wait_in(IDLE)
            if not self._is_reading:
                self._balance()
            if self._got_eof and not self._pending:
                self.close()
        elif (body is None or body.is_read) and not self._pending:
            self.close()
        else:
            self._linger()

    def _end_request(self) -> None:
        """Calls `Request.end` for the previous request if that was not done yet.

        Its response was written, but the last bytes may still be in the transport's buffer; or its
        client is gone.
        """
        request, self._unsent = self._unsent, None
        if request is not None:
            request.end()

    def go_on_later(self) -> None:
        """Handles the buffered requests. Called after a separate task has written a response."""
        if self._pending or self._got_eof:
            self._go_on()

    def _refuse(self, refused: Refused) -> None:
        """Responds to a malformed or late request, or to a connection over the limit.

        No handler is involved. After the response, waits a while for the client to close.
        """
        self._answering.refuse(refused)
        if self._out.is_open:
            self._linger()

    def _linger(self) -> None:
        self._pending.clear()
        self._head = None
        if self._got_eof:
            self.close()
            return
        self._wait_in(LINGERING)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._balance()

    def close(self) -> None:
        """Closes the connection after all written bytes are sent."""
        self._wait_in(CLOSING)
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection immediately and discards unsent bytes."""
        self._wait_in(CLOSING)
        self._transport.abort()

    def drain(self) -> None:
        """Prepares for the server's shutdown: closes the connection if no request is arriving.

        If a handler is running, asks it to finish soon (`Request.hurry`).
        """
        if self._phase is IDLE and not self._pending:
            self.close()
        elif self._request is not None:
            self._request.hurry(is_gone=False)

    def sweep(self, now_ns: int) -> None:
        """Ends the connection if a timer has expired or the client is too slow.

        The server calls it once a second.
        """
        limits = self._server.limits
        if self._out.is_stuck(now_ns, limits):
            self.abort()
            return
        if not self._out.is_empty and self._phase is not BUSY:
            self._since_ns = now_ns  # the client must receive these bytes before it can send more
            return
        limit_s = self._timer_s()
        is_late = limit_s is not None and now_ns - self._since_ns > limit_s * NS_PER_S
        if not is_late and not self._is_too_slow(now_ns):
            return
        if self._phase is HEAD:
            self._refuse(Refused(408, "the request was not complete in time"))
        elif self._phase is IDLE:
            self.close()
        else:
            self.abort()

    def _is_too_slow(self, now_ns: int) -> bool:
        """Returns whether the server waits for a request body that arrives too slowly."""
        is_small = self._phase is HEAD and self._head is not None
        if self._pace is None or not (is_small or self._is_waiting_for_body()):
            return False
        return self._pace.is_too_slow(now_ns, int(self._server.limits.rate_grace_s * NS_PER_S))

    def _is_waiting_for_body(self) -> bool:
        is_waited_for = self._body is not None and self._body.is_waited_for
        return self._phase is BUSY and is_waited_for and self._is_reading

    def _timer_s(self) -> float | None:
        limits = self._server.limits
        match self._phase:
            case Phase.IDLE:
                return limits.keep_alive_s
            case Phase.HEAD:
                return limits.header_s if self._head is None else limits.body_idle_s
            case Phase.BUSY:
                return limits.body_idle_s if self._is_waiting_for_body() else None
            case Phase.LINGERING:
                return limits.linger_s
            case Phase.CLOSING:
                return limits.write_s
