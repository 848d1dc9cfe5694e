"""The HTTP API of a scratch store in this process. Its loop has a thread; tests call over a socket.

with open_api(tmp_path) as HTTP API:
    live_api.call(topics.CREATE_TOPIC, body=topics.NewTopic("orders"))
    live_api.call(topics.FETCH, {"topic": "orders", "partition": 0}, {"offset": 3})
    live_api.ask("GET", "/v1/health").status
"""

from __future__ import annotations

import asyncio
import http.client
import select
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import uvloop

from lakebed.api import media
from lakebed.api.operation import Nothing, Operation
from lakebed.api.problems import error_of
from lakebed.base.errors import LakebedError
from lakebed.http.limits import Limits
from lakebed.http_api.guard import Guard, TrustingGuard
from lakebed.http_api.server import HttpApi
from lakebed.store.store import Store

GIVE_UP_S = 60
HOST = "127.0.0.1"

Result = TypeVar("Result")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def problem(self) -> LakebedError:
        assert self.headers["content-type"] == media.PROBLEM
        return error_of(self.json)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=GIVE_UP_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(GIVE_UP_S)
        self.sock.connect(self._path)


class LiveApi:
    """What tests call. `api` and `loop` belong to the other thread: see `in_loop`."""

    def __init__(self, store: Store, socket_path: str) -> None:
        self.store = store
        self.socket_path = socket_path
        self.loop: asyncio.AbstractEventLoop
        self.api: HttpApi
        self.stops: asyncio.Event
        self.port: int  # on localhost
        self._connection: http.client.HTTPConnection | None = None

    def calls(self) -> Counter[str]:
        """How often each operation succeeded, by name."""
        found = self.api.service.counters.snapshot().counters
        return Counter({name.removesuffix(".2xx"): count for name, count in found.items()})

    def call(
        self,
        operation: Operation[Result],
        names: Mapping[str, object] | None = None,
        query: Mapping[str, object] | None = None,
        body: object = None,
        *,
        accept: str = media.MSGPACK,
        headers: Mapping[str, str] | None = None,
    ) -> Result:
        """As a client would: what came of it, or the error that was told.

        A body that is a struct is sent in the kind that is accepted; bytes are sent as they are.
        """
        sent = {"Accept": accept, **(headers or {})}
        data = b""
        if isinstance(body, bytes):
            data = body
            sent.setdefault("Content-Type", media.BYTES)
        elif body is not None:
            data = media.encode(body, accept)
            sent.setdefault("Content-Type", accept)
        answer = self.ask(operation.method, target_of(operation, names, query), data, sent)
        if answer.status >= 400:
            raise answer.problem
        assert answer.status == operation.status, answer
        found: Any = answer.body
        if operation.result is Nothing:
            assert not answer.body
            found = Nothing()
        elif operation.result is not bytes and accept in (media.JSON, media.MSGPACK):
            assert answer.headers["content-type"] == accept
            found = media.decode(answer.body, operation.result, accept)
        return found  # type: ignore[no-any-return]

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """On one connection that is kept, and opened again if the API ended it. An iterable body
        is sent chunked."""
        if self._connection is None or _has_ended(self._connection):
            self.hang_up()
            self._connection = self.connect()
        connection = self._connection
        is_chunked = not isinstance(body, bytes)
        sent = dict(headers or {})
        connection.request(method, target, body or None, sent, encode_chunked=is_chunked)
        answer = answer_of(connection.getresponse())
        if answer.headers.get("connection") == "close":
            self.hang_up()
        return answer

    def connect(self) -> http.client.HTTPConnection:
        """Another client."""
        return UnixConnection(self.socket_path)

    def send(self, data: bytes) -> bytes:
        """All that comes back to a client that sends this, says that it is all, and waits."""
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(GIVE_UP_S)
            plain.connect(self.socket_path)
            plain.sendall(data)
            plain.shutdown(socket.SHUT_WR)
            found = bytearray()
            while piece := plain.recv(65536):
                found += piece
            return bytes(found)

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def in_loop(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Something of the HTTP API, in its thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(GIVE_UP_S)


def target_of(
    operation: Operation[Any],
    names: Mapping[str, object] | None = None,
    query: Mapping[str, object] | None = None,
) -> str:
    path = operation.path
    for name, value in (names or {}).items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        path = path.replace(f"{{{name}*}}", quote(str(value), safe="/"))
    said = {name: _text(value) for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(said)}" if said else path


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """By the other side, while nothing was asked."""
    if connection.sock is None:
        return False
    poll = select.poll()  # not `select`, which takes no descriptor above 1,023
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def answer_of(response: http.client.HTTPResponse) -> Answer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, response.read())


@contextmanager
def _short_folder() -> Iterator[str]:
    """The path of a socket has a hundred characters at most."""
    with tempfile.TemporaryDirectory(prefix="lakebed-") as folder:
        yield folder


@contextmanager
def open_api(
    root: Path,
    *,
    make_guard: Callable[[Store], Guard] = lambda _: TrustingGuard(),
    limits: Limits | None = None,
    api_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Iterator[LiveApi]:
    """`settings` are the store's, `api_options` the API's. It listens on both kinds of socket."""
    with (
        Store.open(root / "store", **{"serves": False, **settings}) as store,
        _short_folder() as folder,
    ):
        live = LiveApi(store, f"{folder}/api.sock")
        is_open = threading.Event()
        failures: list[BaseException] = []

        async def run() -> None:
            live.loop = asyncio.get_running_loop()
            live.stops = asyncio.Event()
            live.api = HttpApi(store, guard=make_guard(store), limits=limits, **(api_options or {}))
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(live.socket_path)
            listening.listen(1024)
            await live.api.serve_socket(listening)
            live.port = await live.api.listen(HOST, 0)
            is_open.set()
            await live.stops.wait()
            await live.api.drain(5)

        def serve() -> None:
            try:
                uvloop.run(run())
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                failures.append(error)
            finally:
                is_open.set()

        thread = threading.Thread(target=serve, name="live api")
        thread.start()
        is_open.wait(GIVE_UP_S)
        try:
            if failures:
                raise failures[0]
            yield live
        finally:
            live.hang_up()
            if not failures:
                live.loop.call_soon_threadsafe(live.stops.set)
            thread.join(GIVE_UP_S)
        assert not thread.is_alive(), "the HTTP API does not end"
        if failures:
            raise failures[0]
