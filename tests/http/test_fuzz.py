"""Whatever is sent, and however it is cut: the server answers or closes, and stays up."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.http.connection import Connection
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.http.server import Server
from tests.http.serving import in_loop, serving

pytestmark = pytest.mark.thorough

CHUNKED = b"PUT /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
WORDS = [
    b"GET", b"PUT", b"HEAD", b" ", b"/", b"/a?b", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"\r",
    b"Host: a\r\n", b"Content-Length: 5\r\n", b"Content-Length: 70000\r\n", b"Content-Length: -1",
    b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n",
    b"\r\n\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"hello", b"\0", b":", b"\xff", b"ffffffff\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", CHUNKED, b"x" * 3000,
    b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
]  # fmt: skip


async def answer(request: Request) -> Response:
    body = b"".join([bytes(piece) async for piece in request.body])
    facts = (request.method, request.raw_path, sorted(request.headers.items()), body)
    return Response(200, body=repr(facts).encode())


def handler(request: Request) -> object:
    return answer(request) if request.raw_path != b"/" else Response(200, body=b"root")


@given(
    parts=st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=20)), max_size=25),
    leaves=st.booleans(),
)
def test_any_bytes_are_answered_or_end_the_connection(parts: list[bytes], leaves: bool) -> None:
    @in_loop
    async def talk() -> None:
        async with serving(handler) as served:  # type: ignore[arg-type]
            client = await served.connect()
            for part in parts:
                client.send_bytes(part)
                await asyncio.sleep(0)
            if leaves:
                client.reset()
            else:
                client.writer.write_eof()
                data = await client.rest()
                assert not data or data.startswith(b"HTTP/1.1 ")
            await served.is_empty()
            after = await served.connect()
            after.get("/")
            assert (await after.answer()).body == b"root"

    talk()


class Listening:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False

    def get_extra_info(self, name: str) -> object:
        return None

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += b"".join(pieces)

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    abort = close


async def talk_to(server: Server, parts: list[bytes]) -> tuple[bytes, bool]:
    """All that is written to one who sends these parts."""
    connection, transport = Connection(server), Listening()
    connection.connection_made(transport)  # type: ignore[arg-type]
    for part in parts:
        connection.data_received(part)
        await asyncio.sleep(0)
    while server._tasks:
        await asyncio.sleep(0)
    connection.connection_lost(None)
    return bytes(transport.written), transport.is_closed


VALID = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                b"GET /b?c HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\n",
                b"HEAD /c HTTP/1.1\r\nHost: a\r\nEmpty:\r\n\r\n",
                b"PUT /d HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
                b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
                b"PUT /e HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70_000,
                CHUNKED + b"3\r\nabc\r\n1\r\n!\r\n0\r\n\r\n",
                b"\r\nGET /g HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            ]
        )
    ),
    min_size=1,
    max_size=4,
)


@given(requests=VALID, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_requests_cut_anywhere_are_understood_alike(requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [data[start:end] for start, end in pairwise(places)]

    @in_loop
    async def compare() -> None:
        server = Server(handler, seed=1)  # type: ignore[arg-type]
        alone = [(await talk_to(server, [request]))[0] for request in requests]
        assert all(told.startswith(b"HTTP/1.1 200 OK\r\n") for told in alone)
        told, is_closed = await talk_to(server, parts)
        assert told == b"".join(alone)
        assert not is_closed
        server.close()

    compare()
