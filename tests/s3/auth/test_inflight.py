"""Requests of one key at a time: so many go on, a few wait, the rest is told to slow down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lakebed.s3.auth.identity import Identity, Payload, PayloadKind
from lakebed.s3.auth.inflight import InflightLimit
from lakebed.s3.errors import S3Error
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.key_ring import KeyRing
from lakebed.seglake.keys import Keys
from tests.seglake.lakes import open_lake

PAYLOAD = Payload(kind=PayloadKind.UNSIGNED)
ONE = Identity(access_key="one", is_first=False, payload=PAYLOAD)
OTHER = Identity(access_key="other", is_first=False, payload=PAYLOAD)
FIRST = Identity(access_key="first", is_first=True, payload=PAYLOAD)
LONG_MS = 60_000


def limit_of(count: int, *, wait_ms: int = LONG_MS, keys: Keys | None = None) -> InflightLimit:
    config = EndpointConfig(inflight_max=count)
    return InflightLimit(KeyRing(None, keys), config=config, wait_ms_max=wait_ms)


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Keys]:
    with open_lake(tmp_path) as lake:
        yield lake.keys


@asynccontextmanager
async def held(limit: InflightLimit, identity: Identity) -> AsyncIterator[None]:
    await limit.enter(identity)
    try:
        yield
    finally:
        limit.leave(identity)


async def settle() -> None:
    """Let all go on that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_place_is_held_and_given_back() -> None:
    async def run() -> None:
        limit = limit_of(1)
        async with held(limit, ONE):
            assert limit.count("one") == 1
            assert not limit.try_enter(ONE)
            assert limit.try_enter(OTHER)  # each key has its own
            limit.leave(OTHER)
        assert limit.count("one") == limit.count("other") == 0
        with pytest.raises(ValueError, match="broken"):
            async with held(limit, ONE):
                raise ValueError("broken")
        assert limit.count("one") == 0

    asyncio.run(run())


def test_who_comes_too_many_is_told_to_slow_down() -> None:
    async def run() -> None:
        limit = limit_of(2, wait_ms=0)
        async with held(limit, ONE), held(limit, ONE):
            with pytest.raises(S3Error) as refused:
                await limit.enter(ONE)
            assert refused.value.code == "SlowDown"
            assert limit.count("one") == 2
        assert limit.count("one") == 0

    asyncio.run(run())


def test_those_that_wait_go_on_in_order_and_never_too_many() -> None:
    async def run() -> None:
        limit = limit_of(3)
        order: list[int] = []

        async def work(number: int) -> None:
            async with held(limit, ONE):
                order.append(number)
                assert limit.count("one") <= 3
                await asyncio.sleep(0)

        await asyncio.gather(*(work(number) for number in range(50)))
        assert order == list(range(50))
        assert limit.count("one") == 0

    asyncio.run(run())


def test_the_first_credentials_have_no_limit() -> None:
    async def run() -> None:
        limit = limit_of(1, wait_ms=0)
        async with held(limit, FIRST), held(limit, FIRST), held(limit, FIRST):
            assert limit.try_enter(FIRST)
            limit.leave(FIRST)

    asyncio.run(run())


def test_a_key_may_have_a_limit_of_its_own(keys: Keys) -> None:
    made = keys.create(inflight_max=2)
    own = Identity(access_key=made.info.access_key, is_first=False, payload=PAYLOAD)
    limit = limit_of(32, keys=keys)
    assert [limit.try_enter(own) for _ in range(3)] == [True, True, False]


def test_one_that_gives_up_waiting_leaves_the_place_to_the_next() -> None:
    async def run() -> None:
        limit = limit_of(1)
        await limit.enter(ONE)
        waiting = [asyncio.create_task(limit.enter(ONE)) for _ in range(3)]
        await settle()
        waiting[0].cancel()
        await settle()
        limit.leave(ONE)
        waiting[1].cancel()  # it was given the place, but has not run yet
        await settle()
        assert [task.done() for task in waiting] == [True, True, True]
        assert not waiting[2].cancelled()
        assert limit.count("one") == 1
        limit.leave(ONE)
        assert limit.count("one") == 0

    asyncio.run(run())
