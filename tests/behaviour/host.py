"""A program that has stores open, as many as it is told to, each on its socket and on TLS.

    with Host(folder) as host:
        place = host.open(folder / "store")
        lakebed.connect(place.root)
        lakebed.connect(place.url, access_key=KEY.access_key, ..., ca_file=host.ca_file)

Tests that want a new store each need no new process each. It is told what to do on its standard
input and answers on its standard output, a JSON document a line; it ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import uvloop

from lakebed.host.store import Store
from lakebed.http.tls import TlsFiles
from lakebed.http_api.server import HttpApi
from lakebed.node.http_endpoint import http_endpoint
from lakebed.seglake.key_ring import Credentials
from tests.http.certificates import write_pair
from tests.tidy.repository import ROOT

KEY = Credentials("behaviour", "a secret of the tests")
GIVE_UP_S = 60


class Place(NamedTuple):
    """Where an open store is."""

    root: Path
    url: str


class Host:
    """The other process, as the tests see it."""

    def __init__(self, folder: Path) -> None:
        write_pair(folder, "localhost")
        self.ca_file = folder / "cert.pem"
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def open(self, root: Path) -> Place:
        told = self._ask({"open": str(root)})
        return Place(root, f"https://localhost:{told['port']}")

    def close(self, root: Path) -> None:
        self._ask({"close": str(root)})

    def _ask(self, what: dict[str, str]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"the host ended with {self._process.wait(GIVE_UP_S)}"
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(GIVE_UP_S) == 0


class _Opened(NamedTuple):
    store: Store
    live_api: HttpApi


class _Hosting:
    """In the other process: the stores, and a thread whose loop serves their ports."""

    def __init__(self, folder: Path) -> None:
        self._tls = TlsFiles(folder / "cert.pem", folder / "key.pem")
        self._stores: dict[str, _Opened] = {}
        self._loop = uvloop.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, lines: IO[str]) -> None:
        for line in lines:
            asked = json.loads(line)
            told = self._open(asked["open"]) if "open" in asked else self._close(asked["close"])
            print(json.dumps(told), flush=True)
        for root in list(self._stores):
            self._close(root)

    def _open(self, root: str) -> dict[str, int]:
        store = Store.open(root)
        live_api, port = self._in_loop(self._listen(store))
        self._stores[root] = _Opened(store, live_api)
        return {"port": port}

    def _close(self, root: str) -> dict[str, int]:
        store, live_api = self._stores.pop(root)
        self._in_loop(live_api.drain(GIVE_UP_S))
        store.close()
        return {}

    async def _listen(self, store: Store) -> tuple[HttpApi, int]:
        live_api = http_endpoint(store, first=KEY)
        return live_api, await live_api.listen("127.0.0.1", 0, tls=self._tls)

    def _in_loop(self, work: Any) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(GIVE_UP_S)


if __name__ == "__main__":
    _Hosting(Path(sys.argv[1])).run(sys.stdin)
