"""Requests and their answers on one connection: order, reuse, and what goes without a body."""

from __future__ import annotations

import asyncio
import logging
import stat
from pathlib import Path

import pytest

from lakebed.http.connection import REFUSED_MAX
from lakebed.http.connection_limit import ConnectionLimit
from lakebed.http.limits import Limits
from lakebed.http.refusal import Refusal
from lakebed.http.request import Request, RequestLabel
from lakebed.http.response import Response
from lakebed.http.server import Server
from tests.http.serving import Client, hello, in_loop, serving, tell_request, until


@in_loop
async def test_a_connection_serves_one_request_after_another() -> None:
    async with serving(tell_request) as served:
        client = await served.connect()
        for number in range(3):
            client.put(f"/a%20b?n={number}", b"x" * number)
            answer = await client.answer()
            assert answer.status == 200
            lines = answer.body.split(b"\n")
            assert lines[:3] == [b"PUT", b"/a%20b", f"n={number}".encode()]
            assert lines[4] == b"x" * number
            assert "connection" not in answer.headers
        assert served.server.connection_count == 1


@in_loop
async def test_pipelined_requests_are_answered_in_order_though_later_ones_are_quicker() -> None:
    first_may_end = asyncio.Event()

    async def answer_first(request: Request) -> Response:
        await first_may_end.wait()
        return Response(200, body=request.raw_path)

    def handler(request: Request) -> object:
        if request.raw_path == b"/0":
            return answer_first(request)
        return Response(200, body=request.raw_path)

    async with serving(handler) as served:  # type: ignore[arg-type]
        client = await served.connect()
        for number in range(40):
            client.get(f"/{number}")
        await until(lambda: served.server.connection_count == 1)
        first_may_end.set()
        for number in range(40):
            assert (await client.answer()).body == f"/{number}".encode()


@in_loop
async def test_a_huge_pipeline_is_answered_and_held_in_little_memory() -> None:
    held = []

    def handler(request: Request) -> Response:
        held.append(len(connection._pending))
        return Response(200, body=request.raw_path)

    limits = Limits(pipelined_bytes=4096)
    async with serving(handler, limits=limits) as served:
        client = await served.connect()
        await until(lambda: served.server.connection_count == 1)
        (connection,) = served.server._connections
        count = 30_000
        client.send_bytes(
            b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(count))
        )
        for number in range(count):
            assert (await client.answer()).body == b"/%d" % number
        assert max(held) < 600_000  # what two reads of the socket bring


@in_loop
async def test_requests_sent_before_the_client_stops_sending_are_answered() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        for _ in range(100):
            client.get()
        client.writer.write_eof()
        assert (await client.rest()).count(b"hello") == 100
        await served.is_empty()


