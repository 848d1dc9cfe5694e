"""Responses in pieces and from files: their length, their pace, and clients that leave."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lakebed.http.request import Request
from lakebed.http.response import FileSlice, Piece, Response
from tests.http.serving import Client, in_loop, serving, until

MIB = 1024 * 1024


class Pieces:
    """A body that says whether it was closed."""

    def __init__(self, *pieces: Piece, fails: bool = False) -> None:
        self._pieces = iter(pieces)
        self._fails = fails
        self.given = 0
        self.is_closed = False

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        await asyncio.sleep(0)
        for piece in self._pieces:
            self.given += 1
            return piece
        if self._fails:
            raise ZeroDivisionError
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.fixture
def large_file(tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    data = os.urandom(MIB) * 8 + b"end"
    path = tmp_path / "large"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor, data
    os.close(descriptor)


@pytest.mark.parametrize("length", [None, 9])
@in_loop
async def test_pieces_arrive_in_order(length: int | None) -> None:
    def handler(_: Request) -> Response:
        pieces = Pieces(b"abc", b"", bytearray(b"def"), memoryview(b"ghi"))
        return Response(200, body=pieces, length=length)

    async with serving(handler) as served:
        client = await served.connect()
        for _ in range(2):
            client.get()
            answer = await client.answer()
            assert answer.body == b"abcdefghi"
            assert ("transfer-encoding" in answer.headers) is (length is None)


@in_loop
async def test_version_1_0_gets_no_chunks_but_an_end() -> None:
    async with serving(lambda _: Response(200, body=Pieces(b"abc", b"def"))) as served:
        client = await served.connect()
        client.send("GET / HTTP/1.0", "Connection: keep-alive")
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"abcdef", "close")


@pytest.mark.parametrize("size", [65536, 65537, 4 * MIB])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@in_loop
async def test_plain_bodies_of_any_kind_arrive(kind: type, size: int) -> None:
    data = os.urandom(size)
    async with serving(lambda _: Response(200, body=kind(data))) as served:
        client = await served.connect()
        client.get()
        client.get()
        assert (await client.answer()).body == data
        assert (await client.answer()).body == data


@pytest.mark.parametrize("length", [5, 7])
@in_loop
async def test_a_body_of_another_length_than_told_never_looks_whole(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = []

    def handler(_: Request) -> Response:
        bodies.append(Pieces(b"abc", b"def"))
        return Response(200, body=bodies[-1], length=length)

    with caplog.at_level(logging.CRITICAL):
        async with serving(handler) as served:
            client = await served.connect()
            client.get()
            client.get("/next")
            data = await client.rest()
            assert len(data.partition(b"\r\n\r\n")[2]) < length
            await served.is_empty()
    assert [body.is_closed for body in bodies] == [True]


@in_loop
async def test_a_body_that_fails_never_looks_whole(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        async with serving(lambda _: Response(200, body=Pieces(b"abc", fails=True))) as served:
            client = await served.connect()
            client.get()
            assert b"0\r\n\r\n" not in await client.rest()


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304), ("GET", 204)])
@in_loop
async def test_pieces_nobody_may_send_are_closed_unread(method: str, status: int) -> None:
    bodies = []

    def handler(_: Request) -> Response:
        bodies.append(Pieces(b"abc"))
        return Response(status, body=bodies[-1], length=3)

    async with serving(handler) as served:
        client = await served.connect()
        for _ in range(2):
            client.get(method=method)
            answer = await client.answer(has_body=False)
            assert answer.headers.get("content-length") == (None if status == 204 else "3")
    assert [(body.given, body.is_closed) for body in bodies] == [(0, True)] * 2


@in_loop
async def test_pieces_are_closed_when_the_client_leaves() -> None:
    bodies = []

    def handler(_: Request) -> Response:
        bodies.append(Pieces(*[b"x" * 65536] * 10_000))
        return Response(200, body=bodies[-1])

    told: list[int] = []
    async with serving(handler, on_done=lambda *facts: told.append(facts[1])) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await client.reader.readexactly(100)
        client.reset()
        await until(lambda: bool(told))
        await served.is_empty()
    assert told == [499]
    assert bodies[0].is_closed
    assert bodies[0].given < 1000


@pytest.mark.parametrize("length_is_told", [True, False])
@in_loop
async def test_files_arrive_between_other_pieces(
    length_is_told: bool, large_file: tuple[int, bytes]
) -> None:
    descriptor, data = large_file
    parts = [(0, 10), (5, 3 * MIB), (0, 0), (len(data) - 7, 7), (0, len(data))]
    expected = b"<" + b"|".join(data[start : start + size] for start, size in parts) + b"|>"

    def handler(_: Request) -> Response:
        pieces: list[Piece] = [b"<"]
        for start, size in parts:
            pieces += [FileSlice(descriptor, start, size), b"|"]
        body = Pieces(*pieces, b">")
        return Response(200, body=body, length=len(expected) if length_is_told else None)

    async with serving(handler) as served:
        client = await served.connect()
        for _ in range(2):
            client.get()
            assert (await client.answer()).body == expected


@in_loop
async def test_a_file_goes_as_slowly_as_it_is_taken(large_file: tuple[int, bytes]) -> None:
    """The socket takes little at a time, so that sends are short and have to be waited for."""
    descriptor, data = large_file

    def handler(_: Request) -> Response:
        body = Pieces(FileSlice(descriptor, 0, len(data)))
        return Response(200, body=body, length=len(data))

    async with serving(handler) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await client.reader.readuntil(b"\r\n\r\n")
        received = bytearray()
        for _ in range(4):
            received += await client.reader.readexactly(len(data) // 8)
            served.pass_time(40)  # it moves, and so it is not cut
        received += await client.reader.readexactly(len(data) - len(received))
        assert bytes(received) == data
        client.get(method="HEAD")
        assert (await client.answer(has_body=False)).status == 200


@in_loop
async def test_a_file_waits_for_what_was_written_before_it(large_file: tuple[int, bytes]) -> None:
    descriptor, data = large_file
    plain, part = b"x" * MIB, FileSlice(descriptor, 7, 65536)
    expected = (plain + data[7 : 7 + 65536]) * 12

    def handler(_: Request) -> Response:
        pieces: list[Piece] = [plain, part]
        return Response(200, body=Pieces(*pieces * 12), length=len(expected))

    async with serving(handler) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        assert (await client.answer()).body == expected


@in_loop
async def test_a_file_nobody_takes_is_cut(large_file: tuple[int, bytes]) -> None:
    descriptor, data = large_file
    told: list[int] = []
    bodies = []

    def handler(_: Request) -> Response:
        bodies.append(Pieces(*[FileSlice(descriptor, 0, len(data))] * 100))
        return Response(200, body=bodies[-1], length=len(data) * 100)

    async with serving(handler, on_done=lambda *facts: told.append(facts[1])) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await until(lambda: bool(bodies) and bodies[0].given > 0)
        for _ in range(200):
            await asyncio.sleep(0)
        served.pass_time(1)
        served.pass_time(61)
        await served.is_empty()
        await until(lambda: told == [499])
        assert bodies[0].is_closed


@in_loop
async def test_a_client_may_leave_in_a_file(large_file: tuple[int, bytes]) -> None:
    descriptor, data = large_file
    told: list[int] = []

    def handler(_: Request) -> Response:
        body = Pieces(*[FileSlice(descriptor, 0, len(data))] * 100)
        return Response(200, body=body, length=len(data) * 100)

    async with serving(handler, on_done=lambda *facts: told.append(facts[1])) as served:
        for _ in range(3):
            client = await served.connect_slowly(buffer_bytes=4096)
            client.get()
            await client.reader.readexactly(1000)
            client.reset()
        await until(lambda: told == [499] * 3)
        await served.is_empty()


@in_loop
async def test_a_file_shorter_than_told_never_looks_whole(
    large_file: tuple[int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    descriptor, data = large_file

    def handler(_: Request) -> Response:
        body = Pieces(FileSlice(descriptor, len(data) - 3, 10))
        return Response(200, body=body, length=10)

    with caplog.at_level(logging.CRITICAL):
        async with serving(handler) as served:
            client = await served.connect()
            client.get()
            assert len((await client.rest()).partition(b"\r\n\r\n")[2]) <= 3


@in_loop
async def test_a_file_that_the_kernel_does_not_send_is_read() -> None:
    expected = Path("/proc/self/cmdline").read_bytes()  # made up as it is read
    descriptor = os.open("/proc/self/cmdline", os.O_RDONLY)
    try:
        body = Pieces(FileSlice(descriptor, 0, len(expected)))
        async with serving(lambda _: Response(200, body=body, length=len(expected))) as served:
            client = await served.connect()
            client.get()
            assert (await client.answer()).body == expected
    finally:
        os.close(descriptor)


@in_loop
async def test_a_file_goes_over_a_local_socket(
    large_file: tuple[int, bytes], tmp_path: Path
) -> None:
    descriptor, data = large_file
    body = Pieces(FileSlice(descriptor, 0, len(data)))
    async with serving(lambda _: Response(200, body=body, length=len(data))) as served:
        await served.server.listen_unix(tmp_path / "a.sock", 0o600)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a.sock"))
        client = Client(reader, writer)
        client.get()
        assert (await client.answer()).body == data
        await client.close()


@pytest.mark.parametrize("kind", ["plain", "pieces", "refused"])
@pytest.mark.parametrize("goes_away", [False, True])
@in_loop
async def test_a_request_ends_when_its_response_is_taken_or_its_client_gone(
    kind: str, goes_away: bool
) -> None:
    ended: list[str] = []
    size = 16 * MIB

    def handler(request: Request) -> Response:
        request.at_end(lambda: ended.append(kind))
        if kind == "plain":
            return Response(200, body=bytes(size))
        if kind == "pieces":
            return Response(200, body=Pieces(*[bytes(MIB)] * 16), length=size)
        raise ZeroDivisionError

    async with serving(handler) as served:
        client = await served.connect_slowly(buffer_bytes=4096)
        client.get()
        await client.reader.readuntil(b"\r\n\r\n")
        if kind != "refused":
            (connection,) = served.server._connections
            await until(lambda: not connection._out.is_writable)
            assert not ended
            if goes_away:
                client.reset()
            else:
                await client.reader.readexactly(size)
        await until(lambda: bool(ended))
        await client.close()
        await served.is_empty()
        assert ended == [kind]
