"""A server and its clients in one loop, over real sockets; its clock stands still unless moved."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, ParamSpec

import uvloop

from lakebed.base.simulation.clock import SimulatedClock
from lakebed.http.limits import Limits
from lakebed.http.refusal import Refusal, plain_text
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.http.server import Server
from lakebed.http.tls import TlsFiles

HOST = "127.0.0.1"
GIVE_UP_S = 60
TURNS_MAX = 100_000

Arguments = ParamSpec("Arguments")


def in_loop(test: Callable[Arguments, Awaitable[None]]) -> Callable[Arguments, None]:
    """An asynchronous test, run in a loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(*arguments, **named), GIVE_UP_S)

        uvloop.run(bounded())

    return run


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    for _ in range(TURNS_MAX):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come to be")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *lines: str, body: bytes = b"") -> None:
        """A head, and a body behind it."""
        self.send_bytes("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)

    def get(self, path: str = "/", *headers: str, method: str = "GET") -> None:
        self.send(f"{method} {path} HTTP/1.1", "Host: here", *headers)

    def put(self, path: str, body: bytes, *headers: str) -> None:
        length = f"Content-Length: {len(body)}"
        self.send(f"PUT {path} HTTP/1.1", "Host: here", length, *headers, body=body)

    async def answer(self, *, has_body: bool = True) -> Answer:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers
            headers[name.lower()] = value
        status = int(first.split(" ")[1])
        body = await self._body(headers) if has_body else b""
        return Answer(status, headers, body)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return await self.rest() if headers.get("connection") == "close" else b""
        pieces = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            pieces.append(await self.reader.readexactly(size))
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return b"".join(pieces)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, which a reset is too."""
        data = bytearray()
        with suppress(ConnectionError):
            while piece := await self.reader.read(65536):
                data += piece
        return bytes(data)

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()

    def reset(self) -> None:
        """Be gone without a word."""
        self.writer.transport.abort()


class Serving:
    """A server on a port, what it was asked, and its clients."""

    def __init__(self, server: Server, port: int, clock: SimulatedClock) -> None:
        self.server = server
        self.port = port
        self.clock = clock
        self.clients: list[Client] = []

    async def connect(self, **options: Any) -> Client:
        reader, writer = await asyncio.open_connection(HOST, self.port, limit=1 << 22, **options)
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    async def connect_slowly(self, *, buffer_bytes: int) -> Client:
        """A client that takes next to nothing unless it reads."""
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (HOST, self.port))
        reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1e9))
        self.server.sweep()

    async def keeps_one(self) -> None:
        """The one connection is not ended, though there is time to."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert self.server.connection_count == 1

    async def is_empty(self) -> None:
        await until(lambda: not self.server.connection_count)


@asynccontextmanager
async def serving(
    handler: Callable[[Request], Response | Awaitable[Response]],
    *,
    limits: Limits | None = None,
    tls: TlsFiles | None = None,
    on_refusal: Callable[[Refusal], Response] = plain_text,
    on_done: Callable[[Request | None, int, int, int, int], None] | None = None,
) -> AsyncIterator[Serving]:
    clock = SimulatedClock()
    server = Server(
        handler, limits=limits, on_refusal=on_refusal, on_done=on_done, clock=clock, seed=1
    )
    port = await server.listen(HOST, 0, tls=tls)
    served = Serving(server, port, clock)
    try:
        yield served
    finally:
        server.close()
        for client in served.clients:
            await client.close()
        await served.is_empty()


def hello(_: Request) -> Response:
    return Response(200, [("Content-Type", "text/plain")], b"hello")


def tell_request(request: Request) -> Response:
    """What was understood, line by line."""
    told = [
        request.method.encode(),
        request.raw_path,
        request.raw_query,
        repr(sorted(request.headers.items())).encode(),
        request.body.whole if request.body.whole is not None else b"(not whole)",
    ]
    return Response(200, body=b"\n".join(told))


async def count_body(request: Request) -> Response:
    count = 0
    async for piece in request.body:
        count += len(piece)
    return Response(200, body=str(count).encode())


async def echo_body(request: Request) -> Response:
    pieces = [bytes(piece) async for piece in request.body]
    return Response(200, body=b"".join(pieces))
