"""Bodies of requests on their way in: whole or streamed, asked for, refused, cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lakebed.http.body import IncomingBody
from lakebed.http.limits import Limits
from lakebed.http.request import BadBody, ClientGone, Request
from lakebed.http.response import Response
from tests.http.serving import count_body, echo_body, hello, in_loop, serving, tell_request, until

MIB = 1024 * 1024


@in_loop
async def test_a_small_body_is_whole_when_the_handler_is_called() -> None:
    async with serving(tell_request, limits=Limits(small_body_bytes=10)) as served:
        client = await served.connect()
        client.put("/", b"0123456789")
        assert (await client.answer()).body.endswith(b"\n0123456789")
        client.put("/", b"")
        assert (await client.answer()).body.endswith(b"\n")
        client.put("/", b"0123456789A")
        assert (await client.answer()).body.endswith(b"\n(not whole)")


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 5 * MIB])
@in_loop
async def test_a_body_of_any_size_is_read(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    async with serving(echo_body) as served:
        client = await served.connect()
        client.put("/", body)
        client.get("/next")
        assert (await client.answer()).body == body
        assert (await client.answer()).body == b""


@in_loop
async def test_a_chunked_body_is_read_and_the_next_request_after_it() -> None:
    async with serving(echo_body) as served:
        client = await served.connect()
        for _ in range(2):
            client.send("PUT / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked")
            client.send_bytes(b"3\r\nabc\r\n")
            client.send_bytes(b"4\r\ndefg\r\n0\r\nX: y\r\n\r\n")
            client.get("/next")
            answer = await client.answer()
            assert (answer.status, answer.body) == (200, b"abcdefg")
            assert (await client.answer()).body == b""


@in_loop
async def test_continue_is_said_when_the_body_is_wanted() -> None:
    may_read = asyncio.Event()

    async def handler(request: Request) -> Response:
        await may_read.wait()
        return await echo_body(request)

    async with serving(handler) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 3", "Expect: 100-continue")
        await until(lambda: served.server.connection_count == 1)
        may_read.set()
        assert (await client.answer(has_body=False)).status == 100
        client.send_bytes(b"abc")
        assert (await client.answer()).body == b"abc"
        client.put("/", b"de")
        assert (await client.answer()).body == b"de"


@in_loop
async def test_continue_is_not_said_if_the_body_came_already() -> None:
    async with serving(echo_body) as served:
        client = await served.connect()
        client.put("/", b"abc", "Expect: 100-continue")
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, b"abc")


@in_loop
async def test_continue_is_not_said_if_some_of_the_body_came() -> None:
    pieces = []

    async def handler(request: Request) -> Response:
        async for piece in request.body:
            pieces.append(bytes(piece))
        return Response(200, body=b"".join(pieces))

    async with serving(handler) as served:
        client = await served.connect()
        client.send(
            "PUT / HTTP/1.1", "Host: a", "Content-Length: 3", "Expect: 100-continue", body=b"a"
        )
        await until(lambda: pieces == [b"a"])
        client.send_bytes(b"bc")
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, b"abc")


@in_loop
async def test_an_answer_instead_of_continue_ends_the_connection() -> None:
    asked = []

    def refuse(request: Request) -> Response:
        asked.append(request.raw_path)
        return Response(403, body=b"no")

    async with serving(refuse) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 36", "Expect: 100-continue")
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (403, "close")
        client.send_bytes(b"GET /hidden HTTP/1.1\r\nHost: here\r\n\r\n")
        assert await client.rest() == b""
    assert asked == [b"/"]


@in_loop
async def test_an_early_answer_can_be_read_though_the_client_sends_on() -> None:
    """A socket closed at once would be reset, and the answer lost."""

    async def refuse(request: Request) -> Response:
        await request.body.read()
        return Response(403, body=b"no")

    async with serving(refuse) as served:
        client = await served.connect()
        client.put("/", b"x" * (8 * MIB))
        await client.writer.drain()
        answer = await client.answer()
        assert (answer.status, answer.body) == (403, b"no")
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


@in_loop
async def test_a_body_nobody_reads_is_held_in_bounded_memory() -> None:
    may_read = asyncio.Event()
    bodies: list[IncomingBody] = []

    async def handler(request: Request) -> Response:
        assert isinstance(request.body, IncomingBody)
        bodies.append(request.body)
        await may_read.wait()
        return await count_body(request)

    limits = Limits(read_ahead_bytes=64 * 1024)
    async with serving(handler, limits=limits) as served:
        client = await served.connect()
        client.put("/", b"x" * (16 * MIB))
        await until(lambda: bool(served.server._connections))
        (connection,) = served.server._connections
        await until(lambda: not connection._is_reading)
        for _ in range(100):
            await asyncio.sleep(0)
        assert bodies[0].held_bytes < 1 * MIB
        may_read.set()
        assert (await client.answer()).body == str(16 * MIB).encode()


@in_loop
async def test_a_body_that_came_whole_while_reading_was_left_off_is_not_the_last() -> None:
    may_read = asyncio.Event()
    bodies: list[IncomingBody] = []

    async def handler(request: Request) -> Response:
        assert isinstance(request.body, IncomingBody)
        bodies.append(request.body)
        await may_read.wait()
        return await count_body(request)

    async with serving(handler, limits=Limits(read_ahead_bytes=4096)) as served:
        client = await served.connect()
        for number in range(1, 4):
            may_read.clear()
            client.put("/", b"x" * 70_000)
            await until(lambda: len(bodies) == number and bodies[-1].is_complete)  # noqa: B023
            may_read.set()
            assert (await client.answer()).body == b"70000"


@in_loop
async def test_a_client_gone_in_its_body_is_told_to_the_handler() -> None:
    outcomes = []

    async def handler(request: Request) -> Response:
        try:
            return await count_body(request)
        except ClientGone as error:
            outcomes.append(error)
            raise

    told = []
    async with serving(handler, on_done=lambda *facts: told.append(facts[1:4])) as served:
        for leave in ("reset", "close", "write_eof"):
            client = await served.connect()
            client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 1000000", body=b"abc")
            await until(lambda: served.server.connection_count == 1)
            if leave == "reset":
                client.reset()
            elif leave == "close":
                await client.close()
            else:
                client.writer.write_eof()
            await served.is_empty()
    await until(lambda: len(told) == 3)
    assert [status for status, _, _ in told] == [499] * 3
    assert len(outcomes) == 3


@in_loop
async def test_a_broken_body_is_told_to_the_handler_who_may_answer() -> None:
    async def handler(request: Request) -> Response:
        try:
            return await count_body(request)
        except BadBody:
            return Response(422, body=b"broken")

    async with serving(handler) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", body=b"3\r\nabcX")
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (422, "close")
        assert await client.rest() == b""


@in_loop
async def test_a_handler_whose_client_is_gone_runs_to_its_end() -> None:
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def handler(_: Request) -> Response:
        await may_end.wait()
        has_ended.set()
        return Response(200, body=b"x" * 100)

    async with serving(handler) as served:
        client = await served.connect()
        client.get()
        await until(lambda: bool(served.server._tasks))
        client.reset()
        for _ in range(10):
            await asyncio.sleep(0)
        may_end.set()
        await has_ended.wait()
        await served.is_empty()
        await until(lambda: not served.server._tasks)


@in_loop
async def test_a_client_that_only_stopped_sending_is_answered() -> None:
    may_end = asyncio.Event()

    async def handler(_: Request) -> Response:
        await may_end.wait()
        return Response(200, body=b"late")

    async with serving(handler) as served:
        client = await served.connect()
        client.get()
        client.writer.write_eof()
        await until(lambda: bool(served.server._tasks))
        for _ in range(10):
            await asyncio.sleep(0)
        may_end.set()
        assert (await client.answer()).body == b"late"
        assert await client.rest() == b""
        await served.is_empty()


@in_loop
async def test_a_body_left_unread_though_it_came_ends_the_connection() -> None:
    async with serving(hello, limits=Limits(small_body_bytes=0)) as served:
        client = await served.connect()
        client.put("/", b"abc")
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.rest() == b""


@in_loop
async def test_continue_is_not_said_in_the_middle_of_a_response() -> None:
    async def pieces(request: Request) -> AsyncIterator[bytes]:
        yield b"early"
        reading = asyncio.ensure_future(request.body.read())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not reading.done()
        reading.cancel()
        yield b" bird"

    async with serving(lambda request: Response(200, body=pieces(request), length=10)) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 3", "Expect: 100-continue")
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, b"early bird")
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


@in_loop
async def test_one_who_reads_on_after_the_answer_is_not_left_waiting() -> None:
    outcomes = []

    async def read_on(request: Request) -> None:
        try:
            while await request.body.read():
                pass
        except ClientGone as error:
            outcomes.append(str(error))

    tasks = []

    async def handler(request: Request) -> Response:
        await request.body.read()
        tasks.append(asyncio.create_task(read_on(request)))
        await asyncio.sleep(0)
        return Response(200)

    async with serving(handler) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 1000000", body=b"abc")
        assert (await client.answer()).status == 200
        await tasks[0]
    assert len(outcomes) == 1


@in_loop
async def test_a_handler_that_is_cancelled_ends_its_connection() -> None:
    async def handler(_: Request) -> Response:
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    async with serving(handler) as served:
        client = await served.connect()
        client.get()
        assert await client.rest() == b""
        await served.is_empty()
