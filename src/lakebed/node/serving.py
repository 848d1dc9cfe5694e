"""A node: one process that has a store open and serves it, until it is told to stop.

It starts in this order: the store, the credentials, the listeners, and says so; it stops in the
other one. SIGTERM and SIGINT stop it: no new requests, those under way are finished, what is left
after the limit is cut. A second one does not wait. SIGHUP reads the certificates again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import uvloop

from lakebed.base.errors import InputError
from lakebed.base.events import event
from lakebed.door.doorman import Door
from lakebed.http.tls import BadCertificate, TlsFiles
from lakebed.node.door_endpoint import check_exposure, door_endpoint
from lakebed.node.s3_endpoint import S3Endpoint
from lakebed.s3.auth.first_credentials import first_credentials
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.key_ring import Credentials
from lakebed.store.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    root: Path
    s3_host: str = "127.0.0.1"
    s3_port: int = 9000
    http_host: str = "127.0.0.1"
    http_port: int | None = 9001  # None: there is no HTTP API but that of the local socket
    http_insecure: bool = False  # it may be reached from other machines without TLS
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    drain_s: float = 30.0


class Ready(NamedTuple):
    """What whoever started the node wants to know."""

    s3_url: str
    http_url: str | None
    region: str
    credentials: Credentials | None  # if they were made just now: told once, and never again


def serve(
    options: ServeOptions,
    *,
    config: SeglakeConfig,
    environment: Mapping[str, str],
    on_ready: Callable[[Ready], None],
) -> bool:
    """Run until a signal; whether all requests ended by themselves."""
    tls = _tls_of(options)
    if options.http_port is not None:
        check_exposure(
            options.http_host, is_secure=tls is not None, is_allowed=options.http_insecure
        )
    with Store.open(options.root, object_config=config) as store:
        first = first_credentials(environment, store.lake.keys)
        node = _Node(store, options, config=config, tls=tls, first=first.credentials)
        told = first.credentials if first.is_new else None

        def tell(s3_url: str, http_url: str | None) -> None:
            on_ready(Ready(s3_url, http_url, config.region, told))

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(node.run(tell))


class _Node:
    def __init__(
        self,
        store: Store,
        options: ServeOptions,
        *,
        config: SeglakeConfig,
        tls: TlsFiles | None,
        first: Credentials | None,
    ) -> None:
        self._store = store
        self._options = options
        self._config = config
        self._tls = tls
        self._first = first
        self._endpoints: list[S3Endpoint | Door] = []
        self._stops = asyncio.Event()
        self._cuts = asyncio.Event()

    async def run(self, tell: Callable[[str, str | None], None]) -> bool:
        try:
            s3_url, http_url = await self._listen()
        except BaseException:
            self._cut()
            raise
        with self._signals():
            tell(s3_url, http_url)
            await self._stops.wait()
            event(_log, "draining", limit_s=self._options.drain_s)
            draining = asyncio.ensure_future(self._drain())
            cutting = asyncio.ensure_future(self._cuts.wait())
            await asyncio.wait([draining, cutting], return_when=asyncio.FIRST_COMPLETED)
            if not draining.done():
                self._cut()
            cutting.cancel()
            return await draining

    async def _listen(self) -> tuple[str, str | None]:
        options = self._options
        s3 = S3Endpoint(
            self._store.lake,
            clock=self._store.runner.clock,
            config=self._config,
            first=self._first,
        )
        self._endpoints.append(s3)
        s3_url = await self._listen_on(s3, options.s3_host, options.s3_port)
        if options.http_port is None:
            return s3_url, None
        door = door_endpoint(self._store, first=self._first)
        self._endpoints.append(door)
        return s3_url, await self._listen_on(door, options.http_host, options.http_port)

    async def _listen_on(self, endpoint: S3Endpoint | Door, host: str, port: int) -> str:
        """The URL of it."""
        try:
            port = await endpoint.listen(host, port, tls=self._tls)
        except OSError as error:
            raise _cannot_listen(error, host, port) from error
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def _drain(self) -> bool:
        limit_s = self._options.drain_s
        return all(await asyncio.gather(*(one.drain(limit_s) for one in self._endpoints)))

    def _cut(self) -> None:
        for one in self._endpoints:
            one.cut()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self._stops.is_set():
            self._cuts.set()
        self._stops.set()

    def _reload(self) -> None:
        if self._tls is None:
            return
        try:
            self._tls.reload()
        except BadCertificate as error:
            event(_log, "certificate_kept", level=logging.ERROR, why=error)
        else:
            event(_log, "certificate_reloaded")


def _tls_of(options: ServeOptions) -> TlsFiles | None:
    certificate, key = options.tls_certificate, options.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InputError("a certificate and its key belong together: give both, or neither")
    return TlsFiles(certificate, key)


def _cannot_listen(error: OSError, host: str, port: int) -> InputError:
    is_taken = error.errno == errno.EADDRINUSE
    why = "somebody listens there already" if is_taken else os.strerror(error.errno or 0)
    return InputError(f"cannot listen on {host}:{port}: {why}")