@in_loop
async def test_a_request_cut_into_single_bytes_is_understood() -> None:
    async with serving(tell_request) as served:
        client = await served.connect()
        data = b"PUT /a HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc"
        for byte in data:
            client.send_bytes(bytes([byte]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert (await client.answer()).body.endswith(b"\nabc")


@in_loop
async def test_an_empty_line_before_a_request_is_passed_over() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        client.send_bytes(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n")
        assert (await client.answer()).status == 200
        client.send_bytes(b"\r")
        client.send_bytes(b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.answer()).status == 200


WITHOUT_BODY = [
    ("HEAD", Response(200, body=b"hello"), "5"),
    ("HEAD", Response(200, length=7), "7"),
    ("HEAD", Response(200), "0"),
    ("HEAD", Response(404, body=b"no"), "2"),
    ("GET", Response(204, body=b""), None),
    ("DELETE", Response(204), None),
    ("GET", Response(304), None),
    ("GET", Response(304, length=9), "9"),
    ("GET", Response(200), "0"),
]


@pytest.mark.parametrize(("method", "response", "length"), WITHOUT_BODY)
@in_loop
async def test_what_has_no_body_still_tells_its_length(
    method: str, response: Response, length: str | None
) -> None:
    async with serving(lambda _: response) as served:
        client = await served.connect()
        client.get(method=method)
        client.get("/again", method=method)
        for _ in range(2):
            answer = await client.answer(has_body=False)
            assert answer.status == response.status
            assert answer.headers.get("content-length") == length


@in_loop
async def test_version_1_0_closes_unless_asked_not_to() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        client.send("GET / HTTP/1.0", "Connection: keep-alive")
        assert (await client.answer()).headers["connection"] == "keep-alive"
        client.send("GET / HTTP/1.0")
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.rest() == b""


@in_loop
async def test_either_side_can_close() -> None:
    async with serving(lambda request: Response(200, closes=request.raw_path == b"/end")) as served:
        client = await served.connect()
        client.get("/", "Connection: close")
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.rest() == b""
        client = await served.connect()
        client.get("/end")
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.rest() == b""


@in_loop
async def test_the_date_is_told_and_moves_with_the_clock() -> None:
    async with serving(hello) as served:
        client = await served.connect()
        client.get()
        assert (await client.answer()).headers["date"] == "Tue, 14 Nov 2023 22:13:20 GMT"
        served.pass_time(2)
        client.get()
        assert (await client.answer()).headers["date"] == "Tue, 14 Nov 2023 22:13:22 GMT"


@in_loop
async def test_ids_are_sixteen_digits_and_differ() -> None:
    ids = []

    def handler(request: Request) -> Response:
        ids.append(request.id)
        return Response(200)

    async with serving(handler) as served:
        client = await served.connect()
        for _ in range(100):
            client.get()
            await client.answer()
    assert len(set(ids)) == 100
    assert all(len(one) == 16 and set(one) <= set("0123456789ABCDEF") for one in ids)


@in_loop
async def test_the_end_of_every_request_is_told() -> None:
    told: list[tuple[str, int, int, int, int]] = []

    def note(request: Request | None, status: int, received: int, sent: int, ns: int) -> None:
        told.append((request.method if request else "-", status, received, sent, ns))

    async with serving(tell_length, on_done=note) as served:
        client = await served.connect()
        client.put("/", b"12345")
        client.get(method="HEAD")
        client.send_bytes(b"nonsense\r\n\r\n")
        await client.rest()
    assert told[:2] == [("PUT", 200, 5, 1, 0), ("HEAD", 200, 0, 0, 0)]
    assert told[2][:3] == ("-", 400, 0)
    assert told[2][3] > 0


def tell_length(request: Request) -> Response:
    return Response(200, body=str(request.body.length).encode())


@in_loop
async def test_one_who_counts_and_fails_fails_no_request(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.CRITICAL):
        async with serving(hello, on_done=fail) as served:
            client = await served.connect()
            for _ in range(2):
                client.get()
                assert (await client.answer()).body == b"hello"


def raise_at_once(_: Request) -> Response:
    raise ZeroDivisionError("a secret")


async def raise_later(_: Request) -> Response:
    await asyncio.sleep(0)
    raise ZeroDivisionError("a secret")


def answer_badly(_: Request) -> Response:
    return Response(200, [("X", "a\r\nSet-Cookie: b")])


def answer_with_a_line_feed(_: Request) -> Response:
    return Response(200, [("X", "a\nb")])


def answer_unspeakably(_: Request) -> Response:
    return Response(200, [("X", "\u20ac")])


BAD_HANDLERS = [
    raise_at_once,
    raise_later,
    answer_badly,
    answer_with_a_line_feed,
    answer_unspeakably,
]


@pytest.mark.parametrize("handler", BAD_HANDLERS)
@in_loop
async def test_a_handler_that_fails_is_answered_for_and_the_connection_ends(
    handler: object, caplog: pytest.LogCaptureFixture
) -> None:
    ids = []

    def render(refusal: Refusal) -> Response:
        ids.append(refusal.request_id)
        assert refusal.request is not None
        assert refusal.request.id == refusal.request_id
        return Response(refusal.status, [("X-Id", refusal.request_id)], b"sorry")

    with caplog.at_level(logging.ERROR):
        async with serving(handler, on_refusal=render) as served:  # type: ignore[arg-type]
            client = await served.connect()
            client.get()
            client.get("/never")
            answer = await client.answer()
            assert (answer.status, answer.body) == (500, b"sorry")
            assert answer.headers["connection"] == "close"
            assert await client.rest() == b""
    assert answer.headers["x-id"] in caplog.text
    assert len(ids) == 1


@in_loop
async def test_a_refusal_that_cannot_be_rendered_is_told_plainly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def render(_: Refusal) -> Response:
        raise ZeroDivisionError

    with caplog.at_level(logging.CRITICAL):
        async with serving(hello, on_refusal=render) as served:
            client = await served.connect()
            client.send_bytes(b"GET / HTTP/9.9\r\n\r\n")
            answer = await client.answer()
            assert answer.status == 505
            assert answer.body.startswith(b"505 ")


def greet_with_key(request: Request) -> Response:
    request.label = RequestLabel("greet", access_key="ada")
    return hello(request)


@pytest.mark.parametrize(
    "says",
    [b"", b"GET / HTTP/1.1\r\nHost:", b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na"],
)
@in_loop
async def test_the_oldest_idle_connection_without_a_key_makes_room(says: bytes) -> None:
    async with serving(greet_with_key, limits=Limits(connections_max=3)) as served:
        known = await served.connect()
        known.get()
        assert (await known.answer()).status == 200
        strangers = [await served.connect() for _ in range(2)]
        for stranger in strangers:
            stranger.send_bytes(says)
        await until(lambda: served.server.connection_count == 3)
        for stranger in strangers:
            fresh = await served.connect()
            fresh.get()
            assert (await fresh.answer()).status == 200
            assert await stranger.rest() == b""
        await until(lambda: served.server.connection_count == 3)
        refused = await served.connect()
        assert (await refused.answer()).status == 503, "all others have a key"
        known.get()
        assert (await known.answer()).status == 200


@in_loop
async def test_servers_may_share_the_room_for_connections() -> None:
    room = ConnectionLimit(2)
    servers = [Server(hello, room=room) for _ in range(2)]
    ports = [await server.listen("127.0.0.1", 0) for server in servers]
    clients = [await asyncio.open_connection("127.0.0.1", port) for port in (*ports, ports[1])]
    await until(lambda: [server.connection_count for server in servers] == [0, 2])
    assert await clients[0][0].read() == b""
    for server in servers:
        server.close()
    for _, writer in clients:
        writer.close()
    await until(lambda: not any(server.connection_count for server in servers))


@in_loop
async def test_more_connections_than_allowed_are_refused() -> None:
    async with serving(greet_with_key, limits=Limits(connections_max=2)) as served:
        clients = [await served.connect() for _ in range(2)]
        for client in clients:
            client.get()
            assert (await client.answer()).status == 200
        third = await served.connect()
        third.get()
        assert (await third.answer()).status == 503
        assert await third.rest() == b""
        await clients[0].close()
        await until(lambda: served.server.connection_count <= 2)
        await third.close()
        await until(lambda: served.server.connection_count == 1)
        fourth = await served.connect()
        fourth.get()
        assert (await fourth.answer()).status == 200


@in_loop
async def test_far_more_connections_than_allowed_are_cut() -> None:
    async with serving(greet_with_key, limits=Limits(connections_max=1)) as served:
        clients = [await served.connect()]
        clients[0].get()
        assert (await clients[0].answer()).status == 200
        clients += [await served.connect() for _ in range(REFUSED_MAX)]
        await until(lambda: served.server.connection_count == 1 + REFUSED_MAX)
        one_more = await served.connect()
        assert await one_more.rest() == b""
        for client in clients[1:]:
            assert (await client.answer()).status == 503
        clients[0].get()
        assert (await clients[0].answer()).status == 200


@in_loop
async def test_a_local_socket_is_served_and_only_its_owner_may_use_it(tmp_path: Path) -> None:
    async with serving(hello) as served:
        path = tmp_path / "a.sock"
        for _ in range(2):  # the second time one is there already
            await served.server.listen_unix(path, 0o600)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        reader, writer = await asyncio.open_unix_connection(str(path))
        client = Client(reader, writer)
        client.get()
        assert (await client.answer()).body == b"hello"
        await client.close()
