"""Opens a store and serves its buckets over S3 on loopback, from within the same process.

    with own_s3("data") as own:
        own.ensure_bucket("lake")
        rows.write.format("lakebed.table").option("path", "data").option("table", "lake/events")

The server runs until the end of the `with` block, in its own thread and event loop. At the end, it
waits up to ten seconds for running requests before it stops.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvloop

from lakebed.base.files import PathLike
from lakebed.base.runner import ThreadRunner
from lakebed.node.config import LOOPBACK
from lakebed.node.s3_endpoint import S3Endpoint
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.key_ring import Credentials
from lakebed.spark.own_s3 import OwnS3, Served
from lakebed.store.settings import settings_of
from lakebed.store.store import Store

DRAIN_S: Final = 10.0


def own_s3(root: PathLike) -> OwnS3:
    """Returns a context manager that opens and serves the store. Entering it raises `Locked` if
    the store is already open for writing.
    """
    return OwnS3(root, serve=loopback_s3)


@contextmanager
def loopback_s3(store: Store, credentials: Credentials) -> Iterator[Served]:
    """Serves the buckets of an open store on loopback during a `with` block. Clients need these
    credentials or an access key of the store.
    """
    config = settings_of(Path(store.root), environment=os.environ).config(SeglakeConfig)
    server = _Server(store, credentials, config)
    with ThreadRunner() as runner:
        task = runner.spawn("lakebed-own-s3", server.run)
        try:
            yield Served(url=server.listening.result(), region=config.region)
        finally:
            server.end()
            task.stop()


class _Server:
    """The S3 server. It runs in one thread; other threads may only call `end`, and wait for
    `listening`, which gets the URL.
    """

    def __init__(self, store: Store, credentials: Credentials, config: SeglakeConfig) -> None:
        self.listening: Future[str] = Future()
        self._store = store
        self._credentials = credentials
        self._config = config
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends = asyncio.Event()

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self.listening.done():
                raise
            self.listening.set_exception(error)

    def end(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ends.set)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        endpoint = S3Endpoint(
            self._store.lake,
            clock=self._store.runner.clock,
            config=self._config,
            first=self._credentials,
        )
        try:
            port = await endpoint.listen(LOOPBACK, 0)
            self.listening.set_result(f"http://{LOOPBACK}:{port}")
            await self._ends.wait()
            await endpoint.drain(DRAIN_S)
        finally:
            endpoint.cut()
