"""Slow and silent clients, on a clock that the tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from lakebed.http.body import IncomingBody
from lakebed.http.limits import Limits
from lakebed.http.request import Request
from lakebed.http.response import Response
from tests.http.serving import Serving, count_body, hello, in_loop, serving, until

MIB = 1024 * 1024


async def connected(served: Serving, data: bytes) -> None:
    """Until the server has read that many bytes."""
    (connection,) = served.server._connections
    await until(lambda: len(connection._pending) >= len(data))


@in_loop
async def test_a_head_must_come_whole_in_time_however_it_drips() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        await until(lambda: served.server.connection_count == 1)
        served.pass_time(60)  # nothing was begun yet
        data = b""
        for part in (b"GET / HTTP/1.1\r\n", b"Host: a\r\n", b"X: y\r\n"):
            client.send_bytes(part)
            data += part
            await connected(served, data)
            served.pass_time(3)
        await served.keeps_one()
        served.pass_time(2)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert await client.rest() == b""


@in_loop
async def test_an_idle_connection_is_closed_without_a_word() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        client.get()
        await client.answer()
        served.pass_time(74)
        client.get()
        await client.answer()
        served.pass_time(75)
        await served.keeps_one()
        served.pass_time(1)
        assert await client.rest() == b""


@in_loop
async def test_one_who_connects_and_says_nothing_is_idle() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        await until(lambda: served.server.connection_count == 1)
        served.pass_time(76)
        assert await client.rest() == b""


@in_loop
async def test_a_small_body_that_stops_is_answered_and_cut() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 10", body=b"a")
        await until(lambda: served.server.connection_count == 1)
        await connected(served, b"a")
        served.pass_time(29)
        client.send_bytes(b"b")
        await connected(served, b"ab")
        served.pass_time(29)
        await served.keeps_one()
        served.pass_time(2)
        assert (await client.answer()).status == 408
        assert await client.rest() == b""


@in_loop
async def test_a_body_that_stops_is_cut_while_it_is_waited_for() -> None:
    may_read = asyncio.Event()
    bodies: list[IncomingBody] = []

    async def handler(request: Request) -> Response:
        assert isinstance(request.body, IncomingBody)
        bodies.append(request.body)
        await may_read.wait()
        return await count_body(request)

    async with serving(handler) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 1000000", body=b"a")
        await until(lambda: bool(bodies))
        served.pass_time(1000)  # the handler's own time
        may_read.set()
        await until(lambda: bodies[0].is_waited_for and not bodies[0].held_bytes)
        served.pass_time(29)
        client.send_bytes(b"b")
        await until(lambda: bodies[0].received_bytes == 2 and not bodies[0].held_bytes)
        await until(lambda: bodies[0].is_waited_for)
        served.pass_time(29)
        await served.keeps_one()
        served.pass_time(2)
        await served.is_empty()
        assert await client.rest() == b""


@in_loop
async def test_a_small_body_below_the_minimum_rate_is_answered_and_cut() -> None:
    async with serving(hello, limits=Limits(rate_bytes_min=10, rate_grace_s=20)) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 100", body=b"a")
        await until(lambda: served.server.connection_count == 1)
        await connected(served, b"a")
        for count in range(2, 22):
            served.pass_time(1)
            client.send_bytes(b"a")
            await connected(served, b"a" * count)
        await served.keeps_one()
        served.pass_time(3)
        assert (await client.answer()).status == 408
        assert await client.rest() == b""


@in_loop
async def test_the_time_that_the_handler_takes_is_not_the_clients() -> None:
    may_read = asyncio.Semaphore(0)
    bodies: list[IncomingBody] = []

    async def handler(request: Request) -> Response:
        assert isinstance(request.body, IncomingBody)
        bodies.append(request.body)
        count = 0
        async for piece in request.body:
            count += len(piece)
            await may_read.acquire()
        return Response(200, body=str(count).encode())

    async with serving(handler, limits=Limits(rate_bytes_min=1000, rate_grace_s=10)) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 1000000", body=b"a")
        for count in range(2, 6):
            await until(lambda: bool(bodies) and not bodies[0].held_bytes)
            served.pass_time(1000)
            may_read.release()
            await until(lambda: bodies[0].is_waited_for)
            served.pass_time(2)
            await served.keeps_one()
            client.send_bytes(b"a")
            await until(lambda: bodies[0].received_bytes == count)  # noqa: B023
        may_read.release()
        await until(lambda: bodies[0].is_waited_for)
        served.pass_time(4)
        await served.is_empty()


@in_loop
async def test_one_who_takes_less_than_the_minimum_of_its_response_is_cut() -> None:
    given: list[int] = []

    def handler(_: Request) -> Response:
        return Response(200, body=many(b"x" * 65536, 1024, given), length=1024 * 65536)

    limits = Limits(rate_bytes_min=MIB, rate_grace_s=20, write_s=1000)
    async with serving(handler, limits=limits) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await client.reader.readuntil(b"\r\n\r\n")
        (connection,) = served.server._connections
        await until(lambda: not connection._out.is_writable)
        seconds = 0
        while served.server.connection_count and seconds < 100:
            await client.reader.readexactly(65536)
            for _ in range(20):
                await asyncio.sleep(0)
            served.pass_time(1)
            seconds += 1
        await served.is_empty()
        assert 20 < seconds < 100


@in_loop
async def test_a_handler_may_take_its_time() -> None:
    may_end = asyncio.Event()

    async def handler(_: Request) -> Response:
        await may_end.wait()
        return Response(200, body=b"late")

    async with serving(handler) as served:
        client = await served.connect()
        client.get()
        await until(lambda: bool(served.server._tasks))
        served.pass_time(10_000)
        may_end.set()
        assert (await client.answer()).body == b"late"


async def many(piece: bytes, count: int, given: list[int]) -> AsyncIterator[bytes]:
    for _ in range(count):
        given.append(len(piece))
        yield piece


@in_loop
async def test_one_who_does_not_take_its_response_is_cut_and_holds_little() -> None:
    given: list[int] = []
    told: list[int] = []

    def handler(_: Request) -> Response:
        return Response(200, body=many(b"x" * 65536, 4096, given), length=4096 * 65536)

    limits = Limits(write_s=60.0)
    async with serving(
        handler, limits=limits, on_done=lambda *facts: told.append(facts[1])
    ) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await until(lambda: bool(served.server._connections))
        (connection,) = served.server._connections
        await until(lambda: not connection._out.is_writable)
        for _ in range(200):
            await asyncio.sleep(0)
        assert sum(given) < 16 * MIB  # what the kernel takes, and one piece
        assert connection._transport.get_write_buffer_size() < 1 * MIB
        served.pass_time(1)
        served.pass_time(58)
        await served.keeps_one()
        served.pass_time(3)
        await served.is_empty()
        await until(lambda: told == [499])


@in_loop
async def test_one_who_takes_its_response_slowly_is_not_cut() -> None:
    given: list[int] = []
    size = 64 * 65536

    def handler(_: Request) -> Response:
        return Response(200, body=many(b"x" * 65536, 64, given), length=size)

    async with serving(handler) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await client.reader.readuntil(b"\r\n\r\n")
        left = size
        while left:
            part = min(left, size // 8)
            await client.reader.readexactly(part)
            left -= part
            for _ in range(20):
                await asyncio.sleep(0)
            served.pass_time(40)
        assert len(given) == 64


@in_loop
async def test_a_plain_response_that_nobody_takes_is_cut_and_its_request_is_the_last() -> None:
    asked = []

    def handler(request: Request) -> Response:
        asked.append(request.raw_path)
        return Response(200, body=b"x" * (16 * MIB))

    async with serving(handler) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get("/1")
        client.get("/2")
        await until(lambda: bool(asked))
        for _ in range(200):
            await asyncio.sleep(0)
        assert asked == [b"/1"]
        served.pass_time(1)
        served.pass_time(61)
        await served.is_empty()
        assert asked == [b"/1"]


@in_loop
async def test_one_who_takes_an_early_answer_slowly_has_the_time_it_needs() -> None:
    size = 8 * MIB
    async with serving(lambda _: Response(403, body=b"x" * size)) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 1000000", body=b"abc")
        await client.reader.readuntil(b"\r\n\r\n")
        await until(lambda: bool(served.server._connections))
        (connection,) = served.server._connections
        passed = 0
        for _ in range(64):
            await client.reader.readexactly(size // 64)
            for _ in range(5):
                await asyncio.sleep(0)
            if not connection._out.is_empty:
                served.pass_time(4)
                passed += 4
        assert passed > 5  # longer than it may linger when it has all
        served.pass_time(4)
        await served.keeps_one()
        served.pass_time(2)
        await served.is_empty()
        assert await client.rest() == b""
