"""The HTTP API of an open store: its server, its threads, and the addresses where it listens."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from lakebed.api.jobs import JOBS, JobKind
from lakebed.base.clock import NS_PER_S, Clock, SystemClock
from lakebed.http.connection_limit import ConnectionLimit
from lakebed.http.limits import Limits
from lakebed.http.responder import Handler
from lakebed.http.server import Done, Server
from lakebed.http.tls import TlsFiles
from lakebed.http_api.app import App
from lakebed.http_api.guard import Guard
from lakebed.http_api.limits import ApiLimits
from lakebed.http_api.origin_check import OriginCheck
from lakebed.http_api.service import Service
from lakebed.store.store import Store


class HttpApi:
    """The HTTP API of one store. Created while an event loop is running, and used in its thread."""

    def __init__(
        self,
        store: Store,
        *,
        guard: Guard,
        site: OriginCheck | None = None,
        jobs: Mapping[str, JobKind] = JOBS,
        limits: Limits | None = None,
        room: ConnectionLimit | None = None,
        api_limits: ApiLimits | None = None,
        clock: Clock | None = None,
        wrap: Callable[[Handler], Handler] = lambda handler: handler,
        on_done: Done | None = None,
    ) -> None:
        """`limits` are for connections, `api_limits` for calls; `clock` is used for timers.

        `wrap` may put another handler in front of the API's. `on_done` is called at the end of each
        request.
        """
        api_limits = api_limits or ApiLimits()
        self._executor = ThreadPoolExecutor(
            api_limits.threads_max, thread_name_prefix="lakebed-http-api"
        )
        self._clock = clock or SystemClock()
        self.service = Service(
            store, self._executor, jobs=jobs, limits=api_limits, clock=self._clock
        )
        app = App(self.service, guard=guard, site=site)
        self.server = Server(
            wrap(app),
            limits=limits,
            room=room,
            on_refusal=app.refusal,
            on_done=on_done,
            clock=self._clock,
        )

    async def listen(self, host: str, port: int, *, tls: TlsFiles | None = None) -> int:
        """Listens on a TCP port and returns its number. Port 0 selects a free port."""
        return await self.server.listen(host, port, tls=tls)

    async def serve_socket(self, listening: socket.socket) -> None:
        """Serves a socket that is already listening. `drain` and `cut` close the socket."""
        await self.server.serve_socket(listening)

    async def drain(self, timeout_s: float) -> bool:
        """Stops listening, waits for the current requests, and cancels all jobs. Returns whether
        all ended within `timeout_s`."""
        started_ns = self._clock.monotonic_ns()
        self.service.is_draining = True
        was_empty = await self.server.drain(timeout_s)
        spent_s = (self._clock.monotonic_ns() - started_ns) / NS_PER_S
        has_stopped = await self.service.jobs.close(max(0.0, timeout_s - spent_s))
        self._executor.shutdown(wait=was_empty, cancel_futures=True)
        return was_empty and has_stopped

    def cut(self) -> None:
        """Stops listening, closes all connections, and cancels all jobs, without waiting."""
        self.service.is_draining = True
        self.service.jobs.cut()
        self.server.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
