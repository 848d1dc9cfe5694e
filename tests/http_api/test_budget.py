"""What requests hold together: bounded, told to come again beyond it, and all given back."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from lakebed.api import admin, objects, topics
from lakebed.base.errors import Busy
from lakebed.base.units import KIB
from lakebed.http_api.budget import Budget
from lakebed.http_api.call import Call
from lakebed.http_api.guard import LOCAL, Identity
from lakebed.http_api.limits import ApiLimits
from lakebed.http_api.service import Service
from tests.http.serving import in_loop, until
from tests.http_api.handling import handling

KEY = Identity("key")


def test_so_many_requests_are_let_in_and_each_makes_room_again() -> None:
    budget = Budget(ApiLimits(requests_max=2))
    first, _ = budget.admit(LOCAL), budget.admit(KEY)
    with pytest.raises(Busy, match="requests are under way"):
        budget.admit(LOCAL)
    first.release()
    first.release()  # which changes nothing
    budget.admit(LOCAL)
    assert budget.requests == 2


def test_an_access_key_has_its_own_limit_or_that_of_all() -> None:
    budget = Budget(ApiLimits(key_requests_max=2))
    shares = [budget.admit(KEY), budget.admit(KEY)]
    with pytest.raises(Busy, match="of this access key"):
        budget.admit(KEY)
    budget.admit(Identity("another"))
    for _ in range(3):
        budget.admit(LOCAL)
    small = Identity("small", inflight_max=1)
    budget.admit(small)
    with pytest.raises(Busy):
        budget.admit(small)
    shares[0].release()
    budget.admit(KEY)


def test_bytes_are_held_until_they_are_released() -> None:
    budget = Budget(ApiLimits(body_bytes_max=64 * KIB))
    share = budget.admit(LOCAL, held_bytes=1)
    share.take(64 * KIB - 1)
    with pytest.raises(Busy, match="no room for 1B"):
        share.take(1)
    with pytest.raises(Busy):
        budget.admit(LOCAL, held_bytes=1)
    assert budget.requests == 1, "who is refused does not count"
    share.release()
    assert (budget.requests, budget.body_bytes) == (0, 0)


async def take(_service: Service, call: Call) -> None:
    await call.read()


def test_bodies_beyond_what_may_be_held_are_refused_and_small_calls_go_on(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        limits = ApiLimits(body_bytes_max=256 * KIB)
        async with handling(tmp_path, {topics.CREATE_TOPIC: take}, api_limits=limits) as door:
            budget = door.service.budget
            slow = await door.served.connect()
            length = f"Content-Length: {200 * KIB}"
            slow.send("POST /v1/topics HTTP/1.1", "Host: h", length, body=b"x" * 100 * KIB)
            await until(lambda: budget.body_bytes == 100 * KIB)
            large = await door.served.connect()
            large.send("POST /v1/topics HTTP/1.1", "Host: h", length, "Expect: 100-continue")
            refused = await large.answer()
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.headers["connection"] == "close", "its body was not read"
            small = await door.served.connect()
            small.send("POST /v1/topics HTTP/1.1", "Host: h", "Content-Length: 2", body=b"{}")
            assert (await small.answer()).status == 201
            slow.send_bytes(b"x" * 100 * KIB)
            assert (await slow.answer()).status == 201
            assert (budget.requests, budget.body_bytes) == (0, 0)

    run()


def test_a_chunked_body_is_held_as_it_comes(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        limits = ApiLimits(body_bytes_max=64 * KIB)
        async with handling(tmp_path, {topics.CREATE_TOPIC: take}, api_limits=limits) as door:
            client = await door.served.connect()
            chunked = "Transfer-Encoding: chunked"
            client.send("POST /v1/topics HTTP/1.1", "Host: h", chunked)
            client.send_bytes(b"10000\r\n" + b"x" * 64 * KIB + b"\r\n")
            await until(lambda: door.service.budget.body_bytes == 64 * KIB)
            client.send_bytes(b"1\r\nx\r\n")
            assert (await client.answer()).status == 429
            assert door.service.budget.body_bytes == 0

    run()


def test_a_body_that_is_passed_on_holds_its_share(tmp_path: Path) -> None:
    async def pass_on(_service: Service, call: Call) -> None:
        async for _ in call.request.body:
            pass

    @in_loop
    async def run() -> None:
        limits = ApiLimits(body_bytes_max=128 * KIB, streamed_bytes=64 * KIB)
        async with handling(tmp_path, {objects.PUT_OBJECT: pass_on}, api_limits=limits) as door:
            clients = [await door.served.connect() for _ in range(3)]
            for client in clients:
                length = "Content-Length: 1000000"
                client.send("PUT /v1/buckets/b/objects/k HTTP/1.1", "Host: h", length)
            await until(lambda: door.service.counters.snapshot().counters != {})
            assert door.service.budget.body_bytes == 128 * KIB
            counted = door.service.counters.snapshot().counters
            assert counted == {"put_object.4xx": 1}
            for client in clients:
                client.reset()
            await until(lambda: not door.service.budget.body_bytes)

    run()


def test_calls_are_refused_while_too_many_wait_for_a_thread(tmp_path: Path) -> None:
    goes_on = threading.Event()

    async def work(service: Service, _call: Call) -> None:
        await service.run(lambda: goes_on.wait(60))

    @in_loop
    async def run() -> None:
        limits = ApiLimits(threads_max=1, waiting_max=2)
        async with handling(tmp_path, {admin.STATE: work}, api_limits=limits) as door:
            clients = [await door.served.connect() for _ in range(4)]
            for client in clients[:3]:
                client.get("/v1/state")
            await until(lambda: door.service.budget.requests == 3)
            clients[3].get("/v1/state")
            refused = await clients[3].answer()
            assert refused.status == 429
            assert "wait for a thread" in json.loads(refused.body)["detail"]
            goes_on.set()
            answers = await asyncio.gather(*(client.answer() for client in clients[:3]))
            assert {answer.status for answer in answers} == {200}
            clients[3].get("/v1/state")
            assert (await clients[3].answer()).status == 200, "on the connection that was kept"

    run()
