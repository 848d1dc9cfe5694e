"""ASGI applications as handlers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from lakebed.http.asgi import AsgiHandler
from tests.http.serving import in_loop, serving, until

Scope = Any
Receive = Any
Send = Any


async def tell_scope(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    told = [
        scope["type"],
        scope["method"],
        scope["path"],
        scope["raw_path"],
        scope["query_string"],
        scope["root_path"],
        scope["scheme"],
        scope["http_version"],
        (b"x-one", b"1") in scope["headers"],
        message["body"],
        message["more_body"],
    ]
    await send({"type": "http.response.start", "status": 201, "headers": [(b"X-Two", b"2")]})
    await send({"type": "http.response.body", "body": repr(told).encode()})


@in_loop
async def test_an_application_is_told_the_request() -> None:
    async with serving(AsgiHandler(tell_scope, root_path="/pages")) as served:
        client = await served.connect()
        for _ in range(2):
            client.put("/a%20b?c=%20", b"abc", "X-One: 1")
            answer = await client.answer()
            assert (answer.status, answer.headers["x-two"]) == (201, "2")
            assert answer.body.decode() == repr(
                ["http", "PUT", "/a b", b"/a%20b", b"c=%20", "/pages", "http", "1.1", True,
                 b"abc", False]
            )  # fmt: skip


async def echo(_: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        message = await receive()
        await send(
            {
                "type": "http.response.body",
                "body": message["body"],
                "more_body": message["more_body"],
            }
        )
        if not message["more_body"]:
            return


@in_loop
async def test_bodies_are_streamed_both_ways() -> None:
    async with serving(AsgiHandler(echo)) as served:
        client = await served.connect()
        body = bytes(range(256)) * 20_000
        client.put("/", body)
        assert (await client.answer()).body == body


@in_loop
async def test_a_length_is_kept_and_head_has_no_body() -> None:
    async def application(_: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"6"), (b"date", b"never"), (b"connection", b"x")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"def"})

    handler = AsgiHandler(application)
    async with serving(handler) as served:
        client = await served.connect()
        client.get(method="HEAD")
        assert (await client.answer(has_body=False)).headers["content-length"] == "6"
        client.get()
        answer = await client.answer()
        assert (answer.body, answer.headers["content-length"]) == (b"abcdef", "6")
        assert answer.headers["date"] != "never"
        await until(lambda: not handler._tasks)


async def fail_at_once(_: Scope, __: Receive, ___: Send) -> None:
    raise ZeroDivisionError


async def say_nothing(_: Scope, __: Receive, ___: Send) -> None:
    return


async def begin_with_a_body(_: Scope, __: Receive, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"abc"})


@pytest.mark.parametrize("application", [fail_at_once, say_nothing, begin_with_a_body])
@in_loop
async def test_an_application_that_fails_is_answered_for(
    application: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        async with serving(AsgiHandler(application)) as served:
            client = await served.connect()
            client.get()
            assert (await client.answer()).status == 500


@in_loop
async def test_a_response_that_breaks_off_never_looks_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def application(_: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        raise ZeroDivisionError

    with caplog.at_level(logging.CRITICAL):
        async with serving(AsgiHandler(application)) as served:
            client = await served.connect()
            client.get()
            data = await client.rest()
            assert b"chunked" in data or not data
            assert b"0\r\n\r\n" not in data


@in_loop
async def test_a_client_that_leaves_is_told_to_the_application() -> None:
    seen = []

    async def application(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200})
        try:
            while True:
                piece = b"x" * 65536
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except OSError:
            seen.append((await receive())["type"])

    handler = AsgiHandler(application)
    async with serving(handler) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await client.reader.readexactly(1000)
        client.reset()
        await until(lambda: not handler._tasks)
        await served.is_empty()
    assert seen == ["http.disconnect"]


@in_loop
async def test_a_body_that_breaks_off_is_told_to_the_application() -> None:
    seen = []

    async def application(_: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            seen.append(len(message["body"]))
        seen.append(-1)

    async with serving(AsgiHandler(application)) as served:
        client = await served.connect()
        client.send("PUT / HTTP/1.1", "Host: a", "Content-Length: 100000", body=b"abc")
        await until(lambda: seen == [3])
        client.reset()
        await until(lambda: seen == [3, -1])
        await asyncio.sleep(0)
