"""How a server ends: idle clients at once, busy ones when they are done, the rest by force."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.http.request import Request
from lakebed.http.response import Response
from tests.http.serving import HOST, hello, in_loop, serving, until


@in_loop
async def test_requests_under_way_are_finished_and_idle_clients_closed() -> None:
    may_end = asyncio.Event()

    async def wait(_: Request) -> Response:
        await may_end.wait()
        return Response(200, body=b"done")

    async with serving(lambda request: wait(request) if request.raw_query else hello(request)) as s:
        idle, busy = await s.connect(), await s.connect()
        idle.get()
        await idle.answer()
        busy.get("/?wait")
        busy.get("/never")
        await until(lambda: bool(s.server._tasks))
        draining = asyncio.create_task(s.server.drain(60))
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, s.port)
        assert not draining.done()
        may_end.set()
        answer = await busy.answer()
        assert (answer.body, answer.headers["connection"]) == (b"done", "close")
        assert await busy.rest() == b""
        await busy.close()
        assert await draining


@in_loop
async def test_a_server_without_clients_ends_at_once() -> None:
    async with serving(hello) as served:
        assert await served.server.drain(60)


@in_loop
async def test_a_half_sent_request_may_still_be_finished() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        client.send_bytes(b"GET / HTTP/1.1\r\n")
        await until(lambda: bool(served.server._connections))
        (connection,) = served.server._connections
        await until(lambda: bool(connection._pending))
        draining = asyncio.create_task(served.server.drain(60))
        await asyncio.sleep(0)
        client.send_bytes(b"Host: a\r\n\r\n")
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.rest() == b""
        assert await draining


@in_loop
async def test_what_does_not_end_in_time_is_cut() -> None:
    async def wait(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(wait) as served:
        client = await served.connect()
        client.get()
        await until(lambda: bool(served.server._tasks))
        assert not await served.server.drain(0)
        assert await client.rest() == b""
        await served.is_empty()
        for task in tuple(served.server._tasks):
            task.cancel()
        await until(lambda: not served.server._tasks)


class Late(asyncio.Transport):
    """Of a client who was accepted just before the listener ended."""

    def __init__(self) -> None:
        super().__init__({"peername": (HOST, 1)})
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@in_loop
async def test_a_client_who_comes_too_late_is_not_waited_for() -> None:
    async with serving(hello) as served:
        server, transport = served.server, Late()
        draining = asyncio.create_task(server.drain(60))
        await asyncio.sleep(0)
        connection = server._connect()
        connection.connection_made(transport)
        assert transport.is_closed
        connection.connection_lost(None)
        assert await draining
