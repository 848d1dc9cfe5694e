# Made by `python -m tools.asynced` of `src/lakebed/client/connection_pool.py`: edit that.
"""The connections of a client: those that are idle are kept for the next call, up to a number.

Invariants: a connection is used by one call at a time; one that the server has closed, or that
was idle for longer than servers keep one, is not used again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from lakebed.aio.client.connection import Connection
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.files import fork_guard
from lakebed.base.runner import Runner

IDLE_COUNT_MAX = 32
IDLE_S_MAX = 30.0  # a server of ours keeps them for longer


class Interruption:
    """Ends a call that is under way: then that fails with `Closed`."""

    def __init__(self) -> None:
        self.is_set = False
        self._connection: Connection | None = None

    def set(self) -> None:
        self.is_set = True
        connection = self._connection
        if connection is not None:
            connection.cut()

    def leave(self) -> None:
        """As `set`, but an answer that is on its way is still read: only the server is told that
        nobody waits any more."""
        self.is_set = True
        connection = self._connection
        if connection is not None:
            connection.stop_sending()

    @asynccontextmanager
    async def of(self, connection: Connection) -> AsyncIterator[None]:
        self._connection = connection
        try:
            self.check()  # behind the line above: who sets it now finds the connection
            yield
        finally:
            self._connection = None
            if self.is_set:  # behind the line above: no other call gets a connection that is cut
                connection.is_reusable = False

    def check(self) -> None:
        if self.is_set:
            raise Closed("closed while it was waiting")


class _ProcessPool:
    """Of one process."""

    def __init__(self, runner: Runner) -> None:
        self.generation = fork_guard.generation()
        self.mutex = runner.mutex()  # guards both
        self.idle: list[Connection] = []  # the one used last at the end
        self.busy: set[Connection] = set()


class ConnectionPool:
    """For one event loop."""

    def __init__(self, make: Callable[[], Awaitable[Connection]], *, runner: Runner) -> None:
        self._make = make
        self._runner = runner
        self._is_closed = False
        self._pool = _ProcessPool(runner)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Connection]:
        """One for a call; kept if the call leaves it usable."""
        pool = self._in_this_process()
        connection = await self._take(pool)
        try:
            yield connection
        finally:
            self._give_back(pool, connection)

    def check(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")

    def close(self) -> None:
        """Also ends what is under way. Idempotent."""
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
        """This process's. The parent's is left as it is: its lock may be held by nobody here."""
        pool = self._pool
        if pool.generation != fork_guard.generation():
            pool = self._pool = _ProcessPool(self._runner)
        return pool

    async def _take(self, pool: _ProcessPool) -> Connection:
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
        connection = await self._make()
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
