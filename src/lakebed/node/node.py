"""A node: one process that opens a store and serves it until it is stopped.

It starts in this order: settings, logs, store, listeners, the first access key if neither the store
nor the environment has one, the ready message. So a start that fails never creates a key without
showing it. It stops in reverse order. SIGTERM and SIGINT stop the node: it refuses new requests,
finishes running ones, and cuts off those that still run after a time limit. A second SIGTERM or
SIGINT cuts off all requests immediately. SIGHUP reloads the TLS certificate and the logging
settings; if they are not valid, that is logged, and the old ones are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import uvloop

from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.base.errors import BadConfig, InputError, LakebedError, RetryError
from lakebed.base.events import event
from lakebed.base.files import descriptors
from lakebed.base.settings import Settings
from lakebed.host.local_server import local_connections_max
from lakebed.host.store import Store
from lakebed.http.connection_limit import ConnectionLimit
from lakebed.http.responder import Handler
from lakebed.http.tls import BadCertificate, TlsFiles
from lakebed.http_api.guard import Guard
from lakebed.http_api.origin_check import OriginCheck
from lakebed.http_api.server import HttpApi
from lakebed.node.config import NodeConfig, changed_names, is_loopback, tls_of
from lakebed.node.http_endpoint import http_endpoint
from lakebed.node.logs import NodeLogs
from lakebed.node.metrics import NodeFacts
from lakebed.node.observer import Observer
from lakebed.node.pages import Pages
from lakebed.node.readiness import Readiness
from lakebed.node.s3_endpoint import S3Endpoint
from lakebed.s3.auth.first_credentials import first_credentials, given_credentials
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.key_ring import Credentials
from lakebed.version import VERSION

RELOADED: Final = frozenset({"log_format", "log_level", "access_log"})

_log = logging.getLogger(__name__)


class PortTaken(RetryError):
    """The node cannot listen because another program uses the port."""


class Ready(NamedTuple):
    """The contents of the ready message."""

    s3_url: str
    http_url: str | None
    region: str
    credentials: Credentials | None  # only if they are new, because they are shown only once


def serve(
    root: Path,
    *,
    settings: Settings,
    read_again: Callable[[], Settings],
    environment: Mapping[str, str],
    on_ready: Callable[[Ready], None],
) -> bool:
    """Runs a node until a signal stops it. Returns False if requests or jobs had to be cut off.

    `read_again` must return the current settings, or raise `BadConfig`.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # there is nothing to reload yet
    descriptors.raise_soft_limit()
    objects = settings.config(SeglakeConfig)
    given, tls = given_credentials(environment), tls_of(settings)
    with _logs(settings) as logs, Store.open(root, object_config=objects) as store:
        _warn_of_few_descriptors()
        if given is not None:
            logs.hide(given.secret)
        _check_credentials(store, given, settings.config(NodeConfig))
        node = _Node(store, settings, logs=logs, read_again=read_again, first=given, tls=tls)

        def announce(s3_url: str, http_url: str | None) -> None:
            first = first_credentials(environment, store.lake.keys)
            new_credentials = first.credentials if first.is_new else None
            if new_credentials is not None:
                logs.hide(new_credentials.secret)
            on_ready(Ready(s3_url, http_url, objects.region, new_credentials))

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            is_clean = runner.run(node.run(announce))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return is_clean


