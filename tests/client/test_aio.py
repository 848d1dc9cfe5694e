"""The same for programs with an event loop."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.aio import AsyncStore
from lakebed.aio.client.connection_pool import Interruption
from lakebed.aio.client.group import AsyncGroup
from lakebed.api import media
from lakebed.api.admin import CANCEL_WORK, START_WORK, JobState
from lakebed.api.problems import Unreachable
from lakebed.base.errors import Closed, NotFound
from lakebed.client.address import Address, address_of
from lakebed.client.store import RemoteStore
from lakebed.store.leased_message import LeasedMessage
from lakebed.store.pin_file import Pin
from lakebed.stroma.config import GroupConfig
from tests.cli.manifest_stores import CONFIG, fill_chunks, write_segment
from tests.client.cutting import cutting
from tests.client.scripted import GIVE_UP_S, answer, document, says, scripted
from tests.client.test_reaching import server_context
from tests.http_api.live_api import LiveApi, open_api


def run(live_api: LiveApi, work: Callable[[AsyncStore], Awaitable[None]]) -> None:
    async def main() -> None:
        address = Address(path=live_api.socket_path)
        async with AsyncStore(address) as store, asyncio.timeout(GIVE_UP_S):
            await work(store)

    asyncio.run(main())


def test_calls_are_awaited_and_values_are_as_they_are(live_api: LiveApi) -> None:
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

    run(live_api, work)


def test_reads_and_followers_are_asynchronous_iterators(live_api: LiveApi) -> None:
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

    run(live_api, work)


def test_a_wait_that_is_cancelled_loses_nothing(live_api: LiveApi) -> None:
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

    run(live_api, work)


def test_closing_a_follower_ends_its_loop(live_api: LiveApi) -> None:
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

    run(live_api, work)


def test_many_wait_at_the_same_time(live_api: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        group = await topic.group("g")
        waiting = [
            asyncio.ensure_future(group.lease(max_messages=1, wait_s=GIVE_UP_S)) for _ in range(40)
        ]
        await topic.append_batch([b"%d" % one for one in range(40)])
        leased = await asyncio.gather(*waiting)
        assert sorted(one.offset for some in leased for one in some) == list(range(40))

    run(live_api, work)


HOUR_MS = 3_600_000


def _busy_count(store: AsyncStore) -> int:
    """How many calls are under way."""
    return len(store._caller._connections._pool.busy)


def _waiters(live_api: LiveApi) -> int:
    """How many wait for a lease, for the server."""
    return sum(queue._count for queue in list(live_api.api.service.lease_queues._queues.values()))


def test_a_lease_that_comes_after_it_was_cancelled_is_no_delivery(
    live_api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = AsyncGroup._lease

    async def work(store: AsyncStore) -> None:
        has_leased, goes_on = asyncio.Event(), asyncio.Event()

        async def slow(group: AsyncGroup, _: Interruption, **options: Any) -> list[LeasedMessage]:
            leased = await lease(group, Interruption(), **options)
            has_leased.set()
            await goes_on.wait()
            return leased

        topic = await store.topic("orders")
        group = await topic.group("g", config=GroupConfig(delivery_count_max=1))
        await topic.append_batch([b"a"])
        with monkeypatch.context() as patched:
            patched.setattr(AsyncGroup, "_lease", slow)
            leasing = asyncio.ensure_future(group.lease(lease_ms=HOUR_MS))
            await has_leased.wait()
        leasing.cancel()
        await asyncio.wait([leasing])
        goes_on.set()
        (message,) = await group.lease(wait_s=GIVE_UP_S)
        assert (message.value, message.delivery_count) == (b"a", 1)

    run(live_api, work)


@pytest.mark.parametrize("turns", range(4))
def test_a_lease_that_is_cancelled_strands_nothing(live_api: LiveApi, turns: int) -> None:
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
            found += [(one.value or b"", one.delivery_count) for one in leased]
        assert sorted(found) == [(b"a", 1), (b"b", 1)], "and nothing counts as delivered"

    run(live_api, work)


def test_a_lease_that_is_cancelled_while_it_waits_takes_nothing_later(live_api: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        group = await topic.group("g")
        waiting = [
            asyncio.ensure_future(group.lease(lease_ms=HOUR_MS, wait_s=HOUR_MS / 1000))
            for _ in range(10)
        ]
        while _waiters(live_api) < len(waiting):
            await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        while _waiters(live_api):
            await asyncio.sleep(0)  # the server hears of it at once
        await topic.append_batch([b"a"])
        assert [one.value for one in await group.lease()] == [b"a"]
        assert (await group.describe())[0].in_flight == 1

    run(live_api, work)


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
        async with AsyncStore(Address(host="127.0.0.1", port=port)) as store:
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


def test_a_follower_that_is_dropped_while_it_waits_leaves_nothing_behind(live_api: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        follower = await topic.partition(0).follow()
        dropped = weakref.ref(follower)
        waiting = asyncio.ensure_future(anext(follower))
        while not _busy_count(store):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not _busy_count(store), "the server is not asked any more"
        del follower, waiting
        gc.collect()
        assert dropped() is None

    run(live_api, work)


def test_a_closed_store_says_so(live_api: LiveApi) -> None:
    async def work(store: AsyncStore) -> None:
        topic = await store.topic("orders")
        waiting = asyncio.ensure_future(topic.partition(0).wait_beyond(0, GIVE_UP_S))
        await topic.partition(0).high_watermark()
        await store.close()
        with pytest.raises((Closed, RuntimeError)):
            await waiting
        await store.close()

    run(live_api, work)


def test_an_append_whose_answers_are_cut_is_stored_once(live_api: LiveApi, tmp_path: Path) -> None:
    async def work(path: str) -> None:
        async with AsyncStore(Address(path=path)) as store:
            topic = await store.topic("orders")
            idle = store._caller._connections._pool.idle
            while idle:
                idle.pop().close()  # one that is idle would not be cut
            proxy.cuts = [0, 5, 60]
            assert (await topic.append_batch([b"once"])).result() == (0, 1)

    with cutting(live_api.socket_path, str(tmp_path / "cut.sock")) as proxy:
        asyncio.run(work(proxy.path))
        assert proxy.cut_count == 3
    assert [one.value for one in live_api.store.topic("orders").partition(0).read()] == [b"once"]


def test_a_server_that_does_not_answer_is_given_up() -> None:
    done = threading.Event()

    def says_nothing(_: socket.socket) -> bool:
        done.wait(GIVE_UP_S)
        return False

    async def work(port: int) -> None:
        address = Address(host="127.0.0.1", port=port)
        async with AsyncStore(address, retry_s=0.0, answer_s=0.05) as store:
            with pytest.raises(Unreachable, match=r"no answer within 0\.05 s"):
                await store.health()
        done.set()

    with scripted(says_nothing) as server:
        asyncio.run(work(server.port))


def _unreachable(address: Address) -> list[str]:
    """What both clients say of it."""
    with RemoteStore(address, retry_s=0.0) as store, pytest.raises(Unreachable) as blocking:
        store.health()

    async def work() -> str:
        async with AsyncStore(address, retry_s=0.0) as store:
            with pytest.raises(Unreachable) as told:
                await store.health()
            return str(told.value)

    return [str(blocking.value), asyncio.run(work())]


def test_who_cannot_be_reached_is_told_in_the_same_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    context = server_context(tmp_path)
    with scripted(tls=context) as distrusted:
        for address in (
            address_of(tmp_path),
            Address(host="localhost", port=port),
            Address(host="host.invalid", port=port),
            address_of(f"https://localhost:{distrusted.port}"),
        ):
            blocking, told = _unreachable(address)
            assert told == blocking


def test_a_large_object_goes_both_ways_in_pieces(live_api: LiveApi) -> None:
    data = bytes(range(256)) * (20 << 10)

    async def work(store: AsyncStore) -> None:
        bucket = await store.bucket("photos")
        pieces = [data[start : start + 100_000] for start in range(0, len(data), 100_000)]
        await bucket.put("large", iter(pieces))
        assert await (await bucket.get("large")).read() == data
        async for piece in await bucket.get("large"):
            assert data.startswith(bytes(piece))
            break  # an answer that is not read to its end is of no use for another call
        assert await bucket.read("large") == data

    run(live_api, work)


def test_what_is_recorded_of_segments_is_fetched_before_it_is_read(tmp_path: Path) -> None:
    async def work(store: AsyncStore) -> None:
        found = await store.manifest_log("orders")
        assert found is not None
        records = list((await found.reader).records())
        embedded = live_api.store.manifest_log("orders")
        assert embedded is not None
        assert records
        assert records == list(embedded.reader.records())
        assert await found.files() == embedded.files()
        await store.log("plain")

    with open_api(tmp_path, config=CONFIG) as live_api:
        log = live_api.store.log("orders")
        write_segment(log)
        fill_chunks(log, until=1)
        run(live_api, work)


def test_a_job_whose_caller_was_cancelled_is_cancelled() -> None:
    reached, is_over = threading.Event(), threading.Event()
    state = JobState(
        work_id="w-1",
        kind="aof-verify",
        arguments={},
        state="running",
        done=0,
        total=1,
        started_ms=0,
        ended_ms=None,
        result=None,
        problem=None,
    )

    def waits(_: socket.socket) -> bool:
        reached.set()
        is_over.wait(GIVE_UP_S)
        return False

    async def work(port: int) -> None:
        async with AsyncStore(Address(host="127.0.0.1", port=port)) as store:
            verifying = asyncio.ensure_future(store.maintenance.verify_log("events"))
            await asyncio.to_thread(reached.wait, GIVE_UP_S)
            verifying.cancel()
            await asyncio.wait([verifying])
            assert verifying.cancelled()
        is_over.set()

    ends = says(document(msgspec.structs.replace(state, state="cancelled")))
    with scripted(says(document(state, status=START_WORK.status)), waits, ends) as server:
        asyncio.run(work(server.port))
    assert [one.line.split()[:2] for one in server.seen] == [
        ["POST", "/v1/work"],
        ["GET", "/v1/work/w-1?wait_ms=500"],
        [CANCEL_WORK.method, "/v1/work/w-1"],
    ]
