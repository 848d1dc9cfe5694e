"""Over the wire: what is refused is answered once, and nothing behind it is taken for a request."""

from __future__ import annotations

import pytest

from lakebed.http.limits import Limits
from lakebed.http.request import Request
from lakebed.http.response import Response
from tests.http.serving import echo_body, hello, in_loop, serving

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: here\r\n\r\n"
PUT = b"PUT / HTTP/1.1\r\nHost: here\r\n"
CHUNKED = PUT + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = {
    "CL.TE": (400, PUT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "TE.CL": (400, PUT + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
    "TE.TE": (400, PUT + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n"),
    "CL.CL": (400, PUT + b"Content-Length: 0\r\nContent-Length: 40\r\n\r\n"),
    "folded": (400, PUT + b"X: a\r\n Content-Length: 3\r\n\r\n"),
    "bare LF": (400, b"PUT / HTTP/1.1\nHost: here\n\n"),
    "bare LF in between": (400, PUT + b"X: a\nContent-Length: 3\r\n\r\n"),
    "NUL": (400, PUT + b"X: a\0b\r\n\r\n"),
    "no version": (400, b"GET /\r\n\r\n"),
    "version 2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "TLS on a plain port": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "unknown method": (501, b"STEAL / HTTP/1.1\r\nHost: here\r\n\r\n"),
    "expectation": (417, PUT + b"Expect: gold\r\nContent-Length: 3\r\n\r\nabc"),
    "long target": (414, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n"),
    "long target without an end": (414, b"GET /" + b"a" * 70_000),
    "large header": (431, PUT + b"X: " + b"a" * 40_000 + b"\r\n\r\n"),
    "large header without an end": (431, PUT + b"X: " + b"a" * 40_000),
    "long header": (431, PUT + b"X: a\r\n" * 300 + b"\r\n"),
    "chunk of no size": (400, CHUNKED + b"\r\n"),
    "chunk too long": (400, CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n"),
    "chunk size overflow": (400, CHUNKED + b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    "chunk extension flood": (400, CHUNKED + b"3;" + b"a" * 5_000 + b"\r\n"),
    "trailer flood": (400, CHUNKED + b"0\r\n" + b"A: b\r\n" * 10_000 + b"\r\n"),
    "chunk bare LF": (400, CHUNKED + b"3\nabc\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("name", REFUSED)
@in_loop
async def test_a_refusal_is_the_last_answer(name: str) -> None:
    asked = []

    async def handler(request: Request) -> Response:
        asked.append(request.raw_path)
        return await echo_body(request)

    status, data = REFUSED[name]
    async with serving(handler) as served:
        client = await served.connect()
        client.get("/first")
        assert (await client.answer()).status == 200
        client.send_bytes(data + HIDDEN)
        answer = await client.answer()
        assert answer.status == status
        assert answer.headers["connection"] == "close"
        client.send_bytes(HIDDEN)
        assert await client.rest() == b""
        await client.close()
        await served.is_empty()
    assert b"/hidden" not in asked


@in_loop
async def test_what_is_read_after_a_refusal_is_bounded() -> None:
    async with serving(hello, limits=Limits(linger_bytes_max=100_000)) as served:
        client = await served.connect()
        client.send_bytes(b"nonsense\r\n\r\n")
        assert (await client.answer()).status == 400
        await served.keeps_one()
        client.send_bytes(b"x" * 1_000_000)
        await served.is_empty()


@in_loop
async def test_one_who_never_closes_after_a_refusal_is_cut() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        client.send_bytes(b"nonsense\r\n\r\n")
        assert (await client.answer()).status == 400
        served.pass_time(4)
        await served.keeps_one()
        served.pass_time(2)
        await served.is_empty()
