"""The same for programs with an event loop."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakebed.api import media
from lakebed.base.errors import Closed, NotFound
from lakebed.client.address import Address
from lakebed.client.aio import AsyncStore
from lakebed.client.connections import Interruption
from lakebed.client.group import RemoteGroup
from lakebed.client.store import RemoteStore
from lakebed.store.leased_message import LeasedMessage
from lakebed.store.pin_file import Pin
from lakebed.stroma.config import GroupConfig
from tests.client.scripted import GIVE_UP_S, answer, document, says, scripted
from tests.http_api.live_api import LiveApi


def run(door: LiveApi, work: Callable[[AsyncStore], Awaitable[None]]) -> None:
    async def main() -> None:
        remote = RemoteStore(Address(path=door.socket_path))
        async with AsyncStore(remote) as store, asyncio.timeout(GIVE_UP_S):
            await work(store)

    asyncio.run(main())


def test_calls_are_awaited_and_values_are_as_they_are(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders", partitions=2)
        assert (topic.name, len(topic.partitions)) == ("orders", 2)
        assert (await topic.append_batch([b"a"], partition=0)).result() == (0, 1)
        assert await topic.partition(0).high_watermark() == 1
        assert await topic.partitions[0].high_watermark() == 1
        assert await store.topics.names() == ["orders"]
        with pytest.raises(NotFound):
            await store.topics.open("missing")
        with pytest.raises(NotFound):
            topic.partition(9)
        group = await topic.group("g")
        leased = await group.lease()
        await group.ack_all(leased)
        assert sum((await group.lag()).values()) == 0
        log = await store.log("events")
        await log.flush(await log.append_record(b"x"))
        assert await log.coordinator_watermark == 0
        assert len(await log.tiers.residency()) == 1
        bucket = await store.bucket("photos")
        await bucket.put("x", b"data")
        assert (await bucket.info).name == "photos"
        assert await bucket.read("x") == b"data"
        pieces = [bytes(piece) async for piece in await bucket.get("x")]
        assert b"".join(pieces) == b"data"
        assert [row.key async for row in await bucket.list()] == ["x"]
        assert await store.keys.list() == []

    run(door, work)


def test_reads_and_followers_are_asynchronous_iterators(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        await topic.append_batch([b"%d" % one for one in range(1000)])
        partition = topic.partition(0)
        found = [message.value async for message in await partition.read()]
        assert found == [b"%d" % one for one in range(1000)]
        async with await partition.follow(998) as follower:
            assert (await anext(follower)).value == b"998"
            assert (await anext(follower)).value == b"999"
            waiting = asyncio.ensure_future(anext(follower))
            await topic.append_batch([b"new", b"newer"])
            assert (await waiting).value == b"new"
            assert (await anext(follower)).value == b"newer"

    run(door, work)


def test_a_wait_that_is_cancelled_loses_nothing(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        follower = await topic.partition(0).follow()
        waiting = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await topic.append_batch([b"a", b"b"])
        assert [(await anext(follower)).value for _ in range(2)] == [b"a", b"b"]
        follower.close()

    run(door, work)


def test_closing_a_follower_ends_its_loop(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        follower = await topic.partition(0).follow()

        async def consume() -> list[object]:
            return [message async for message in follower]

        consuming = asyncio.ensure_future(consume())
        await topic.append_batch([b"a"])
        while not await topic.partition(0).wait_beyond(0, 1):
            pass
        follower.close()
        await consuming

    run(door, work)


def test_many_wait_at_the_same_time(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        group = await topic.group("g")
        waiting = [
            asyncio.ensure_future(group.lease(max_messages=1, wait_s=GIVE_UP_S)) for _ in range(40)
        ]
        await topic.append_batch([b"%d" % one for one in range(40)])
        leased = await asyncio.gather(*waiting)
        assert sorted(one.offset for some in leased for one in some) == list(range(40))

    run(door, work)


HOUR_MS = 3_600_000


def _waiters(door: LiveApi) -> int:
    """How many wait for a lease, for the server."""
    return sum(queue._count for queue in list(door.api.service.lease_queues._queues.values()))


def test_a_lease_that_comes_after_it_was_cancelled_is_no_delivery(
    door: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_leased, goes_on = threading.Event(), threading.Event()
    lease = RemoteGroup._lease

    def slow(group: RemoteGroup, _: Interruption, **options: Any) -> list[LeasedMessage]:
        leased = lease(group, Interruption(), **options)
        has_leased.set()
        goes_on.wait(GIVE_UP_S)
        return leased

    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        group = await topic.group("g", config=GroupConfig(delivery_count_max=1))
        await topic.append_batch([b"a"])
        with monkeypatch.context() as patched:
            patched.setattr(RemoteGroup, "_lease", slow)
            leasing = asyncio.ensure_future(group.lease(lease_ms=HOUR_MS))
            await asyncio.to_thread(has_leased.wait, GIVE_UP_S)
        leasing.cancel()
        await asyncio.wait([leasing])
        goes_on.set()
        (message,) = await group.lease(wait_s=GIVE_UP_S)
        assert (message.value, message.delivery_count) == (b"a", 1)

    run(door, work)


@pytest.mark.parametrize("turns", range(4))
def test_a_lease_that_is_cancelled_strands_nothing(door: LiveApi, turns: int) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        group = await topic.group("g")
        await topic.append_batch([b"a", b"b"])
        leasing = asyncio.ensure_future(group.lease(lease_ms=HOUR_MS))
        for _ in range(turns):
            await asyncio.sleep(0)
        leasing.cancel()
        await asyncio.wait([leasing])
        assert leasing.cancelled()
        found: list[tuple[bytes, int]] = []
        while len(found) < 2:
            leased = await group.lease(wait_s=GIVE_UP_S)
            found += [(one.value, one.delivery_count) for one in leased]
        assert sorted(found) == [(b"a", 1), (b"b", 1)], "and nothing counts as delivered"

    run(door, work)


def test_a_lease_that_is_cancelled_while_it_waits_takes_nothing_later(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        group = await topic.group("g")
        waiting = [
            asyncio.ensure_future(group.lease(lease_ms=HOUR_MS, wait_s=HOUR_MS / 1000))
            for _ in range(10)
        ]
        while _waiters(door) < len(waiting):
            await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        while _waiters(door):
            await asyncio.sleep(0)  # the server hears of it at once
        await topic.append_batch([b"a"])
        assert [one.value for one in await group.lease()] == [b"a"]
        assert (await group.describe())[0].in_flight == 1

    run(door, work)


def test_a_pin_whose_caller_was_cancelled_is_released() -> None:
    reached, may_answer = threading.Event(), threading.Event()
    pinned = Pin(
        pin_id="p-1",
        start=0,
        end=1,
        expires_ms=2,
        owner="me",
        created_ms=0,
        topic="orders",
        partition=0,
    )

    def answers_late(sock: socket.socket) -> bool:
        reached.set()
        may_answer.wait(GIVE_UP_S)
        sock.sendall(document(pinned, status=201))
        return True

    async def work(port: int) -> None:
        async with AsyncStore(RemoteStore(Address(host="127.0.0.1", port=port))) as store:
            pinning = asyncio.ensure_future(
                store.pins.pin_offsets("orders", 0, start=0, end=1, duration_ms=HOUR_MS, owner="me")
            )
            await asyncio.to_thread(reached.wait, GIVE_UP_S)
            pinning.cancel()
            await asyncio.wait([pinning])
            may_answer.set()

    with scripted(answers_late, says(answer(b"", media.MSGPACK, status=204))) as server:
        asyncio.run(work(server.port))
    assert [one.line for one in server.seen] == [
        "POST /v1/pins HTTP/1.1", "DELETE /v1/pins/p-1 HTTP/1.1",
    ]  # fmt: skip


def test_a_follower_that_is_dropped_while_it_waits_ends(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        follower = await topic.partition(0).follow()
        polling = follower._inner
        waiting = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        del follower, waiting
        gc.collect()
        assert polling.is_closed

    run(door, work)


def test_a_closed_store_says_so(door: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        waiting = asyncio.ensure_future(topic.partition(0).wait_beyond(0, GIVE_UP_S))
        await topic.partition(0).high_watermark()
        await store.close()
        with pytest.raises((Closed, RuntimeError)):
            await waiting
        await store.close()

    run(door, work)
