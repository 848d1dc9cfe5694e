"""What the verbs share: places for bodies that are received, and batches that are waited for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from lakebed.s3 import service as services
from lakebed.s3.errors import S3Error
from lakebed.s3.service import STREAMED_MAX, Service
from tests.seglake.lakes import BUCKET


def test_bodies_beyond_the_limit_wait_and_are_told_to_slow_down(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "PLACE_S", 0.01)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(STREAMED_MAX):
                await stack.enter_async_context(service.streaming())
            with pytest.raises(S3Error) as refused:
                await stack.enter_async_context(service.streaming())
            assert refused.value.code == "SlowDown"
            assert refused.value.closes
        async with service.streaming():
            pass  # there is room again

    asyncio.run(run())


def test_one_who_waits_gets_the_place_that_becomes_free(service: Service) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(STREAMED_MAX - 1):
                await stack.enter_async_context(service.streaming())
            last = service.streaming()
            await last.__aenter__()
            waiting = asyncio.ensure_future(stack.enter_async_context(service.streaming()))
            await asyncio.sleep(0)
            assert not waiting.done()
            await last.__aexit__(None, None, None)
            await waiting

    asyncio.run(run())


@pytest.mark.usefixtures("bucket")
def test_the_loop_is_woken_once_for_all_of_a_batch(service: Service) -> None:
    objects = service.lake.objects

    async def run() -> list[str]:
        changes = [objects.small_put(BUCKET, f"{number}", b"data") for number in range(20)]
        found = await asyncio.gather(*map(service.commit, changes))
        return [info.key for info in found]

    assert asyncio.run(run()) == [f"{number}" for number in range(20)]
    assert service.completions.count == 0
