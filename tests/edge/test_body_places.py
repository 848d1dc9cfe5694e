"""Bodies that are received at once: places for large ones, and none needed for small ones."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from lakebed.edge.body_pump import SMALL_BYTES, BodyPlaces, TooManyBodies
from tests.http.serving import in_loop


@in_loop
async def test_a_large_body_beyond_the_limit_waits_and_is_refused_in_the_end() -> None:
    places = BodyPlaces(large_max=2, wait_s=0.01)
    with ExitStack() as stack:
        for _ in range(2):
            await stack.enter_context(places.body()).take(SMALL_BYTES + 1)
        one_more = stack.enter_context(places.body())
        await one_more.take(SMALL_BYTES)
        with pytest.raises(
            TooManyBodies, match="all 2 slots of the server for large request bodies"
        ):
            await one_more.take(1)
    with places.body() as body:
        await body.take(SMALL_BYTES + 1)  # there is room again


@in_loop
async def test_one_who_waits_gets_the_place_that_becomes_free() -> None:
    places = BodyPlaces(large_max=1)
    with places.body() as second:
        with places.body() as first:
            await first.take(SMALL_BYTES + 1)
            waiting = asyncio.ensure_future(second.take(SMALL_BYTES + 1))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
        await second.take(100 * SMALL_BYTES)


@in_loop
async def test_small_bodies_need_a_place_once_they_hold_too_much_together() -> None:
    places = BodyPlaces(large_max=1, small_bytes_max=10, wait_s=0.01)
    with ExitStack() as stack:
        for _ in range(5):
            await stack.enter_context(places.body()).take(2)
        with places.body() as placed:
            await placed.take(1)
            with places.body() as refused:
                await refused.take(0)
                with pytest.raises(TooManyBodies):
                    await refused.take(1)
    with ExitStack() as stack:
        for _ in range(10):
            await stack.enter_context(places.body()).take(1)
