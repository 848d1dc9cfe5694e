"""The S3 endpoint of a node: serves the objects of a store to clients with an access key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lakebed.base.clock import Clock
from lakebed.http.connection_limit import ConnectionLimit
from lakebed.http.limits import Limits
from lakebed.http.server import Server
from lakebed.http.tls import TlsFiles
from lakebed.node.observer import Observer
from lakebed.s3.app import App
from lakebed.s3.service import Service
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.key_ring import Credentials, KeyRing
from lakebed.seglake.lake import Lake

THREADS_MAX = 16  # for disk reads and hashing; more would only wait for each other


class S3Endpoint:
    """An S3 server in the running event loop. Must be used in the thread of that loop."""

    def __init__(
        self,
        lake: Lake,
        *,
        clock: Clock,
        config: EndpointConfig,
        first: Credentials | None,
        limits: Limits | None = None,
        room: ConnectionLimit | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="lakebed-s3")
        service = Service(lake=lake, config=config, clock=clock, executor=self._executor)
        self._app = app = App(service, KeyRing(first, lake.keys))
        self.server = Server(
            app if observer is None else observer.wrapped(app),
            limits=limits,
            room=room,
            on_refusal=app.refusal,
            on_done=None if observer is None else observer.done,
        )

    @property
    def replays_detected(self) -> int:
        return self._app.replays_detected

    async def listen(self, host: str, port: int, *, tls: TlsFiles | None = None) -> int:
        """Starts to listen, and returns the port. If `port` is 0, a free port is chosen."""
        return await self.server.listen(host, port, tls=tls)

    async def drain(self, timeout_s: float) -> bool:
        """Refuses new requests and waits for running ones. Returns whether all ended in time."""
        was_empty = await self.server.drain(timeout_s)
        self._executor.shutdown(wait=was_empty, cancel_futures=True)
        return was_empty

    def cut(self) -> None:
        """Closes the server and all connections immediately."""
        self.server.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
