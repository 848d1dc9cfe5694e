"""The fake store misbehaves as it is told to, and the same way for the same seed."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.aof.tiers.errors import Missing, Tier2Error, Transient, Unauthorised, Unavailable
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.base.clock import NS_PER_S
from lakebed.base.simulation.world import World
from tests.fakes.object_store import FakeObjectStore, Trouble


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.fixture
def store(world: World) -> FakeObjectStore:
    return FakeObjectStore(world.runner, Random(1))


def put(store: FakeObjectStore, key: str, data: bytes = b"0123456789") -> None:
    store.put(key, BytesSource(data), metadata={})


def test_a_failure_does_nothing(store: FakeObjectStore) -> None:
    kinds: list[tuple[Trouble, type[Tier2Error]]] = [
        (Trouble.UNAVAILABLE, Unavailable),
        (Trouble.THROTTLED, Transient),
        (Trouble.REFUSED, Unauthorised),
    ]
    for trouble, kind in kinds:
        store.plan("put", trouble)
        with pytest.raises(kind):
            put(store, "a")
    assert not store.objects
    assert store.calls["put", "a"] == 3
    put(store, "a")


def test_a_lost_answer_did_it(store: FakeObjectStore) -> None:
    store.plan("put", Trouble.LOST_ANSWER)
    with pytest.raises(Unavailable):
        put(store, "a")
    assert store.head("a").size == 10
    store.plan("delete", Trouble.LOST_ANSWER)
    with pytest.raises(Unavailable):
        store.delete("a")
    with pytest.raises(Missing):
        store.head("a")


def test_trouble_is_planned_for_the_call_it_is_planned_for(store: FakeObjectStore) -> None:
    store.plan("put", None, Trouble.UNAVAILABLE)
    put(store, "a")
    store.head("a")
    with pytest.raises(Unavailable):
        put(store, "b")


def test_what_is_read_may_be_damaged(store: FakeObjectStore) -> None:
    put(store, "a")
    store.plan("get", Trouble.CORRUPTED, Trouble.TRUNCATED)
    corrupted = store.get_range("a", offset=0, length=10)
    assert len(corrupted) == 10
    assert corrupted != b"0123456789"
    truncated = store.get_range("a", offset=0, length=10)
    assert len(truncated) < 10
    assert b"0123456789".startswith(truncated)
    assert store.get_range("a", offset=0, length=10) == b"0123456789"


def test_a_store_may_be_down_or_refuse_for_a_while(store: FakeObjectStore) -> None:
    store.is_down = True
    with pytest.raises(Unavailable):
        store.head("a")
    store.is_down, store.refuses = False, True
    with pytest.raises(Unauthorised):
        list(store.list(""))
    store.refuses = False
    assert list(store.list("")) == []


def test_a_listing_is_behind_and_the_rest_is_not(world: World, store: FakeObjectStore) -> None:
    put(store, "old")
    store.list_lag_ns = NS_PER_S
    world.runner.advance(2 * NS_PER_S)
    put(store, "new")
    store.delete("old")
    assert [info.key for info in store.list("")] == ["old"]
    assert store.head("new").size == 10
    with pytest.raises(Missing):
        store.head("old")
    world.runner.advance(NS_PER_S)
    assert [info.key for info in store.list("")] == ["new"]


def test_calls_take_time_in_which_others_go_on(world: World, store: FakeObjectStore) -> None:
    store.delay_ns_max = NS_PER_S
    for name in "abc":
        world.runner.call(name, lambda name=name: put(store, name))  # type: ignore[misc]
    world.runner.run()
    assert sorted(store.objects) == ["a", "b", "c"]
    assert 0 < world.clock.monotonic_ns() < 5 * NS_PER_S, "at the same time, not one by one"


def test_one_seed_is_one_run() -> None:
    def run(seed: int) -> list[str]:
        world = World(1)
        store = FakeObjectStore(world.runner, Random(seed))
        store.delay_ns_max = NS_PER_S
        store.chances = {Trouble.UNAVAILABLE: 0.3, Trouble.LOST_ANSWER: 0.3}
        told = []
        for number in range(30):
            try:
                put(store, f"k{number}")
            except Unavailable as error:
                told.append(str(error))
        return [*told, *store.objects, str(world.clock.monotonic_ns())]

    assert run(7) == run(7)
    assert run(7) != run(8)
