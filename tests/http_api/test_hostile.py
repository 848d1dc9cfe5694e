"""Clients that send what they must not, or too slowly: refused, bounded, no harm to others."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.api import admin, media, objects, topics
from lakebed.api.operation import SMALL_BODY_BYTES
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.base.units import GIB, KIB, MIB
from lakebed.http.limits import Limits
from lakebed.http_api.app import NO_CALL
from lakebed.http_api.service import LARGE_MAX
from tests.http_api.live_api import LiveApi, answer_of, open_api

JSON = {"Content-Type": media.JSON}
MSGPACK = {"Content-Type": media.MSGPACK}


@pytest.fixture(scope="module")
def live_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    """Whatever was sent: it serves others, and the store has what it had."""
    with open_api(tmp_path_factory.mktemp("hostile")) as live:
        live.call(topics.CREATE_TOPIC, body=topics.NewTopic("orders"))
        live.call(topics.PRODUCE, {"topic": "orders"}, body=topics.Produce([b"one", b"two"]))
        yield live
        live.hang_up()
        assert live.call(topics.LIST_TOPICS).topics == ["orders"]
        fetched = live.call(topics.FETCH, {"topic": "orders", "partition": 0})
        assert fetched.values == [b"one", b"two"]
        counted = live.call(admin.COUNTERS).counters["door"]
        del counted[NO_CALL]  # with methods and versions that are not known
        assert not [name for name, outcomes in counted.items() if "5xx" in outcomes]


PATHS = [
    "/", "//", "/v1", "/v1/", "/v1//topics", "//v1/topics", "/v1/topics/", "/v2/topics",
    "/V1/topics", "/v1/topics;a=b", "/v1/topics/%00", "/v1/topics/%ff", "/v1/topics/%c0%ae",
    "/v1/topics/..", "/v1/topics/%2e%2e", "/v1/topics/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "/v1/topics/..%2f..", "/v1/topics/%", "/v1/topics/%zz",
    "/v1/topics/orders/partitions/-1/offset",
    "/v1/topics/orders/partitions/x/messages", "/v1/topics/orders/partitions/%d9%a1/messages",
    "/v1/topics/orders/partitions/99999999999999999999/messages",
    "/v1/topics/orders/partitions/" + "9" * 5000 + "/messages",
    "/v1/topics/orders/partitions/1/messages", "/v1/topics/" + "a" * 10_000,
    "/v1/logs/..%2ftopics", "/v1/logs/%00", "/v1/logs/" + "a" * 300,
    "/v1/buckets/%2e%2e/objects/a", "/v1/buckets/photos/objects/../../../topics",
    "/v1/work/%00", "/v1/pins/..%2f..%2fstore.json", "/v1/keys/%00",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_wrong_paths_are_refused(live_api: LiveApi, method: str, path: str) -> None:
    answer = live_api.ask(method, path)
    assert 400 <= answer.status < 500
    assert answer.headers["content-type"] == media.PROBLEM


QUERIES = [
    "?", "?x=1", "?offset", "?offset=", "?offset=x", "?offset=-1", "?offset=1&offset=2",
    "?offset=1.5", "?offset=NaN", "?offset=%00", "?offset=%ff", "?offset=" + "9" * 40,
    "?offset=9223372036854775808", "?offset=" + "9" * 5000, "?max_messages=0",
    "?max_messages=100001", "?max_bytes=0", "?wait_ms=60001", "?offset=true", "?offset[]=1",
    "?&&&&", "?" + "&".join(["offset=1"] * 200), "?offset=1;max_bytes=1", "?OFFSET=1",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:40])
def test_wrong_queries_are_refused(live_api: LiveApi, query: str) -> None:
    answer = live_api.ask("GET", "/v1/topics/orders/partitions/0/messages" + query)
    assert answer.status == (200 if query == "?" else 400)


@pytest.mark.parametrize(
    "kind",
    [
        "text/html", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data",
        "application/json2", "*/*", "", ";", "application", "x" * 1000, "application/octet-stream",
    ],
)  # fmt: skip
def test_bodies_of_other_kinds_are_refused(live_api: LiveApi, kind: str) -> None:
    answer = live_api.ask("POST", "/v1/topics", b'{"name":"made"}', {"Content-Type": kind})
    assert (answer.status, answer.json["code"]) == (415, "unsupported-media")


JSON_BODIES: list[bytes] = [
    b"", b" ", b"{", b"}", b"[]", b"null", b"1", b'"text"', b'{"name"', b'{"name":', b'{"name":"a"',
    b'{"name":1}', b'{"name":null}', b'{"name":["a"]}', b'{"name":"a","partitions":"1"}',
    b'{"name":"a","partitions":1.5}', b'{"name":"a","partitions":NaN}',
    b'{"name":"a","partitions":Infinity}', b'{"name":"a","partitions":1e400}',
    b'{"name":"a","partitions":-1}', b'{"name":"a","partitions":0}',
    b'{"name":"a","partitions":' + b"9" * 400 + b"}", b'{"name":"a","unknown":1}',
    b'{"name":"a","settings":{"unknown":1}}', b'{"name":"a","settings":{"segment_bytes":"x"}}',
    b'{"name":"a","settings":{"segment_bytes":' + b"9" * 40 + b"}}",
    b'{"name":"a","settings":{"segment_bytes":1e300}}', b'{"name":""}', b'{"name":"../a"}',
    b'{"name":"a\\u0000b"}', b'{"name":"\\ud800"}', b'{"name":"\xff"}', b"\xef\xbb\xbf{}",
    b'{"name":"a"} {"name":"b"}', b'{"name":"a"}x', b"[" * 100_000, b'{"a":' * 100_000,
    b'{"name":' + b"[" * 5000 + b"]" * 5000 + b"}",
    '{"name":"a"}'.encode("utf-16"), b'{"name":"' + b"a" * 5000 + b'"}',
]  # fmt: skip


@pytest.mark.parametrize("body", JSON_BODIES, ids=lambda body: repr(body[:40]))
def test_json_that_is_none_or_says_what_it_must_not_is_refused(
    live_api: LiveApi, body: bytes
) -> None:
    answer = live_api.ask("POST", "/v1/topics", body, JSON)
    assert answer.status == 400, answer.body
    assert answer.headers["content-type"] == media.PROBLEM


MSGPACK_BODIES: list[bytes] = [
    b"\xc1", b"\xc0", b"\x80", b"\x81", b"\x81\xa4name", b"\x81\xa4name\xa1", b"\x81\xa4name\x01",
    b"\x82\xa4name\xa1a\xa7unknown\x01", b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 100_000, b"\xff" * 100,
    b"\x81\xa4name\xa1\xff", b"\x81\xc4\x04name\xa1a\x00", b"\xc7\x04\x05name",
    b"\x81\xa4name\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    msgspec.msgpack.encode({"name": "a", "partitions": 2**64 - 1}),
    msgspec.msgpack.encode({"name": "a", "partitions": -(2**63)}),
    msgspec.msgpack.encode({"name": "a", "partitions": float("nan")}),
]  # fmt: skip


@pytest.mark.parametrize("body", MSGPACK_BODIES, ids=lambda body: repr(body[:40]))
def test_messagepack_that_is_none_is_refused(live_api: LiveApi, body: bytes) -> None:
    answer = live_api.ask("POST", "/v1/topics", body, MSGPACK)
    assert answer.status == 400, answer.body


@pytest.mark.parametrize(
    "body",
    [
        {"values": "text"}, {"values": ["not base64!"]}, {"values": ["YQ"]}, {"values": [1]},
        {"values": ["YQ=="], "keys": []}, {"values": ["YQ=="], "headers": [[["a"]]]},
        {"values": ["YQ=="], "headers": [[["a", "YQ==", "b"]]]},
        {"values": ["YQ=="], "ack": "never"},
        {"values": ["YQ=="], "timestamps_ms": [2**70]}, {"values": ["YQ=="], "timestamps_ms": []},
        {"values": ["YQ=="], "partition": 2**70}, {"values": ["YQ=="], "partition": -1},
        {"values": ["YQ=="], "not_before_ms": 2**70}, {"values": ["YQ=="], "timeout_ms": 1e300},
        {"values": ["YQ=="], "producer": {"id": 2**64, "epoch": 0, "sequence": 0}},
        {"values": ["YQ=="], "partition": 0, "producer": {"id": 1, "epoch": -1, "sequence": 0}},
    ],
    ids=lambda body: str(body)[:60],
)  # fmt: skip
def test_messages_that_cannot_be_are_refused_and_none_is_appended(
    live_api: LiveApi, body: dict[str, Any]
) -> None:
    answer = live_api.ask("POST", "/v1/topics/orders/messages", json.dumps(body).encode(), JSON)
    assert answer.status in (400, 404, 409), answer.body


def test_of_a_name_that_is_there_twice_one_counts_and_nothing_breaks(live_api: LiveApi) -> None:
    body = b'{"settings":{"unknown":1},"settings":{"unknown":2},"name":"a"}'
    assert live_api.ask("POST", "/v1/topics", body, JSON).status == 400


def test_a_length_beyond_the_limit_is_refused_before_the_body_is_read(live_api: LiveApi) -> None:
    for length in (SMALL_BODY_BYTES + 1, 100 * GIB, 2**63, 10**30):
        head = f"POST /v1/topics HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n"
        told = live_api.send(head.encode() + b"Expect: 100-continue\r\n\r\n")
        assert told.split(b" ")[1] in (b"413", b"400")
        assert b"problem+json" in told


def test_a_chunked_body_is_cut_off_at_the_limit(live_api: LiveApi) -> None:
    connection = live_api.connect()
    connection.putrequest("POST", "/v1/topics")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    chunk = b"10000\r\n" + b" " * 64 * KIB + b"\r\n"
    for _ in range(SMALL_BODY_BYTES // (64 * KIB) + 1):
        connection.send(chunk)
    answer = answer_of(connection.getresponse())
    assert (answer.status, answer.json["code"]) == (413, "too-large")
    assert answer.headers["connection"] == "close"
    connection.close()
    assert live_api.api.service.budget.body_bytes == 0


@pytest.mark.parametrize(
    "chunks", [b"x\r\n", b"-1\r\n", b"5\r\nabc", b"ffffffffffffffffff\r\n", b"3\r\nabcdef\r\n"]
)
def test_chunks_that_are_none_are_refused(live_api: LiveApi, chunks: bytes) -> None:
    head = b"POST /v1/topics HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    told = live_api.send(head + chunks)
    assert not told or told.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01", b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"GET\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\n\r\n", b"GET /v1/health HTTP/1.1\nHost: h\n\n",
        b"GET /v1/health HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/topics HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    ],
    ids=lambda data: repr(data[:40]),
)  # fmt: skip
def test_what_is_no_request_is_refused_or_cut(live_api: LiveApi, data: bytes) -> None:
    told = live_api.send(data)
    assert not told or 400 <= int(told.split(b" ")[1]) < 600
    assert not told or b"application/problem+json" in told


def test_slow_clients_are_cut_and_others_are_served(tmp_path: Path) -> None:
    """Half a head, half a small body, half a large one, and one that says nothing at all."""
    clock = SimulatedClock()
    limits = Limits(header_s=5, body_idle_s=5, keep_alive_s=20)
    with open_api(tmp_path, limits=limits, api_options={"clock": clock}) as live_api:
        head = b"POST /v1/topics HTTP/1.1\r\nHost: h\r\n"
        begun = [
            head,
            head + b"Content-Length: 100\r\n\r\n{",
            head + b"Content-Length: 500000\r\n\r\n{",
            b"",
        ]
        slow = [_connected(live_api, data) for data in begun]
        live_api.in_loop(_until_there(live_api, len(slow)))
        clock.advance(6 * 10**9)
        live_api.in_loop(_sweep(live_api))
        told = [_rest(one) for one in slow[:3]]
        assert told[0].startswith(b"HTTP/1.1 408 ")
        assert told[1].startswith(b"HTTP/1.1 408 ")
        assert told[2] == b""
        assert live_api.ask("GET", "/v1/state").status == 200
        clock.advance(21 * 10**9)
        live_api.in_loop(_sweep(live_api))
        assert _rest(slow[3]) == b""
        assert live_api.api.service.budget.requests == 0


def test_of_too_many_connections_the_last_are_told_so_and_the_first_go_on(tmp_path: Path) -> None:
    with open_api(tmp_path, limits=Limits(connections_max=20)) as live_api:
        assert live_api.ask("GET", "/v1/health").status == 200
        others = [_connected(live_api, b"") for _ in range(19)]
        beyond = [_connected(live_api, b"") for _ in range(10)]
        for one in beyond:
            told = _rest(one)
            assert told.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 1" in told
        assert live_api.ask("GET", "/v1/health").status == 200
        for one in others:
            one.close()


def test_large_answers_for_who_does_not_read_them_do_not_pile_up(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=topics.NewTopic("large"))
        for _ in range(4):
            sent = topics.Produce([b"x" * MIB] * 4)
            live_api.call(topics.PRODUCE, {"topic": "large"}, body=sent)
        get = (
            b"GET /v1/topics/large/partitions/0/messages?max_bytes=16777216 HTTP/1.1\r\nHost: h\r\n"
        )
        deaf = [_connected(live_api, (get + b"\r\n") * 20) for _ in range(5)]
        assert live_api.ask("GET", "/v1/state").status == 200
        counted = live_api.call(admin.COUNTERS).counters["door"].get("fetch", {}).get("2xx", 0)
        assert counted <= len(deaf), "the next request waits until the answer before is taken"
        for one in deaf:
            one.close()


def _connected(live_api: LiveApi, data: bytes) -> socket.socket:
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(60)
    plain.connect(live_api.socket_path)
    plain.sendall(data)
    return plain


def _rest(plain: socket.socket) -> bytes:
    found = bytearray()
    with plain:
        while piece := plain.recv(65536):
            found += piece
            plain.shutdown(socket.SHUT_WR) if b"\r\n\r\n" in found else None
    return bytes(found)


async def _until_there(live_api: LiveApi, count: int) -> None:
    while live_api.api.server.connection_count < count or not live_api.api.service.budget.requests:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)


async def _sweep(live_api: LiveApi) -> None:
    live_api.api.server.sweep()


def test_a_small_object_does_not_wait_for_any_number_of_slow_large_ones(tmp_path: Path) -> None:
    begun = (
        b"PUT /v1/buckets/photos/objects/slow HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/octet-stream\r\nContent-Length: 6000000\r\n"
        b"Expect: 100-continue\r\n\r\n"
    )
    with open_api(tmp_path) as live_api, ExitStack() as stack:
        photos = live_api.store.bucket("photos")
        for _ in range(2 * LARGE_MAX):
            slow = stack.enter_context(socket.socket(socket.AF_UNIX))
            slow.settimeout(10)  # a place among the large ones is waited for longer
            slow.connect(live_api.socket_path)
            slow.sendall(begun)
            assert slow.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            slow.sendall(b"a")
        names = {"bucket": "photos", "key": "small"}
        live_api.call(objects.PUT_OBJECT, names, body=bytes(MIB // 2))
        assert photos.head("small").size == MIB // 2
        live_api.hang_up()
