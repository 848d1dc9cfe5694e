"""The server: where it listens, who is connected, and how it ends.

    server = Server(handler)
    port = await server.listen("127.0.0.1", 9000)
    …
    await server.drain(30)

It runs in the event loop it is made in (uvloop's is the fast one), and all of it in that thread.
Once a second it looks at every connection's timer.

A forked child keeps none of its sockets: else clients would wait for an answer after the server
died, because a child, which never answers, still has the connection.
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
"""Request (None if it could not be read), status, bytes of both bodies, duration in ns."""

BACKLOG = 1024
SWEEP_S = 1.0

# From Python 3.13 on a loop removes the file of a Unix socket by its address when it stops. That
# may lead through a descriptor which has been closed since; here the caller removes the file.
_FILE_IS_THE_CALLERS: dict[str, Any] = (
    {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
)

_log = logging.getLogger(__name__)


class Server:
    """What connections need of it is public; others use `listen…`, `drain` and `close`."""

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
        """In a running loop. `seed` is for the ids of requests. Servers of one loop may share the
        `room` for their connections; else it is as the limits say."""
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
        """Returns the port; 0 takes a free one."""
        connect = self._connect if tls is None else partial(Handshake, self, tls)
        listener = await self.loop.create_server(connect, host, port, backlog=BACKLOG)
        self._listeners.append(listener)
        taken: int = listener.sockets[0].getsockname()[1]
        return taken

    async def listen_unix(self, path: str | os.PathLike[str], mode: int) -> None:
        """A socket file that is there is replaced; `mode` is set before the first client."""
        listener = await self.loop.create_unix_server(
            self._connect, os.fspath(path), backlog=BACKLOG, start_serving=False
        )
        os.chmod(path, mode)
        await listener.start_serving()
        self._listeners.append(listener)

    async def serve_socket(self, listening: socket.socket) -> None:
        """A Unix socket that is bound already, and listens; it is closed with the others."""
        listener = await self.loop.create_unix_server(
            self._connect, sock=listening, backlog=BACKLOG, **_FILE_IS_THE_CALLERS
        )
        self._listeners.append(listener)

    async def drain(self, timeout_s: float) -> bool:
        """Take no more requests, finish those under way, then cut what is left.

        Whether all ended by themselves. Handlers that still run are not cancelled.
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
        """Cut everything now; whether nothing was left to cut."""
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
        """In a forked child. The descriptors stay taken, since objects of the loop own them."""
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        listening = [one for listener in self._listeners for one in listener.sockets]
        connected = [connection.socket for connection in self._connections]
        connecting = [handshake.socket for handshake in self._handshakes]
        for one in [*listening, *connected, *connecting]:
            if one is not None and one.fileno() >= 0:
                os.dup2(nothing, one.fileno(), inheritable=False)
        os.close(nothing)

    def sweep(self) -> None:
        """Look at the clock: it says what second it is, and which timers ran out."""
        self.date_line = date_line(self.clock.wall_ns())
        now_ns = self.clock.monotonic_ns()
        for connection in tuple(self._connections):
            connection.sweep(now_ns)

    @property
    def connection_count(self) -> int:
        """Those whose handshake is under way included."""
        return len(self._connections) + len(self._handshakes)

    # For the connections.

    def admit(self, connection: Connection | Handshake, *, is_known: bool) -> int:
        """How many more there is room for; it is counted in any case."""
        if isinstance(connection, Handshake):
            self._handshakes.add(connection)
        else:
            self._connections.add(connection)
        self._is_empty.clear()
        return self._room.admit(connection, is_known=is_known)

    def mark_authenticated(self, connection: Connection) -> None:
        """A request of it had a key."""
        self._room.mark_authenticated(connection)

    def forget(self, connection: Connection | Handshake) -> None:
        self._room.forget(connection)
        if isinstance(connection, Handshake):
            self._handshakes.discard(connection)
        else:
            self._connections.discard(connection)
        self._note_if_empty()

    def run(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """To its end, whether or not the connection lasts that long."""
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
        except Exception:  # noqa: BLE001 - of whoever counts
            _log.exception("what is told at the end of a request was not taken")

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
