"""A request tells whoever waits on its behalf that the client is gone, or that the server ends."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.http.request import Request
from lakebed.http.response import Response
from tests.http.serving import hello, in_loop, serving, until


class Waiter:
    """A handler that waits until it is hurried."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        hurried = asyncio.Event()
        request.on_hurry = hurried.set
        if not request.is_hurried:
            await hurried.wait()
        return Response(200, body=b"hurried")


@in_loop
@pytest.mark.parametrize("way", ["close", "reset"])
async def test_a_client_that_leaves_is_gone(way: str) -> None:
    waiter = Waiter()
    async with serving(waiter) as served:
        client = await served.connect()
        client.get()
        await until(lambda: bool(waiter.requests))
        (request,) = waiter.requests
        assert (request.is_gone, request.is_hurried) == (False, False)
        if way == "close":
            await client.close()
        else:
            client.reset()
        await until(lambda: request.is_gone)
        assert request.is_hurried
        await served.is_empty()


@in_loop
async def test_a_client_that_sends_no_more_counts_as_gone_and_is_still_answered() -> None:
    waiter = Waiter()
    async with serving(waiter) as served:
        client = await served.connect()
        client.get()
        client.get("/second")
        client.writer.write_eof()
        for _ in range(2):
            assert (await client.answer()).body == b"hurried"
        assert [request.is_gone for request in waiter.requests] == [True, True]


@in_loop
async def test_a_server_that_drains_hurries_who_waits_and_who_comes_late() -> None:
    waiter = Waiter()
    async with serving(waiter) as served:
        waiting, late = await served.connect(), await served.connect()
        waiting.get()
        late.send_bytes(b"GET / HTTP/1.1\r\n")
        await until(lambda: any(one._pending for one in served.server._connections))
        await until(lambda: bool(waiter.requests))
        draining = asyncio.create_task(served.server.drain(60))
        assert (await waiting.answer()).body == b"hurried"
        late.send_bytes(b"Host: a\r\n\r\n")
        assert (await late.answer()).body == b"hurried"
        assert await draining
        assert [request.is_gone for request in waiter.requests] == [False, False]


@in_loop
async def test_what_was_answered_is_not_hurried_any_more() -> None:
    requests: list[Request] = []

    def answer(request: Request) -> Response:
        requests.append(request)
        return hello(request)

    async with serving(answer) as served:
        client = await served.connect()
        client.get()
        await client.answer()
        await client.close()
        await served.is_empty()
        assert not requests[0].is_hurried
