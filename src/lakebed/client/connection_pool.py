"""The connections of a client. Idle connections are kept for the next call, up to a limit.

Invariants:

- A connection is used by one call at a time.
- A connection that the server has closed, or that has been idle for too long, is not used again.
- A forked child has a pool of its own, and never touches the sockets of its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.files import fork_guard
from lakebed.base.runner import Runner
from lakebed.client.connection import Connection

IDLE_COUNT_MAX = 32
IDLE_S_MAX = 30.0  # our servers keep idle connections longer


class Interruption:
    """Aborts a call that is in progress, from another thread. The call then raises `Closed`."""

    def __init__(self) -> None:
        self.is_set = False
        self._connection: Connection | None = None

    def set(self) -> None:
        self.is_set = True
        connection = self._connection
        if connection is not None:
            connection.cut()

    def leave(self) -> None:
        """Like `set`, but the call still returns a response that the server has already sent.

        Signals to the server that the caller no longer waits.
        """
        self.is_set = True
        connection = self._connection
        if connection is not None:
            connection.stop_sending()

    @contextmanager
    def of(self, connection: Connection) -> Iterator[None]:
        self._connection = connection
        try:
            self.check()  # after the line above, so that a concurrent `set` cuts the connection
            yield
        finally:
            self._connection = None
            if self.is_set:  # after the line above, so that no other call gets a cut connection
                connection.is_reusable = False

    def check(self) -> None:
        if self.is_set:
            raise Closed("the call was aborted: its follower was closed, or its task was cancelled")


class _ProcessPool:
    """The connections of one process."""

    def __init__(self, runner: Runner) -> None:
        self.generation = fork_guard.generation()
        self.mutex = runner.mutex()  # guards idle and busy
        self.idle: list[Connection] = []  # the most recently used at the end
        self.busy: set[Connection] = set()


class ConnectionPool:
    """The pool of connections of one client. Thread-safe."""

    def __init__(self, make: Callable[[], Connection], *, runner: Runner) -> None:
        self._make = make
        self._runner = runner
        self._is_closed = False
        self._pool = _ProcessPool(runner)

    @contextmanager
    def taken(self) -> Iterator[Connection]:
        """Yields a connection for one call. Afterwards, keeps the connection for the next call if
        it is usable and there is room in the pool, and otherwise closes it."""
        pool = self._in_this_process()
        connection = self._take(pool)
        try:
            yield connection
        finally:
            self._give_back(pool, connection)

    def check(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")

    def close(self) -> None:
        """Closes all connections; calls in progress end with an error. Idempotent."""
        self._is_closed = True
        pool = self._in_this_process()
        with pool.mutex:
            idle, pool.idle = pool.idle, []
            busy = list(pool.busy)
        for connection in idle:
            connection.close()
        for connection in busy:
            connection.cut()

    @property
    def idle_count(self) -> int:
        return len(self._in_this_process().idle)

    def _in_this_process(self) -> _ProcessPool:
        """Returns the pool of this process.

        A forked child gets a new pool. It does not touch the parent's, whose lock may have been
        held during the fork.
        """
        pool = self._pool
        if pool.generation != fork_guard.generation():
            pool = self._pool = _ProcessPool(self._runner)
        return pool

    def _take(self, pool: _ProcessPool) -> Connection:
        self.check()
        while True:
            with pool.mutex:
                connection = pool.idle.pop() if pool.idle else None
                if connection is None:
                    break
                pool.busy.add(connection)
            age_ns = self._runner.clock.monotonic_ns() - connection.idle_since_ns
            if age_ns <= IDLE_S_MAX * NS_PER_S and connection.is_alive():
                return connection
            self._drop(pool, connection)
        connection = self._make()
        with pool.mutex:
            pool.busy.add(connection)
        if self._is_closed:
            self._drop(pool, connection)
            self.check()
        return connection

    def _give_back(self, pool: _ProcessPool, connection: Connection) -> None:
        connection.idle_since_ns = self._runner.clock.monotonic_ns()
        with pool.mutex:
            is_kept = (
                connection.is_reusable and not self._is_closed and len(pool.idle) < IDLE_COUNT_MAX
            )
            if is_kept:
                pool.busy.discard(connection)
                pool.idle.append(connection)
        if not is_kept:
            self._drop(pool, connection)

    def _drop(self, pool: _ProcessPool, connection: Connection) -> None:
        with pool.mutex:
            pool.busy.discard(connection)
        connection.close()
