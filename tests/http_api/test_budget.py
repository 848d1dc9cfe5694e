"""What requests of the API hold together: refused with 429 beyond it, and all given back."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

from lakebed.api import admin, objects, topics
from lakebed.base.units import KIB
from lakebed.http.request import Request
from lakebed.http_api.call import Call
from lakebed.http_api.guard import Identity
from lakebed.http_api.limits import ApiLimits
from lakebed.http_api.service import Service
from tests.http.serving import in_loop, until
from tests.http_api.handling import handling


async def take(_service: Service, call: Call) -> None:
    await call.read()


def test_bodies_beyond_what_may_be_held_are_refused_and_small_calls_go_on(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        limits = ApiLimits(body_bytes_max=256 * KIB)
        async with handling(tmp_path, {topics.CREATE_TOPIC: take}, api_limits=limits) as live_api:
            budget = live_api.service.budget
            slow = await live_api.served.connect()
            length = f"Content-Length: {200 * KIB}"
            slow.send("POST /v1/topics HTTP/1.1", "Host: h", length, body=b"x" * 100 * KIB)
            await until(lambda: budget.body_bytes == 100 * KIB)
            large = await live_api.served.connect()
            large.send("POST /v1/topics HTTP/1.1", "Host: h", length, "Expect: 100-continue")
            refused = await large.answer()
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.headers["connection"] == "close", "its body was not read"
            small = await live_api.served.connect()
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
        async with handling(tmp_path, {topics.CREATE_TOPIC: take}, api_limits=limits) as live_api:
            client = await live_api.served.connect()
            chunked = "Transfer-Encoding: chunked"
            client.send("POST /v1/topics HTTP/1.1", "Host: h", chunked)
            client.send_bytes(b"10000\r\n" + b"x" * 64 * KIB + b"\r\n")
            await until(lambda: live_api.service.budget.body_bytes == 64 * KIB)
            client.send_bytes(b"1\r\nx\r\n")
            assert (await client.answer()).status == 429
            assert live_api.service.budget.body_bytes == 0

    run()


def test_a_body_that_is_passed_on_holds_its_share(tmp_path: Path) -> None:
    async def pass_on(_service: Service, call: Call) -> None:
        async for _ in call.request.body:
            pass

    @in_loop
    async def run() -> None:
        limits = ApiLimits(body_bytes_max=128 * KIB, streamed_bytes=64 * KIB)
        async with handling(tmp_path, {objects.PUT_OBJECT: pass_on}, api_limits=limits) as live_api:
            clients = [await live_api.served.connect() for _ in range(3)]
            for client in clients:
                length = "Content-Length: 1000000"
                client.send("PUT /v1/buckets/b/objects/k HTTP/1.1", "Host: h", length)
            await until(lambda: live_api.service.counters.snapshot().counters != {})
            assert live_api.service.budget.body_bytes == 128 * KIB
            counted = live_api.service.counters.snapshot().counters
            assert counted == {"put_object.4xx": 1}
            for client in clients:
                client.reset()
            await until(lambda: not live_api.service.budget.body_bytes)

    run()


def test_calls_are_refused_while_too_many_wait_for_a_thread(tmp_path: Path) -> None:
    goes_on = threading.Event()

    async def work(service: Service, _call: Call) -> None:
        await service.run(lambda: goes_on.wait(60))

    @in_loop
    async def run() -> None:
        limits = ApiLimits(threads_max=1, waiting_max=2)
        async with handling(tmp_path, {admin.STATE: work}, api_limits=limits) as live_api:
            clients = [await live_api.served.connect() for _ in range(4)]
            for client in clients[:3]:
                client.get("/v1/state")
            await until(lambda: live_api.service.budget.requests == 3)
            clients[3].get("/v1/state")
            refused = await clients[3].answer()
            assert refused.status == 429
            assert "use or wait for a thread" in json.loads(refused.body)["detail"]
            goes_on.set()
            answers = await asyncio.gather(*(client.answer() for client in clients[:3]))
            assert {answer.status for answer in answers} == {200}
            clients[3].get("/v1/state")
            assert (await clients[3].answer()).status == 200, "on the connection that was kept"

    run()


class OneAtATime:
    """A guard that lets everybody in with one key, which may have one request under way."""

    async def identify(self, request: Request) -> Identity:
        return Identity("key", inflight_max=1)


def test_a_request_beyond_the_limit_of_its_key_waits_a_moment_for_a_place(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        goes_on = asyncio.Event()

        async def work(_service: Service, _call: Call) -> None:
            await goes_on.wait()

        handlers = {admin.STATE: work}
        async with handling(tmp_path, handlers, guard=OneAtATime()) as live_api:
            budget = live_api.service.budget
            clients = [await live_api.served.connect() for _ in range(3)]
            clients[0].get("/v1/state")
            await until(lambda: budget.requests == 1)
            clients[1].get("/v1/state")
            refused = await clients[1].answer()
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert "of this access key" in json.loads(refused.body)["detail"]
            clients[2].get("/v1/state")
            await until(lambda: bool(budget._keys["key"].waiting))
            goes_on.set()
            answers = [await clients[0].answer(), await clients[2].answer()]
            assert [answer.status for answer in answers] == [200, 200]
            await until(lambda: budget.requests == 0)

    run()
