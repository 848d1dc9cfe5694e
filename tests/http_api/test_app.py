"""From a request to an answer: what every answer has, how failures are told, counted and logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.api import admin, groups, media, objects, topics
from lakebed.api.admin import Health
from lakebed.api.problems import error_of
from lakebed.api.topics import BatchCommit
from lakebed.base.errors import Busy, Closed, Corrupt, NoSpace, NotFound
from lakebed.base.layout import Buffer
from lakebed.base.units import KIB, MIB
from lakebed.http.response import Response
from lakebed.http_api.call import HERE_BYTES_MAX, Call
from lakebed.http_api.limits import ApiLimits
from lakebed.http_api.service import Service
from tests.http.serving import in_loop, until
from tests.http_api.handling import handling
from tests.http_api.live_api import open_api


async def hello(_service: Service, _call: Call) -> Health:
    return Health("ok", "1")


def test_every_answer_has_an_id_and_says_who_answers(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        answers = [
            live_api.ask("GET", "/v1/health"),
            live_api.ask("GET", "/v1/nothing"),
            live_api.ask("DELETE", "/v1/health"),
        ]
    assert [answer.status for answer in answers] == [200, 404, 405]
    ids = {answer.headers["lakebed-request-id"] for answer in answers}
    assert len(ids) == 3
    assert {len(one) for one in ids} == {16}
    assert {answer.headers["server"] for answer in answers} == {"Lakebed"}
    assert answers[1].json["request_id"] == answers[1].headers["lakebed-request-id"]


def test_a_struct_is_told_as_json_or_as_messagepack_for_whom_accepts_it(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        plain = live_api.ask("GET", "/v1/health", headers={"Accept": "*/*"})
        packed = live_api.ask("GET", "/v1/health", headers={"Accept": media.MSGPACK})
    assert plain.headers["content-type"] == media.JSON
    assert packed.headers["content-type"] == media.MSGPACK
    assert msgspec.msgpack.decode(packed.body) == plain.json


def test_a_head_tells_what_a_get_would_without_its_body(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        whole, head = live_api.ask("GET", "/v1/health"), live_api.ask("HEAD", "/v1/health")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.body))


@pytest.mark.parametrize("method", ["OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
def test_a_method_that_is_not_taken_is_told_those_that_are(tmp_path: Path, method: str) -> None:
    with open_api(tmp_path) as live_api:
        answer = live_api.ask(method, "/v1/health")
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.json["code"] == "no-such-method"


def test_what_the_protocol_refuses_is_a_problem_document_too(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        for data in (b"GET /x\r\n\r\n", b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n"):
            head, _, body = live_api.send(data).partition(b"\r\n\r\n")
            assert b"Content-Type: application/problem+json" in head
            assert b"Lakebed-Request-Id: " in head
            assert json.loads(body)["status"] == int(head.split(b" ")[1])


@pytest.mark.parametrize(
    ("error", "status", "retries_s"),
    [
        (NotFound("no topic"), 404, None),
        (Busy("full"), 429, "1"),
        (Closed("closed"), 503, "1"),
        (NoSpace("full"), 507, "5"),
        (Corrupt("bad", path="/a/file", offset=3), 500, None),
    ],
)
def test_an_error_is_told_so_that_the_same_error_can_be_made_of_it(
    tmp_path: Path, error: Exception, status: int, retries_s: str | None
) -> None:
    async def fail(_service: Service, _call: Call) -> None:
        raise error

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, {admin.STATE: fail}) as live_api:
            client = await live_api.served.connect()
            client.get("/v1/state")
            answer = await client.answer()
            assert answer.status == status
            assert answer.headers.get("retry-after") == retries_s
            told = error_of(json.loads(answer.body))
            assert (type(told), str(told)) == (type(error), str(error))

    run()


def test_a_failure_of_our_own_is_logged_whole_and_told_without_details(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_service: Service, _call: Call) -> None:
        raise ZeroDivisionError("inner details")

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, {admin.STATE: fail, admin.HEALTH: hello}) as live_api:
            client = await live_api.served.connect()
            client.get("/v1/state")
            answer = await client.answer()
            assert answer.status == 500
            assert b"inner" not in answer.body
            request_id = answer.headers["lakebed-request-id"]
            [line] = [one for one in caplog.messages if one.startswith("request_failed")]
            for fact in (request_id, "operation=state", "ZeroDivisionError: inner details"):
                assert fact in line
            client.get("/v1/health")
            assert (await client.answer()).status == 200, "the connection goes on"

    with caplog.at_level(logging.ERROR):
        run()


@pytest.mark.parametrize(
    "error", [Busy("the queue is full"), WouldBlock(BackpressureKind.FLUSH, "the log is full")]
)
def test_that_there_is_no_room_now_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Busy
) -> None:
    async def fail(_service: Service, _call: Call) -> None:
        raise error

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, {admin.STATE: fail}) as live_api:
            client = await live_api.served.connect()
            client.get("/v1/state")
            assert (await client.answer()).status == 429
            assert live_api.service.counters.counter("state.4xx").value == 1

    with caplog.at_level(logging.INFO):
        run()
    assert not [one for one in caplog.messages if "request" in one]


@pytest.mark.parametrize("size", [1, HERE_BYTES_MAX, HERE_BYTES_MAX + 1, MIB])
def test_a_large_body_of_any_call_is_read_beside_the_loop(tmp_path: Path, size: int) -> None:
    async def take(_service: Service, call: Call) -> Health:
        return Health((await call.document(BatchCommit)).application[:1], "1")

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, {groups.OPEN_GROUP: take}) as live_api:
            ran: list[object] = []
            plain_run = live_api.service.run

            def noted(work: Callable[[], Any]) -> Any:
                ran.append(work)
                return plain_run(work)

            live_api.service.run = noted  # type: ignore[method-assign]
            document = msgspec.json.encode(BatchCommit("a", 1, []))
            body = document + b" " * max(0, size - len(document))
            client = await live_api.served.connect()
            client.put("/v1/topics/orders/groups/g", body)
            answer = await client.answer()
            assert json.loads(answer.body)["status"] == "a"
            assert len(ran) == (1 if size > HERE_BYTES_MAX else 0)
            client.put("/v1/topics/orders/groups/g", b"x" * size)
            assert (await client.answer()).status == 400

    run()


@pytest.mark.parametrize("limit", ["requests_max", "body_bytes_max", "one body"])
def test_what_goes_beyond_a_limit_of_the_api_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    body, status = (bytes(2 * MIB), 413) if limit == "one body" else (bytes(200 * KIB), 429)
    limits = ApiLimits(body_bytes_max=128 * KIB if limit == "body_bytes_max" else 16 * MIB)
    with (
        caplog.at_level(logging.WARNING),
        open_api(tmp_path, api_options={"api_limits": limits}) as live_api,
    ):
        budget = live_api.api.service.budget
        others = limits.requests_max if limit == "requests_max" else 0
        budget.requests += others
        answer = live_api.ask("POST", "/v1/topics", body)
        budget.requests -= others
    assert answer.status == status
    [line] = [one for one in caplog.messages if one.startswith("request_refused")]
    assert f"status={status}" in line
    assert "operation=create_topic" in line


def test_refused_calls_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), open_api(tmp_path) as live_api:
        caplog.clear()
        assert live_api.ask("GET", "/v1/nothing").status == 404
        assert live_api.ask("GET", "/v1/state?x=1").status == 400
        assert not [one for one in caplog.messages if "request" in one]


def test_calls_are_counted_by_operation_and_outcome(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        for _ in range(3):
            live_api.ask("GET", "/v1/health")
        live_api.ask("GET", "/v1/health?x=1")
        live_api.ask("GET", "/v1/nothing")
        live_api.send(b"GET /x\r\n\r\n")
        counted = live_api.call(admin.COUNTERS).counters["door"]
    assert counted["health"] == {"2xx": 3, "4xx": 1}
    assert counted["no_call"] == {"4xx": 2}
    assert counted["now"] == {"requests": 1, "body_bytes": 0}


def test_a_client_that_leaves_in_its_body_is_counted_and_told_nothing(tmp_path: Path) -> None:
    async def take(_service: Service, call: Call) -> None:
        await call.read()

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, {topics.CREATE_TOPIC: take}) as live_api:
            client = await live_api.served.connect()
            length = "Content-Length: 100000"
            client.send("POST /v1/topics HTTP/1.1", "Host: here", length, body=b"begun")
            await until(lambda: live_api.service.budget.requests == 1)
            client.reset()
            await until(lambda: not live_api.service.budget.requests)
            counted = live_api.service.counters.snapshot().counters
            assert counted == {"create_topic.gone": 1}
            assert live_api.service.budget.body_bytes == 0

    run()


def test_a_request_is_under_way_until_the_last_piece_of_its_answer(tmp_path: Path) -> None:
    goes_on = asyncio.Event()

    async def pieces() -> AsyncIterator[Buffer]:
        yield b"one"
        await goes_on.wait()
        yield b"two"

    async def stream(_service: Service, _call: Call) -> Response:
        return Response(200, body=pieces())

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, {objects.GET_OBJECT: stream}) as live_api:
            client = await live_api.served.connect()
            client.get("/v1/buckets/b/objects/k/with/slashes")
            await until(lambda: live_api.service.budget.requests == 1)
            await client.reader.readuntil(b"one")
            assert live_api.service.budget.requests == 1
            goes_on.set()
            await client.reader.readuntil(b"two")
            await until(lambda: not live_api.service.budget.requests)

    run()


def test_work_after_the_threads_have_ended_is_told_as_closed(tmp_path: Path) -> None:
    async def work(service: Service, _call: Call) -> None:
        await service.run(lambda: None)

    @in_loop
    async def run() -> None:
        async with handling(tmp_path, {admin.STATE: work}) as live_api:
            live_api.service.executor.shutdown()
            client = await live_api.served.connect()
            client.get("/v1/state")
            answer = await client.answer()
            assert answer.status == 503
            assert json.loads(answer.body)["code"] == "closed"

    run()
