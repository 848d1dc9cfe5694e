"""How much the object store has: right, and counted no oftener than it must be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.errors import Busy
from lakebed.node.object_totals import FRESH_NS, REST_PART, ObjectTotals
from lakebed.seglake.meta.rows import Totals
from lakebed.seglake.model import Versioning
from lakebed.store.store import Store
from tests.client.scripted import ManualClock
from tests.http.serving import in_loop


class SlowStore:
    """Counts as a store does that takes its time, or fails."""

    def __init__(self, clock: ManualClock) -> None:
        self.counted = 0
        self.took_ns = 0
        self.error: Exception | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._clock = clock

    def object_totals(self) -> Totals | None:
        self.may_go_on.wait(60)
        self._clock.now_ns += self.took_ns
        if self.error is not None:
            raise self.error
        self.counted += 1
        return Totals(self.counted, 0, 0, 0, 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        yield opened


def test_they_are_what_is_stored(store: Store) -> None:
    assert store.object_totals() is None, "nobody asked for a bucket"
    bucket = store.bucket("photos", versioning=Versioning.ENABLED)
    assert store.object_totals() == Totals(0, 0, 0, 0, 0)
    bucket.put("one", b"x" * 100)
    bucket.put("one", b"x" * 10)
    bucket.put("two", b"x")
    assert store.object_totals() == Totals(2, 1, 111, 3, 3)
    bucket.delete("one")
    assert store.object_totals() == Totals(1, 1, 111, 4, 4), "a delete marker is a version"
    store.bucket("plain", versioning=Versioning.DISABLED).put("one", b"x" * 1000)
    store.bucket("plain").put("one", b"x" * 5)
    totals = store.object_totals()
    assert totals is not None
    assert totals._replace(manifests=0) == Totals(2, 1, 116, 5, 0)
    assert totals.manifests in (5, 6), "a file may wait to be removed"


@in_loop
async def test_they_are_counted_once_a_minute_however_often_somebody_asks() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    totals = ObjectTotals(store, clock=clock, answer_s=60)  # type: ignore[arg-type]
    found = [await totals.snapshot() for _ in range(5)]
    assert {one.objects for one in found if one} == {1}
    clock.now_ns += FRESH_NS - 1
    assert (await totals.snapshot() or Totals(0, 0, 0, 0, 0)).objects == 1
    clock.now_ns += 1
    assert (await totals.snapshot() or Totals(0, 0, 0, 0, 0)).objects == 2
    assert store.counted == 2


@in_loop
async def test_what_takes_long_is_done_seldom_and_holds_nobody_up() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    store.took_ns = FRESH_NS
    store.may_go_on.clear()
    totals = ObjectTotals(store, clock=clock, answer_s=0.01)  # type: ignore[arg-type]
    assert [await totals.snapshot(), await totals.snapshot()] == [None, None]
    store.may_go_on.set()
    while (found := await totals.snapshot()) is None:
        await asyncio.sleep(0)
    assert (found.objects, store.counted) == (1, 1)
    clock.now_ns += FRESH_NS * REST_PART - 1
    await totals.snapshot()
    assert store.counted == 1
    clock.now_ns += 1
    store.may_go_on.clear()
    assert await totals.snapshot() == found, "what was counted last"
    store.may_go_on.set()
    while await totals.snapshot() == found:
        await asyncio.sleep(0)
    assert store.counted == 2


@in_loop
async def test_a_count_that_failed_leaves_what_was_known_and_is_not_repeated_at_once() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    totals = ObjectTotals(store, clock=clock, answer_s=60)  # type: ignore[arg-type]
    known = await totals.snapshot()
    clock.now_ns += FRESH_NS
    store.error = Busy("no")
    assert await totals.snapshot() == known
    store.error = None
    assert await totals.snapshot() == known
    clock.now_ns += FRESH_NS
    assert await totals.snapshot() != known


@in_loop
async def test_a_store_without_buckets_is_asked_again(store: Store) -> None:
    totals = ObjectTotals(store, answer_s=60)
    assert await totals.snapshot() is None
    store.bucket("photos").put("one", b"x")
    found = await totals.snapshot()
    assert found is not None
    assert found.objects == 1
