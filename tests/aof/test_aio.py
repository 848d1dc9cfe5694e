"""The same followers in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.aio.log import AsyncFollower
from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.aof.manager import AofManager
from lakebed.aof.record_batch import Record
from lakebed.base.errors import Closed, NotFound
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.kernels.disk import real_disk
from tests.fakes.aof import FakeLog, OvertakenLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FakeLog]:
    with ThreadRunner() as runner:
        log = FakeLog(real_disk(), str(tmp_path), runner=runner)
        yield log
        log.close()


def _append(log: FakeLog, count: int, *, size: int = 300) -> None:
    for number in range(count):
        log.append(number.to_bytes(2, "big") * (size // 2))
    log.publish()


async def _take(follower: AsyncFollower, count: int) -> list[Record]:
    return [await anext(follower) for _ in range(count)]


def test_records_come_as_they_are_published_from_another_thread(log: FakeLog) -> None:
    async def follow() -> None:
        async with AsyncFollower(log) as follower:
            taking = asyncio.ensure_future(_take(follower, 60))
            for _ in range(6):
                await asyncio.to_thread(_append, log, 10)
            assert await asyncio.wait_for(taking, 30) == log.records
            assert follower.position == log.durable_end()

    asyncio.run(follow())


@pytest.mark.parametrize("seed", range(10))
def test_a_cancelled_wait_loses_no_record(log: FakeLog, seed: int) -> None:
    random = Random(seed)

    async def follow() -> list[Record]:
        taken: list[Record] = []
        async with AsyncFollower(log, batch_bytes_max=1000) as follower:
            while len(taken) < 40:
                waiting = asyncio.ensure_future(anext(follower))
                for _ in range(random.randrange(4)):
                    await asyncio.sleep(0)  # some turns of the loop, no time
                if random.random() < 0.3 and len(log.records) < 40:
                    _append(log, 5)
                waiting.cancel()
                try:
                    taken.append(await waiting)
                except asyncio.CancelledError:
                    if len(log.records) >= 40:
                        taken.append(await asyncio.wait_for(anext(follower), 30))
        return taken

    assert asyncio.run(follow()) == log.records


def test_a_publication_between_the_look_and_the_wait_is_not_missed(tmp_path: Path) -> None:
    async def follow(log: FakeLog) -> Record:
        async with AsyncFollower(log) as follower:
            return await asyncio.wait_for(anext(follower), 30)

    with ThreadRunner() as runner:
        log = OvertakenLog(real_disk(), str(tmp_path), runner=runner)
        assert asyncio.run(follow(log)).payload == b"published in between"
        log.close()


def test_two_tasks_share_a_follower_without_repetition(log: FakeLog) -> None:
    async def follow() -> None:
        async with AsyncFollower(log, batch_bytes_max=1) as follower:
            tasks = [asyncio.ensure_future(_take(follower, 5)) for _ in range(2)]
            await asyncio.sleep(0)
            _append(log, 10)
            taken = await asyncio.wait_for(asyncio.gather(*tasks), 30)
            assert sorted(taken[0] + taken[1]) == log.records

    asyncio.run(follow())


def test_a_batch_continues_where_the_records_ended(log: FakeLog) -> None:
    async def follow() -> None:
        _append(log, 5)
        async with AsyncFollower(log) as follower:
            assert await anext(follower) == log.records[0]
            assert follower.position == log.records[1].record_id
            assert list(await follower.next_batch()) == log.records[1:]

    asyncio.run(follow())


def test_closing_ends_the_iteration(log: FakeLog) -> None:
    async def follow() -> list[Record]:
        return [record async for record in follower]

    async def close() -> None:
        following = asyncio.ensure_future(follow())
        _append(log, 2)
        while follower.position < log.durable_end():
            await asyncio.sleep(0)
        follower.close()
        assert await asyncio.wait_for(following, 30) == log.records
        with pytest.raises(Closed):
            await follower.next_batch()

    follower = AsyncFollower(log)
    asyncio.run(close())


def test_a_log_that_ends_and_one_that_forgot_are_errors(log: FakeLog) -> None:
    async def follow() -> None:
        _append(log, 30)
        log.remove_oldest()
        async with AsyncFollower(log, log.records[0].record_id) as follower:
            with pytest.raises(NotFound, match="oldest"):
                await anext(follower)
        async with AsyncFollower(log, log.durable_end()) as follower:
            waiting = asyncio.ensure_future(anext(follower))
            await asyncio.sleep(0)
            log.close()
            with pytest.raises(Closed):
                await asyncio.wait_for(waiting, 30)

    asyncio.run(follow())


def test_a_publication_after_the_loop_has_ended_is_harmless(log: FakeLog) -> None:
    async def follow() -> AsyncFollower:
        _append(log, 1)
        follower = AsyncFollower(log)
        await anext(follower)
        return follower

    follower = asyncio.run(follow())
    log.publish()
    follower.close()


BRIEF = AofConfig(
    segment_bytes=64 * KIB,
    flush=FlushConfig(reserve_bytes=0),
    retention=RetentionConfig(count_max=1),
)


class _Scene:
    """A log whose sealed segments go at once, but the last; its background work runs in `seal`."""

    def __init__(self) -> None:
        self._world = World(1)
        manager = AofManager(
            "/store", config=BRIEF, disk=self._world.disk, runner=self._world.runner
        )
        self.log = manager.open("orders")

    def seal(self, *payloads: bytes) -> list[int]:
        """A segment each; the numbers of those that are left."""
        for payload in payloads:
            self.log.append_record(payload)
            self.log.seal_current_segment()
        self._world.runner.settle()
        return [info.segment_id for info in self.log.segments()]


def test_retention_spares_what_a_follower_has_not_given_out() -> None:
    scene = _Scene()

    async def follow() -> None:
        async with AsyncFollower(scene.log) as follower:
            assert scene.seal(b"a", b"b", b"c") == [0, 1, 2]
            taken = await asyncio.wait_for(_take(follower, 3), 30)
            assert [record.payload for record in taken] == [b"a", b"b", b"c"]

    asyncio.run(follow())
    assert scene.seal(b"d") == [3], "and no longer than it is open"


def test_a_follower_that_is_dropped_keeps_nothing() -> None:
    scene = _Scene()

    async def follow() -> None:
        follower = AsyncFollower(scene.log)
        waiting = asyncio.ensure_future(anext(follower))
        while not scene.log._notifier._listeners:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert scene.seal(b"a", b"b") == [0, 1]
        del follower, waiting
        gc.collect()
        assert scene.seal(b"c") == [2]
        assert scene.log._notifier._listeners == []

    asyncio.run(follow())


def test_followers_that_are_dropped_do_not_pile_up_while_nothing_is_appended() -> None:
    scene = _Scene()

    async def follow() -> None:
        for _ in range(20):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(anext(AsyncFollower(scene.log)), 0.001)
            scene.log.follow()
            gc.collect()

    asyncio.run(follow())
    assert len(scene.log._notifier._listeners) <= 2
