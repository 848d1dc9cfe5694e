"""The HTTP server: listens, tracks its connections, and drains them when it shuts down.

    server = Server(handler)
    port = await server.listen("127.0.0.1", 9000)
    …
    await server.drain(30)

A server runs in the thread of the event loop in which it was created; uvloop is the fastest loop.
Once a second the server checks the timers of every connection.

A forked child process keeps none of the server's sockets. Otherwise, after the server died, clients
would wait for a response from the child, which still had their connections open but would never
respond.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from lakebed.base.clock import Clock, SystemClock
from lakebed.base.files import fork_guard
from lakebed.http.connection import Connection
from lakebed.http.connection_limit import ConnectionLimit
from lakebed.http.handshake import Handshake
from lakebed.http.head import HeadReader
from lakebed.http.limits import Limits
from lakebed.http.refusal import Refusal, plain_text
from lakebed.http.request import Request
from lakebed.http.request_id import RequestIds
from lakebed.http.responder import Handler
from lakebed.http.response import Response
from lakebed.http.response_head import date_line
from lakebed.http.tls import TlsFiles

Done = Callable[[Request | None, int, int, int, int], None]
"""A callback after each response, also if the client was gone (then with status 499).

Its arguments are the request (None if it was refused before a handler was called), the status, the
bytes of the request body received, the bytes of the response body sent (0 if the response failed
part-way), and the duration in ns (0 if the request is None).
"""

BACKLOG = 1024
SWEEP_S = 1.0

# From Python 3.13 on, an event loop that stops removes the file of a Unix socket by its address.
# The address may be a path through a closed descriptor, so the caller removes the file instead.
_FILE_IS_THE_CALLERS: dict[str, Any] = (
    {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
)

_log = logging.getLogger(__name__)


class Server:
    """An HTTP server. Its owner calls `listen`, `listen_unix`, `serve_socket`, `drain` and `close`.

    Its connections use most of the other public members.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        room: ConnectionLimit | None = None,
        on_refusal: Callable[[Refusal], Response] = plain_text,
        on_done: Done | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        """Creates the server; must be called in a running event loop.

        Servers in the same loop can share one connection limit as `room`; by default the server
        has its own, with `limits.connections_max`. `seed` is the start of the request ids, by
        default random.
        """
        self.handler = handler
        self.limits = limits or Limits()
        self._room = room or ConnectionLimit(self.limits.connections_max)
        self.on_refusal = on_refusal
        self.on_done = on_done
        self.clock = clock or SystemClock()
        self.loop = asyncio.get_running_loop()
        self.heads = HeadReader(self.limits)
        self.request_ids = RequestIds(secrets.randbits(64) if seed is None else seed)
        self.date_line = date_line(self.clock.wall_ns())
        self.is_draining = False
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._handshakes: set[Handshake] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._timer = self.loop.call_later(SWEEP_S, self._tick)
        fork_guard.hold(self)

    async def listen(self, host: str, port: int, *, tls: TlsFiles | None = None) -> int:
        """Listens on a TCP port and returns its number. Port 0 means any free port."""
        connect = self._connect if tls is None else partial(Handshake, self, tls)
        listener = await self.loop.create_server(connect, host, port, backlog=BACKLOG)
        self._listeners.append(listener)
        bound_port: int = listener.sockets[0].getsockname()[1]
        return bound_port

    async def listen_unix(self, path: str | os.PathLike[str], mode: int) -> None:
        """Listens on a Unix socket at the path, and replaces an existing socket file.

        The file has the permissions `mode` before the first client can connect.
        """
        listener = await self.loop.create_unix_server(
            self._connect, os.fspath(path), backlog=BACKLOG, start_serving=False
        )
        os.chmod(path, mode)
        await listener.start_serving()
        self._listeners.append(listener)

    async def serve_socket(self, listening: socket.socket) -> None:
        """Accepts connections from a Unix socket that is already listening.

        The server closes the socket when it shuts down, but does not remove the file.
        """
        listener = await self.loop.create_unix_server(
            self._connect, sock=listening, backlog=BACKLOG, **_FILE_IS_THE_CALLERS
        )
        self._listeners.append(listener)

    async def drain(self, timeout_s: float) -> bool:
        """Stops listening, waits for current requests, then closes the remaining connections.

        Waits at most `timeout_s` seconds. Returns whether all connections and handlers ended in
        that time. Handlers that are still running are not cancelled.
        """
        self._stop_listening()
        self.is_draining = True
        for connection in tuple(self._connections):
            connection.drain()
        self._end_handshakes()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_empty.wait(), timeout_s)
        return self.close()

    def close(self) -> bool:
        """Stops listening and aborts all connections. Returns True if there were no connections and
        no running handlers.
        """
        self._stop_listening()
        self.is_draining = True
        self._timer.cancel()
        was_empty = self._is_empty.is_set()
        for connection in tuple(self._connections):
            connection.abort()
        self._end_handshakes()
        fork_guard.release(self)
        return was_empty

    def drop(self) -> None:
        """Releases the server's sockets in a forked child, without affecting the parent's.

        Each descriptor is replaced with `/dev/null` instead of being closed, because objects of the
        event loop still own its number and would close it later.
        """
        null_device = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        listening = [sock for listener in self._listeners for sock in listener.sockets]
        connected = [connection.socket for connection in self._connections]
        connecting = [handshake.socket for handshake in self._handshakes]
        for sock in [*listening, *connected, *connecting]:
            if sock is not None and sock.fileno() >= 0:
                os.dup2(null_device, sock.fileno(), inheritable=False)
        os.close(null_device)

    def sweep(self) -> None:
        """Updates the Date header and ends connections whose timers have expired."""
        self.date_line = date_line(self.clock.wall_ns())
        now_ns = self.clock.monotonic_ns()
        for connection in tuple(self._connections):
            connection.sweep(now_ns)

    @property
    def connection_count(self) -> int:
        """The number of connections, including those in their TLS handshake."""
        return len(self._connections) + len(self._handshakes)

    # Called by connections.

    def admit(self, connection: Connection | Handshake, *, is_known: bool) -> int:
        """Counts a new connection and returns how many more connections the limit allows.

        At the limit, may close another connection to make room. A negative result means that the
        limit is exceeded and the caller must refuse the connection. If `is_known` is true, the new
        connection is never closed to make room for others.
        """
        if isinstance(connection, Handshake):
            self._handshakes.add(connection)
        else:
            self._connections.add(connection)
        self._is_empty.clear()
        return self._room.admit(connection, is_known=is_known)

    def mark_authenticated(self, connection: Connection) -> None:
        """Records that the connection sent an authenticated request.

        From then on it is never closed to make room for new connections.
        """
        self._room.mark_authenticated(connection)

    def forget(self, connection: Connection | Handshake) -> None:
        self._room.forget(connection)
        if isinstance(connection, Handshake):
            self._handshakes.discard(connection)
        else:
            self._connections.discard(connection)
        self._note_if_empty()

    def run(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Runs a coroutine as a task, which continues even if its connection ends earlier."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        self._is_empty.clear()
        task.add_done_callback(self._ran)
        return task

    def call_done(
        self, request: Request | None, status: int, received: int, sent: int, duration_ns: int
    ) -> None:
        if self.on_done is None:
            return
        try:
            self.on_done(request, status, received, sent, duration_ns)
        except Exception:  # noqa: BLE001 - a callback may raise anything
            _log.exception("the on_done callback failed")

    def _ran(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection failed", exc_info=error)
        self._note_if_empty()

    def _note_if_empty(self) -> None:
        if not self._connections and not self._tasks:
            self._is_empty.set()

    def _end_handshakes(self) -> None:
        for handshake in tuple(self._handshakes):
            handshake.abort()

    def _connect(self) -> Connection:
        return Connection(self)

    def _tick(self) -> None:
        self._timer = self.loop.call_later(SWEEP_S, self._tick)
        self.sweep()

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
