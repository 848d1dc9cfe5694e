"""Which failures of a store are tried again, how often, and with which pauses."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from lakebed.aof.tiers.errors import Cancelled, Missing, Unauthorised, Unavailable
from lakebed.aof.tiers.object_store import RETRY, ObjectStore
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.aof.tiers.retrying_store import RetryingStore
from lakebed.aof.tiers.transfer import StoppableSource
from lakebed.base.clock import NS_PER_MS
from lakebed.base.simulation.world import World
from tests.fakes.object_store import FakeObjectStore, Trouble

CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "put": lambda store: store.put("a/b", BytesSource(b"x"), metadata={}),
    "get": lambda store: store.get_range("a/a", offset=0, length=1),
    "head": lambda store: store.head("a/a"),
    "delete": lambda store: store.delete("a/b"),
    "list": lambda store: list(store.list("a/")),
}


class Bench:
    """A fake store with an object in it, and the retrying one around it."""

    def __init__(self) -> None:
        self.world = World(1)
        self.fake = FakeObjectStore(self.world.runner, Random(1))
        self.fake.put("a/a", BytesSource(b"y"), metadata={})
        self.told: list[tuple[str, Exception]] = []
        self.store = RetryingStore(
            self.fake,
            random=Random(2),
            sleep_ns=self.world.runner.sleep_ns,
            on_retry=lambda operation, error: self.told.append((operation, error)),
        )


@pytest.mark.parametrize("operation", CALLS)
def test_three_failures_are_forgiven_and_counted(operation: str) -> None:
    bench = Bench()
    bench.fake.plan(operation, Trouble.UNAVAILABLE, Trouble.THROTTLED, Trouble.LOST_ANSWER)
    CALLS[operation](bench.store)
    assert [told for told, _ in bench.told] == [operation] * 3
    waited_ms = bench.world.clock.monotonic_ns() / NS_PER_MS
    assert 350 <= waited_ms <= 700, "100, 200 and 400 ms, or as little as half of that"


@pytest.mark.parametrize("operation", CALLS)
def test_the_fourth_failure_is_told(operation: str) -> None:
    bench = Bench()
    bench.fake.plan(operation, *[Trouble.UNAVAILABLE] * 4)
    with pytest.raises(Unavailable):
        CALLS[operation](bench.store)
    assert len(bench.told) == RETRY.attempts - 1 == 3


@pytest.mark.parametrize("operation", CALLS)
def test_refused_credentials_are_told_at_once(operation: str) -> None:
    bench = Bench()
    bench.fake.refuses = True
    with pytest.raises(Unauthorised):
        CALLS[operation](bench.store)
    assert not bench.told


def test_a_missing_object_is_told_at_once() -> None:
    bench = Bench()
    with pytest.raises(Missing):
        bench.store.head("not/there")
    assert not bench.told


def test_a_put_that_was_stopped_on_request_is_not_tried_again() -> None:
    bench = Bench()
    source = StoppableSource(BytesSource(b"x"), lambda: True)
    with pytest.raises(Cancelled):
        bench.store.put("a/b", source, metadata={})
    assert not bench.told
    assert sorted(bench.fake.objects) == ["a/a"]


def test_a_lost_answer_puts_the_same_object_once_more() -> None:
    bench = Bench()
    bench.fake.plan("put", Trouble.LOST_ANSWER)
    bench.store.put("a/b", BytesSource(b"x"), metadata={"n": "1"})
    assert bench.fake.calls["put", "a/b"] == 2
    assert bench.fake.objects["a/b"].data == b"x"
    assert sorted(bench.fake.objects) == ["a/a", "a/b"]
