"""Clients that talk to the store over the wire, without a socket and without an event loop.

A call is encoded by `lakebed.client` as it would be sent, read by the HTTP server's own parser,
carried out by the HTTP API's handlers and its binder, and answered in bytes. In between answers get
lost: the call was carried out, and the client does not know; what may be repeated, it repeats.

Handlers are coroutines that wait for nothing here: what they hand to a thread, or to the store's
commit queue, is done at once, in the simulated thread of the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, TypeVar

from lakebed.base.commit import Ticket
from lakebed.base.errors import Closed
from lakebed.base.runner import Runner
from lakebed.client.address import Address
from lakebed.client.caller import Caller
from lakebed.client.connection import Body, Connection, Pieces
from lakebed.client.errors import Failure
from lakebed.client.message_appender import MessageAppender
from lakebed.client.pins import RemotePins
from lakebed.client.producer_pool import ProducerPool
from lakebed.client.response import Head as AnswerHead
from lakebed.client.store import RemoteStore
from lakebed.client.topics import RemoteTopics
from lakebed.http.head import HeadReader
from lakebed.http.limits import Limits
from lakebed.http.request import Request
from lakebed.http_api.app import App
from lakebed.http_api.service import Service
from lakebed.seglake.change import Change
from lakebed.store.store import Store

Result = TypeVar("Result")
RETRY_S = 5.0


class _Service(Service):
    """Does at once what a server hands to threads, or awaits."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, _NO_THREADS, clock=store.runner.clock)

    async def run(self, work: Callable[[], Result]) -> Result:
        return work()

    async def commit(self, change: Change[Result]) -> Result:
        return change.run()

    async def done(self, ticket: Ticket[Result]) -> Result:
        return ticket.wait(None)


class _WholeBody:
    """A body that came along with its head."""

    def __init__(self, data: bytes) -> None:
        self.length: int | None = len(data)
        self.whole: bytes | None = data

    async def read(self) -> bytes:
        return b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.whole or b""


class Wire:
    """Between clients and whatever store is open: carries requests, and loses answers."""

    def __init__(self, store: Callable[[], Store | None]) -> None:
        self._store = store
        self._served: tuple[Store, App] | None = None
        self._reader = HeadReader(Limits())
        self.lost_count = 0  # of the next answers

    def exchange(self, head: bytes, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer; `Failure` if none comes."""
        app = self._app()
        parsed = self._reader.read(head)
        request = Request(
            method=parsed.method,
            raw_path=parsed.raw_path,
            raw_query=parsed.raw_query,
            version=parsed.version,
            fields=parsed.fields,
            headers=parsed.headers,
            body=_WholeBody(body),
            request_id="0" * 16,
            peer="",
            is_secure=False,
            received_ns=0,
        )
        response = finished(app(request))
        request.end()
        if self.lost_count:
            self.lost_count -= 1
            raise Failure("the connection was lost: the answer did not arrive", is_sent=True)
        headers = {name.lower(): value for name, value in response.headers}
        assert isinstance(response.body, bytes | bytearray), "small answers are whole"
        return response.status, headers, bytes(response.body)

    def _app(self) -> App:
        store = self._store()
        if store is None or not store.is_open:
            raise Failure("connection refused", is_sent=False)
        if self._served is None or self._served[0] is not store:
            self._served = (store, App(_Service(store)))
        return self._served[1]


class _Connection(Connection):
    """One of a client's connections, without a socket."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.is_reusable = False
        self.idle_since_ns = 0
        self._answer = b""

    def ask(self, head: bytes, body: Body, *, timeout_s: float) -> AnswerHead:  # noqa: ARG002
        data = b"".join(map(bytes, body)) if isinstance(body, Pieces) else bytes(body)
        status, headers, self._answer = self._wire.exchange(head, data)
        return AnswerHead(status, headers, len(self._answer), is_last=False)

    def read(self, head: AnswerHead, *, bytes_max: int, timeout_s: float) -> bytes:  # noqa: ARG002
        return self._answer

    def pieces(self, head: AnswerHead, *, timeout_s: float) -> Iterator[bytes]:  # noqa: ARG002
        yield self._answer

    def is_alive(self) -> bool:
        return True

    def cut(self) -> None:
        """Nothing is under way when it is asked for."""

    def stop_sending(self) -> None:
        """As `cut`."""

    def close(self) -> None:
        self.is_reusable = False


class _Caller(Caller):
    def __init__(self, wire: Wire, *, runner: Runner, random: Random) -> None:
        super().__init__(Address(path="/wire"), runner=runner, random=random, retry_s=RETRY_S)
        self._wire = wire

    def _connect(self) -> Connection:
        return _Connection(self._wire)


class WireStore(RemoteStore):
    """The store as a client of another process sees it."""

    def __init__(self, wire: Wire, *, runner: Runner, random: Random) -> None:
        self._own_runner = None
        self._caller = _Caller(wire, runner=runner, random=random)
        self._producing = MessageAppender(self._caller, ProducerPool(runner=runner))
        self.topics = RemoteTopics(self._caller, self._producing)
        self.pins = RemotePins(self._caller)


def finished(work: Awaitable[Result]) -> Result:
    """What a coroutine returns that waits for nothing."""
    stepped: Any = work.__await__()
    try:
        next(stepped)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise Closed("a handler waits for an event loop, and there is none")


_NO_THREADS = ThreadPoolExecutor(1)  # never given anything to do
