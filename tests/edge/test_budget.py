"""What requests hold together: bounded, refused beyond it, and all given back.

Of one access key so many go on, a few wait in order, and the rest is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from lakebed.base.errors import Busy
from lakebed.base.units import KIB, MIB
from lakebed.edge.budget import Budget, Share

LONG_MS = 60_000


class Key(NamedTuple):
    access_key: str
    inflight_max: int | None = None
    is_exempt: bool = False


ONE = Key("one")
OTHER = Key("other")
EXEMPT = Key("first", is_exempt=True)


def budget_of(
    *,
    requests_max: int = 1000,
    key_requests_max: int = 1000,
    body_bytes_max: int = MIB,
    wait_ms: int = LONG_MS,
) -> Budget:
    return Budget(
        requests_max=requests_max,
        key_requests_max=key_requests_max,
        body_bytes_max=body_bytes_max,
        wait_ms_max=wait_ms,
    )


def admitted(budget: Budget, key: Key, *, held_bytes: int = 0) -> Share:
    share = budget.try_admit(key, held_bytes=held_bytes)
    assert share is not None, "it has to wait"
    return share


@asynccontextmanager
async def held(budget: Budget, key: Key) -> AsyncIterator[None]:
    share = await budget.admit(key)
    try:
        yield
    finally:
        share.release()


async def settle() -> None:
    """Let all go on that can."""
    for _ in range(5):
        await asyncio.sleep(0)


# All together.


def test_so_many_requests_are_let_in_and_each_makes_room_again() -> None:
    budget = budget_of(requests_max=2)
    first, _ = admitted(budget, EXEMPT), admitted(budget, ONE)
    with pytest.raises(Busy, match="is running 2 requests, its maximum"):
        budget.try_admit(EXEMPT)
    first.release()
    first.release()  # which changes nothing
    admitted(budget, EXEMPT)
    assert budget.requests == 2


def test_bytes_are_held_until_they_are_released() -> None:
    budget = budget_of(body_bytes_max=64 * KIB)
    share = admitted(budget, EXEMPT, held_bytes=1)
    share.take(64 * KIB - 1)
    with pytest.raises(Busy, match="no memory for 1B more of a request body"):
        share.take(1)
    with pytest.raises(Busy):
        budget.try_admit(EXEMPT, held_bytes=1)
    assert budget.requests == 1, "what is refused does not count"
    share.release()
    assert (budget.requests, budget.body_bytes) == (0, 0)


# Of one access key.


def test_an_access_key_has_its_own_limit_or_that_of_all() -> None:
    budget = budget_of(key_requests_max=2)
    shares = [admitted(budget, ONE), admitted(budget, ONE)]
    assert budget.try_admit(ONE) is None
    admitted(budget, OTHER)
    for _ in range(3):
        admitted(budget, EXEMPT)
    small = Key("small", inflight_max=1)
    admitted(budget, small)
    assert budget.try_admit(small) is None
    shares[0].release()
    admitted(budget, ONE)


def test_a_key_may_have_a_limit_of_its_own() -> None:
    budget = budget_of(key_requests_max=32)
    own = Key("own", inflight_max=2)
    assert [budget.try_admit(own) is not None for _ in range(3)] == [True, True, False]


def test_a_place_is_held_and_given_back() -> None:
    async def run() -> None:
        budget = budget_of(key_requests_max=1)
        async with held(budget, ONE):
            assert budget.count("one") == 1
            assert budget.try_admit(ONE) is None
            admitted(budget, OTHER).release()  # each key has its own
        assert budget.count("one") == budget.count("other") == 0
        with pytest.raises(ValueError, match="broken"):
            async with held(budget, ONE):
                raise ValueError("broken")
        assert budget.count("one") == 0

    asyncio.run(run())


def test_what_comes_too_many_is_refused_and_forgotten() -> None:
    async def run() -> None:
        budget = budget_of(key_requests_max=2, wait_ms=0)
        async with held(budget, ONE), held(budget, ONE):
            for _ in range(3):
                with pytest.raises(Busy, match="2 requests of this access key"):
                    await budget.admit(ONE)
            assert budget.count("one") == 2
            assert not budget._keys["one"].waiting, "however many tried"
        assert budget.count("one") == 0

    asyncio.run(run())


def test_those_that_wait_go_on_in_order_and_never_too_many() -> None:
    async def run() -> None:
        budget = budget_of(key_requests_max=3)
        order: list[int] = []

        async def work(number: int) -> None:
            async with held(budget, ONE):
                order.append(number)
                assert budget.count("one") <= 3
                await asyncio.sleep(0)

        await asyncio.gather(*(work(number) for number in range(50)))
        assert order == list(range(50))
        assert budget.count("one") == 0
        assert not budget._keys

    asyncio.run(run())


def test_exempt_keys_have_no_limit_but_that_of_all() -> None:
    async def run() -> None:
        budget = budget_of(key_requests_max=1, requests_max=4, wait_ms=0)
        async with held(budget, EXEMPT), held(budget, EXEMPT), held(budget, EXEMPT):
            admitted(budget, EXEMPT)
            with pytest.raises(Busy):
                await budget.admit(EXEMPT)

    asyncio.run(run())


def test_one_that_gives_up_waiting_leaves_the_place_to_the_next() -> None:
    async def run() -> None:
        budget = budget_of(key_requests_max=1)
        first = await budget.admit(ONE)
        waiting = [asyncio.create_task(budget.admit(ONE)) for _ in range(3)]
        await settle()
        waiting[0].cancel()
        await settle()
        first.release()
        waiting[1].cancel()  # it was given the place, but has not run yet
        await settle()
        assert [task.done() for task in waiting] == [True, True, True]
        assert not waiting[2].cancelled()
        assert budget.count("one") == budget.requests == 1
        waiting[2].result().release()
        assert budget.count("one") == budget.requests == 0

    asyncio.run(run())


def test_one_that_waited_is_refused_if_there_is_no_room_for_its_body() -> None:
    async def run() -> None:
        budget = budget_of(key_requests_max=1, body_bytes_max=10)
        first = await budget.admit(ONE)
        waiting = [asyncio.create_task(budget.admit(ONE, held_bytes=size)) for size in (6, 1)]
        await settle()
        admitted(budget, EXEMPT, held_bytes=8)
        first.release()
        await settle()
        with pytest.raises(Busy, match="no memory for 6B more of a request body"):
            waiting[0].result()
        waiting[1].result().release()
        assert (budget.requests, budget.body_bytes) == (1, 8)

    asyncio.run(run())


def test_a_limit_that_was_lowered_meanwhile_holds_for_those_that_wait() -> None:
    async def run() -> None:
        budget = budget_of(key_requests_max=3)
        shares = [await budget.admit(ONE) for _ in range(3)]
        waiting = asyncio.create_task(budget.admit(Key("one", inflight_max=1)))
        await settle()
        for share in shares[:2]:
            share.release()
            await settle()
            assert not waiting.done()
        shares[2].release()
        (await waiting).release()
        assert budget.requests == 0

    asyncio.run(run())
