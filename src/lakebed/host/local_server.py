"""Serves an open store to other processes through the local socket `<root>/lakebed.sock`.

Until the first client connects, the server is only a bound socket and a waiting thread. Then that
thread imports the HTTP API, starts its event loop and serves it.

Invariants:
- The socket opens after everything else in the store, and closes before everything else. On close,
  running requests may finish within a time limit; after that their clients are disconnected, and
  calls of the store that are still running get `Closed`.
- The permissions of the socket file are the access control: only the owner may connect.
- The socket file is removed only by the server that created it, and only if it is still the same
  file. A killed process leaves its file; the next writer replaces it, because the root's lock
  proves that there is no other writer.
- A forked child does not listen, does not remove the file, and keeps no client's connection.
- If the socket cannot be created, the store opens anyway and a warning is logged.

A program that exits without closing its store is not delayed: running requests are disconnected
immediately.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import select
import threading
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.base.files import descriptors, fork_guard
from lakebed.http import local_socket
from lakebed.store.store import Store

SOCKET_NAME: Final = "lakebed.sock"
DRAIN_S: Final = 5.0
_CONNECTIONS_MAX: Final = 10_000
_CUT_S: Final = 5.0  # how long `close` waits for the thread after the drain time

_log = logging.getLogger(__name__)


def local_connections_max() -> int:
    """Returns how many connections to the local socket are allowed: from 4 to 10,000, depending on
    how many file descriptors the process may open.
    """
    return max(4, min(_CONNECTIONS_MAX, descriptors.connection_share() // 2))


def open_local_server(store: Store) -> LocalServer | None:
    """Starts to serve a store through its local socket, and returns the server.

    If the socket cannot be created, logs the reason and returns None.
    """
    path = os.path.abspath(os.path.join(store.root, SOCKET_NAME))
    try:
        return LocalServer(store, path)
    except (LakebedError, OSError, RuntimeError) as error:  # RuntimeError: no thread
        event(_log, "socket_not_made", level=logging.WARNING, path=path, why=error)
        return None


class LocalServer:
    """The server of a store's local socket. It listens until it is closed. Thread-safe."""

    def __init__(self, store: Store, path: str, *, drain_s: float = DRAIN_S) -> None:
        self.path = path
        self._store = store
        self._drain_s = drain_s
        self._generation = fork_guard.generation()
        self._mutex = store.runner.mutex()
        self._is_over = False  # guarded by _mutex; true once `_wake` is closed
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            self._listening = local_socket.bind(path)
        except BaseException:
            os.close(self._wake)
            raise
        self._file = local_socket.identity_of(path)
        self._thread = threading.Thread(target=self._run, name="lakebed-socket", daemon=True)
        fork_guard.hold(self)
        try:
            self._thread.start()
        except RuntimeError:
            self._remove_file()
            self._end()
            raise
        atexit.register(self._close_at_exit)

    def close(self) -> None:
        """Stops serving. Idempotent.

        New requests are refused. Running requests may finish within the time limit; after that
        their clients are disconnected. If a running request waits for the thread that closes the
        store, this takes the full time limit.

        If a request closes the store in the server's own thread, this returns without waiting,
        because the thread would wait for itself; other requests get `Closed`.
        """
        if self._generation != fork_guard.generation():
            return  # a forked child has neither thread nor socket
        atexit.unregister(self._close_at_exit)
        self._remove_file()
        self._signal_end()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(self._drain_s + _CUT_S)
        if self._thread.is_alive():
            event(_log, "socket_not_ended", level=logging.WARNING, path=self.path)

    def drop(self) -> None:
        """Closes the listening socket and the wake-up descriptor that a forked child inherited.

        Called only in that child. The HTTP API server closes its own inherited sockets.
        """
        self._listening.close()
        os.close(self._wake)

    def _close_at_exit(self) -> None:
        self._drain_s = 0.0
        self.close()

    def _remove_file(self) -> None:
        """Removes the socket file if it is still the file that this server created.

        The file is recognised by its identity (device and inode), which no other file can have
        while the socket is open.
        """
        with self._mutex:
            is_ours = not self._is_over and local_socket.identity_of(self.path) == self._file
            if is_ours:
                with contextlib.suppress(LakebedError):
                    self._store.disk.unlink(self.path)

    def _signal_end(self) -> None:
        with self._mutex:
            if not self._is_over:
                os.eventfd_write(self._wake, 1)

    # Runs in the thread.

    def _run(self) -> None:
        try:
            if self._is_wanted():
                self._serve()
        except Exception:  # noqa: BLE001 - must not end the program that embeds the store
            _log.exception("the socket %s failed and is no longer served", self.path)
            self._remove_file()
        finally:
            self._end()

    def _is_wanted(self) -> bool:
        """Waits until a client connects or the server is closed; returns whether to serve."""
        poll = select.poll()
        poll.register(self._listening, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll()]
        return self._wake not in ready

    def _serve(self) -> None:
        import asyncio

        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve_in_loop())

    async def _serve_in_loop(self) -> None:
        import asyncio

        from lakebed.http.connection_limit import ConnectionLimit
        from lakebed.http_api.guard import TrustingGuard
        from lakebed.http_api.server import HttpApi

        room = ConnectionLimit(local_connections_max())
        api = HttpApi(self._store, guard=TrustingGuard(), room=room)
        try:
            ends = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(self._wake, ends.set)
            await api.serve_socket(self._listening)
            await ends.wait()
            loop.remove_reader(self._wake)
            await api.drain(self._drain_s)
        finally:
            api.cut()

    def _end(self) -> None:
        with self._mutex:
            if not self._is_over:
                self._is_over = True
                fork_guard.release(self)
                self._listening.close()
                os.close(self._wake)