class _Node:
    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        logs: NodeLogs,
        read_again: Callable[[], Settings],
        first: Credentials | None,
        tls: TlsFiles | None,
    ) -> None:
        """`first` are the credentials from the environment, valid in addition to the store's
        keys.
        """
        self._store = store
        self._settings = settings
        self._config = settings.config(NodeConfig)
        self._logs = logs
        self._read_again = read_again
        self._tls = tls
        self._first = first
        self._s3: S3Endpoint | None = None
        self._http_api: HttpApi | None = None
        self._room = ConnectionLimit(_connections_max(self._config.limits().connections_max))
        self._site = OriginCheck(self._config.http_names, listens_on=self._config.http_host)
        self._observers = {name: Observer(name) for name in ("s3", "http")}
        self._stops = asyncio.Event()
        self._cuts = asyncio.Event()

    async def run(self, announce: Callable[[str, str | None], None]) -> bool:
        # Signals are handled before `announce`, so that a new key is shown even while stopping.
        with self._signals():
            try:
                s3_url, http_url = await self._listen()
                self._log_serving(s3_url, http_url)
                announce(s3_url, http_url)
            except BaseException:
                self._cut()
                raise
            await self._stops.wait()
            event(_log, "draining", limit_s=self._config.drain_s)
            draining = asyncio.ensure_future(self._drain())
            cutting = asyncio.ensure_future(self._cuts.wait())
            await asyncio.wait([draining, cutting], return_when=asyncio.FIRST_COMPLETED)
            is_cut = not draining.done()
            if is_cut:
                self._cut()
            cutting.cancel()
            is_clean = await draining and not is_cut
            event(_log, "drained", is_clean=is_clean)
            return is_clean

    def _log_serving(self, s3_url: str, http_url: str | None) -> None:
        event(_log, "serving", version=VERSION, root=self._store.root, s3=s3_url, http=http_url)

    # The listeners.

    async def _listen(self) -> tuple[str, str | None]:
        config = self._config
        self._s3 = S3Endpoint(
            self._store.lake,
            clock=self._store.runner.clock,
            config=self._settings.config(SeglakeConfig),
            first=self._first,
            limits=config.limits(),
            room=self._room,
            observer=self._observers["s3"],
        )
        s3_url = await self._listen_on(self._s3, config.s3_host, config.s3_port)
        if not config.http:
            return s3_url, None
        self._http_api = http_endpoint(
            self._store,
            first=self._first,
            limits=config.limits(),
            room=self._room,
            site=self._site,
            wrap=self._before_calls,
            on_done=self._observers["http"].done,
        )
        return s3_url, await self._listen_on(self._http_api, config.http_host, config.http_port)

    def _before_calls(self, calls: Handler, guard: Guard) -> Handler:
        pages = Pages(
            self._store,
            guard=guard,
            site=self._site,
            readiness=Readiness(self._store, is_draining=self._stops.is_set),
            facts=self._facts,
            is_public=self._config.metrics_public,
        )
        return self._observers["http"].wrapped(pages.wrapped(calls))

    async def _listen_on(self, endpoint: S3Endpoint | HttpApi, host: str, port: int) -> str:
        """Makes the endpoint listen, and returns its URL."""
        try:
            port = await endpoint.listen(host, port, tls=self._tls)
        except OSError as error:
            raise _cannot_listen(error, host, port) from error
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def _endpoints(self) -> dict[str, S3Endpoint | HttpApi]:
        endpoints = {"s3": self._s3, "http": self._http_api}
        return {name: value for name, value in endpoints.items() if value is not None}

    def _facts(self) -> NodeFacts:
        endpoints = self._endpoints()
        return NodeFacts(
            requests=[self._observers[name].snapshot() for name in endpoints],
            connections={
                name: endpoint.server.connection_count for name, endpoint in endpoints.items()
            },
            replays_detected=0 if self._s3 is None else self._s3.replays_detected,
        )

    # Stopping.

    async def _drain(self) -> bool:
        limit_s = self._config.drain_s
        return all(await asyncio.gather(*(e.drain(limit_s) for e in self._endpoints().values())))

    def _cut(self) -> None:
        for endpoint in self._endpoints().values():
            endpoint.cut()

    # Signals.

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
        if self._tls is not None:
            _reload_certificate(self._tls)
        try:
            config = self._read_again().config(NodeConfig)
        except LakebedError as error:
            event(_log, "settings_kept", level=logging.ERROR, why=error)
            return
        changed = changed_names(self._config, config)
        later = [name for name in changed if name not in RELOADED]
        if later:
            event(_log, "settings_need_a_restart", level=logging.WARNING, names=",".join(later))
        self._logs.configure(
            log_format=config.log_format,
            log_level=config.log_level,
            access_log=config.access_log,
        )
        event(_log, "settings_reloaded", log_level=config.log_level, log_format=config.log_format)


def _reload_certificate(tls: TlsFiles) -> None:
    try:
        tls.reload()
    except BadCertificate as error:
        event(_log, "certificate_kept", level=logging.ERROR, why=error)
    else:
        event(_log, "certificate_reloaded")


@contextlib.contextmanager
def _logs(settings: Settings) -> Iterator[NodeLogs]:
    config = settings.config(NodeConfig)
    logs = NodeLogs(sys.stderr, secrets=[settings.config(SharedTierConfig).secret_access_key])
    logs.configure(
        log_format=config.log_format, log_level=config.log_level, access_log=config.access_log
    )
    try:
        yield logs
    finally:
        logs.close()


def _connections_max(limit: int) -> int:
    """Returns how many connections both ports together may have: `limit`, or fewer if the file
    descriptors would not suffice for these and the connections to the local socket.
    """
    share = descriptors.connection_share()
    return max(1, min(limit, share - local_connections_max()))


def _warn_of_few_descriptors() -> None:
    limit = descriptors.soft_limit()
    if limit < descriptors.LOW_LIMIT:
        event(
            _log,
            "few_descriptors",
            level=logging.WARNING,
            limit=limit,
            advice=f"allow {descriptors.LOW_LIMIT}: ulimit -n, or LimitNOFILE= of a service",
            files_kept_open=descriptors.file_share(),
            connections_max=_connections_max(descriptors.connection_share()),
        )


def _check_credentials(store: Store, given: Credentials | None, config: NodeConfig) -> None:
    """Raises `BadConfig` if other machines can reach a port while all access keys are disabled, and
    the environment has no credentials (`given`)."""
    hosts = [config.s3_host, *([config.http_host] if config.http else [])]
    elsewhere = [host for host in hosts if not is_loopback(host)]
    keys = store.lake.keys.list()
    if not elsewhere or given is not None or not keys:  # the first key will be created
        return
    if not any(key.is_enabled for key in keys):
        raise BadConfig(
            f"the node would listen on {elsewhere[0]}, which other machines can reach, but all "
            "access keys are disabled: enable one, or create one with `lakebed s3 keys create`"
        )


def _cannot_listen(error: OSError, host: str, port: int) -> LakebedError:
    place = f"cannot listen on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return PortTaken(f"{place}: another program listens there; stop it, or use another port")
    is_system = error.errno is not None and error.errno > 0
    why = os.strerror(error.errno or 0) if is_system else error.strerror or str(error)
    return InputError(f"{place}: {why}")
