"""Clients that call the store through the HTTP API, without a socket and without an event loop.

`lakebed.client` encodes a call as it would be sent, the HTTP server's own parser reads it, and the
handlers of the HTTP API execute it and encode the response. Some responses are dropped: the call
was executed, but the client does not know that, and repeats the call if repeating it is safe.

The handlers are coroutines that never suspend here: work that they would pass to another thread, or
to the store's commit queue, runs immediately in the simulated thread of the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
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
    """A service that runs all work immediately, in the calling thread.

    A real server passes such work to other threads, or awaits it.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, _NO_THREADS, clock=store.runner.clock)

    async def run(self, work: Callable[[], Result]) -> Result:
        return work()

    async def commit(self, change: Change[Result]) -> Result:
        return change.run()

    async def done(self, ticket: Ticket[Result]) -> Result:
        return ticket.wait(None)


class _WholeBody:
    """A request body that arrived in one piece with the request head."""

    def __init__(self, data: bytes) -> None:
        self.length: int | None = len(data)
        self.whole: bytes | None = data

    async def read(self) -> bytes:
        return b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.whole or b""


class Wire:
    """The simulated connection from clients to the open store. It can drop responses."""

    def __init__(self, store: Callable[[], Store | None]) -> None:
        self._store = store
        self._served: tuple[Store, App] | None = None
        self._reader = HeadReader(Limits())
        # Each simulated thread has its own context, so a client loses only its own responses.
        self._lost_count = ContextVar("lost_count", default=0)

    @property
    def lost_count(self) -> int:
        """How many of the next responses to the calling client are dropped."""
        return self._lost_count.get()

    @lost_count.setter
    def lost_count(self, count: int) -> None:
        self._lost_count.set(count)

    def exchange(self, head: bytes, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Executes a request and returns the status, headers and body of the response.

        Raises `Failure` if the response is dropped or no store is open.
        """
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
            raise Failure("the connection was lost before the response arrived", is_sent=True)
        headers = {name.lower(): value for name, value in response.headers}
        assert isinstance(response.body, bytes | bytearray), (
            "the response body is not a single bytes object"
        )
        return response.status, headers, bytes(response.body)

    def _app(self) -> App:
        store = self._store()
        if store is None or not store.is_open:
            raise Failure("connection refused: no store is open", is_sent=False)
        if self._served is None or self._served[0] is not store:
            self._served = (store, App(_Service(store)))
        return self._served[1]


class _Connection(Connection):
    """A client connection that calls the `Wire` directly instead of using a socket."""

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
        """Does nothing, because no request is in progress when this is called."""

    def stop_sending(self) -> None:
        """Does nothing, like `cut`."""

    def close(self) -> None:
        self.is_reusable = False


class _Caller(Caller):
    def __init__(self, wire: Wire, *, runner: Runner, random: Random) -> None:
        super().__init__(Address(path="/wire"), runner=runner, random=random, retry_s=RETRY_S)
        self._wire = wire

    def _connect(self) -> Connection:
        return _Connection(self._wire)


class WireStore(RemoteStore):
    """The store as seen by a client in another process."""

    def __init__(self, wire: Wire, *, runner: Runner, random: Random) -> None:
        self._own_runner = None
        self._caller = _Caller(wire, runner=runner, random=random)
        producers = ProducerPool(runner=runner, new_id=partial(random.getrandbits, 63))
        self._producing = MessageAppender(self._caller, producers)
        self.topics = RemoteTopics(self._caller, self._producing)
        self.pins = RemotePins(self._caller)


def finished(work: Awaitable[Result]) -> Result:
    """Runs a coroutine that must not suspend, and returns its result. Raises `Closed` if the
    coroutine suspends.
    """
    stepped: Any = work.__await__()
    try:
        next(stepped)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise Closed("a handler waits for an event loop, but the simulator has none")


_NO_THREADS = ThreadPoolExecutor(1)  # never used
