"""The socket beside an open store, `<root>/lakebed.sock`: others write through it.

Who never uses it pays for a bound socket and a thread that waits. The first client makes that
thread import the api and its event loop, and serve.

Invariants:
- it is opened when all else of the store is, and closed before any of it: requests under way are
  finished, up to a limit, then cut; what is cut and still runs meets `Closed`;
- the file's rights are its guard: the owner alone may connect;
- the file is removed by who made it, and only if it is still that file. After a kill it is left
  behind, nobody listens on it, and the next writer replaces it: the root's lock says that there is
  no other;
- a forked child neither listens nor removes the file, and keeps no client's connection;
- a store whose socket cannot be made is open all the same, and a warning says so.

A program that ends without closing the store ends as it would have: the socket is closed at once.
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
_CUT_S: Final = 5.0  # for what is left to do after that

_log = logging.getLogger(__name__)


def local_connections_max() -> int:
    """A part of what the process's file descriptors allow."""
    return max(4, min(_CONNECTIONS_MAX, descriptors.connection_share() // 2))


def open_local_server(store: Store) -> LocalServer | None:
    """None if there can be no socket; why is logged."""
    path = os.path.abspath(os.path.join(store.root, SOCKET_NAME))
    try:
        return LocalServer(store, path)
    except (LakebedError, OSError, RuntimeError) as error:  # no thread, no descriptor
        event(_log, "socket_not_made", level=logging.WARNING, path=path, why=error)
        return None


class LocalServer:
    """Listens until it is closed. Thread-safe."""

    def __init__(self, store: Store, path: str, *, drain_s: float = DRAIN_S) -> None:
        self.path = path
        self._store = store
        self._drain_s = drain_s
        self._generation = fork_guard.generation()
        self._mutex = store.runner.mutex()
        self._is_over = False  # guarded by _mutex; then there is no `_wake` any more
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
        """Take no more requests, finish those under way, then cut what is left. Idempotent.

        Not waited for in the api's own thread, which could not end then: a request that closes
        the store leaves the others to meet `Closed`. In a thread that a request waits for it takes
        as long as requests are given.
        """
        if self._generation != fork_guard.generation():
            return  # a child's: there is neither thread nor socket
        atexit.unregister(self._close_at_exit)
        self._remove_file()
        self._log_end()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(self._drain_s + _CUT_S)
        if self._thread.is_alive():
            event(_log, "socket_not_ended", level=logging.WARNING, path=self.path)

    def drop(self) -> None:
        """In a forked child. What the api itself holds is dropped by its server."""
        self._listening.close()
        os.close(self._wake)

    def _close_at_exit(self) -> None:
        self._drain_s = 0.0
        self.close()

    def _remove_file(self) -> None:
        """While the socket is open no other file can have the same identity."""
        with self._mutex:
            is_ours = not self._is_over and local_socket.identity_of(self.path) == self._file
            if is_ours:
                with contextlib.suppress(LakebedError):
                    self._store.disk.unlink(self.path)

    def _log_end(self) -> None:
        with self._mutex:
            if not self._is_over:
                os.eventfd_write(self._wake, 1)

    # In the thread.

    def _run(self) -> None:
        try:
            if self._is_wanted():
                self._serve()
        except Exception:  # noqa: BLE001 - the program that embeds the store goes on
            _log.exception("the socket %s is not served any more", self.path)
            self._remove_file()
        finally:
            self._end()

    def _is_wanted(self) -> bool:
        """Wait for the first client, or the end."""
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
