"""Requests as they are observed: every line of one has its id, and its end is logged if asked."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.clock import SystemClock
from lakebed.base.events import event
from lakebed.http.request import Request, RequestLabel
from lakebed.http.request_id import CURRENT
from lakebed.http.response import Response
from lakebed.http_api.service import Service as ApiService
from lakebed.node.logs import NodeLogs
from lakebed.node.observer import Observer
from lakebed.s3.service import Service as S3Service
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.store.store import Store
from tests.http.serving import Client, in_loop, serving, until

_log = logging.getLogger("lakebed.tests")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs = NodeLogs(stream)
    logs.configure(log_format="json", log_level="info", access_log=True)
    yield stream
    logs.close()


def documents(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


async def _pieces() -> AsyncIterator[bytes]:
    event(_log, "in a piece")
    yield b"abc"
    await asyncio.sleep(0)
    event(_log, "in the next")
    yield b"def"


def at_once(request: Request) -> Response:
    event(_log, "at once")
    return Response(200, body=request.id.encode())


async def later(request: Request) -> Response:
    event(_log, "later")
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, copy_context().run, event, _log, "in a thread")
    return Response(200, body=request.id.encode())


def streamed(request: Request) -> Response:
    return Response(200, [("X-Id", request.id)], _pieces(), length=6)


async def streamed_later(request: Request) -> Response:
    return streamed(request)


@pytest.mark.parametrize("handler", [at_once, later, streamed, streamed_later])
@in_loop
async def test_every_line_of_a_request_has_its_id(handler: Any, lines: io.StringIO) -> None:
    observer = Observer("s3")
    async with serving(observer.wrapped(handler), on_done=observer.done) as served:
        client: Client = await served.connect()
        ids = []
        for _ in range(3):
            client.get()
            answer = await client.answer()
            ids.append(answer.headers.get("x-id") or answer.body.decode())
        assert CURRENT.get() == ""
        await until(lambda: not observer.snapshot().inflight)
    found = documents(lines)
    expected = {at_once: 1, later: 2, streamed: 2, streamed_later: 2}[handler] + 1
    assert [one["request_id"] for one in found] == [one for one in ids for _ in range(expected)]
    assert len(set(ids)) == 3


@in_loop
async def test_behind_a_request_its_id_is_nobodys() -> None:
    observer = Observer("s3")
    found = []
    async with serving(
        observer.wrapped(at_once), on_done=lambda *_: found.append(CURRENT.get())
    ) as served:
        client = await served.connect()
        client.get()
        await client.answer()
    assert found == [""]


@in_loop
async def test_what_a_service_hands_to_its_threads_has_the_id_too(tmp_path: Path) -> None:
    clock = SystemClock()
    with Store.open(tmp_path) as store, ThreadPoolExecutor(1) as executor:
        services = (
            S3Service(lake=store.lake, config=EndpointConfig(), clock=clock, executor=executor),
            ApiService(store, executor),
        )
        for service in services:
            token = CURRENT.set("00FF")
            assert await service.run(CURRENT.get) == "00FF"
            CURRENT.reset(token)
            assert await service.run(CURRENT.get) == ""


@in_loop
async def test_two_at_a_time_keep_their_ids(lines: io.StringIO) -> None:
    both = asyncio.Barrier(2)

    async def handler(request: Request) -> Response:
        await both.wait()
        event(_log, request.raw_path.decode())
        await both.wait()
        event(_log, request.raw_path.decode())
        return Response(200, body=request.id.encode())

    observer = Observer("s3")
    async with serving(observer.wrapped(handler), on_done=observer.done) as served:
        clients = [await served.connect(), await served.connect()]
        for number, client in enumerate(clients):
            client.get(f"/{number}")
        ids = {
            f"/{number}": (await one.answer()).body.decode() for number, one in enumerate(clients)
        }
    told = [one for one in documents(lines) if one["event"] != "request"]
    assert len(told) == 4
    assert all(one["request_id"] == ids[one["event"]] for one in told)


@in_loop
async def test_the_line_of_a_request_tells_all_but_what_signs_it(lines: io.StringIO) -> None:
    def handler(request: Request) -> Response:
        request.label = RequestLabel("GetObject", "photos", "LAKE")
        return Response(206, body=b"xyz")

    observer = Observer("s3")
    async with serving(observer.wrapped(handler), on_done=observer.done) as served:
        client = await served.connect()
        client.put("/photos/a%20b?X-Amz-Signature=0123abcd&X-Amz-Date=now", b"12345")
        await client.answer()
    (line,) = documents(lines)
    facts = {name: line[name] for name in ("event", "endpoint", "operation", "method", "path")}
    assert facts == {
        "event": "request",
        "endpoint": "s3",
        "operation": "GetObject",
        "method": "PUT",
        "path": "/photos/a%20b",
    }
    assert line["query"] == "X-Amz-Signature=***&X-Amz-Date=now"
    assert (line["status"], line["bytes_in"], line["bytes_out"]) == (206, 5, 3)
    assert (line["peer"], line["access_key"]) == ("127.0.0.1", "LAKE")
    assert line["duration_ms"] >= 0


@in_loop
async def test_whoever_leaves_is_not_under_way_for_ever() -> None:
    may_go_on = asyncio.Event()

    async def handler(_request: Request) -> Response:
        await may_go_on.wait()
        return Response(200)

    observer = Observer("s3")
    async with serving(observer.wrapped(handler), on_done=observer.done) as served:
        client = await served.connect()
        client.get()
        await until(lambda: observer.snapshot().inflight == {"none": 1})
        client.reset()
        may_go_on.set()
        await until(lambda: not observer.snapshot().inflight)
    assert sum(observer.snapshot().by_operation.requests.values()) == 1
