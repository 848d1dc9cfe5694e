"""The barrier's queue: who waits for room, who would not, and how there comes to be some."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from lakebed.base.commit import Barrier, CommitConfig
from lakebed.base.errors import (
    Busy,
    LakebedError,
    TooLarge,
)
from lakebed.base.runner import ThreadRunner
from tests.base.commit.barriers import Caller, ListSink, make_barrier, until


def test_a_full_queue_holds_callers_back_and_zero_patience_is_busy(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, queue_count_max=2)
    sink.may_go.clear()
    first = Caller(barrier, "first")
    assert sink.entered.acquire(timeout=30)
    second = Caller(barrier, "second")
    until(lambda: barrier._pending_count == 2)
    with pytest.raises(Busy, match="queue of writes is full"):
        barrier.submit("third", size=1, timeout=0)
    with pytest.raises(Busy):
        barrier.commit("third", size=1, timeout=0.01)
    patient = Caller(barrier, "patient")
    sink.may_go.set()
    assert [c.joined().result for c in (first, second, patient)] == ["FIRST", "SECOND", "PATIENT"]
    assert "third" not in [item for batch in sink.batches for item in batch]


def test_who_was_refused_is_told_of_room_when_there_is_room(runner: ThreadRunner) -> None:
    """The sink tells that an item is durable before it leaves the queue: that is too early."""
    told: list[str] = []

    def take_room() -> None:
        told.append(barrier.submit("later", size=4096, timeout=0).wait(30))

    class TellingSink(ListSink):
        def commit(self, items: Sequence[str]) -> Sequence[str | LakebedError]:
            done = super().commit(items)
            if items[0] == "one":
                with pytest.raises(Busy):
                    barrier.submit("early", size=4096, timeout=0)
            return done

    sink = TellingSink()
    barrier = make_barrier(
        runner, sink, on_room=take_room, queue_bytes_max=4096, batch_bytes_max=4096
    )
    assert barrier.commit("one", size=4096) == "ONE"
    assert told == ["LATER"]
    barrier.submit("two", size=4096).wait(30)
    assert told == ["LATER"]  # nobody was refused since
    barrier.close()


def test_a_queue_full_of_unattended_items_is_emptied_by_who_needs_room(
    runner: ThreadRunner,
) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, queue_count_max=3, delay_ms_max=60_000)
    for n in range(3):
        barrier.submit(f"item{n}", size=1)
    assert barrier.commit("one more", size=1) == "ONE MORE"
    assert [item for batch in sink.batches for item in batch] == [
        "item0", "item1", "item2", "one more",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 4160])
def test_who_would_not_wait_for_room_has_it_made(runner: ThreadRunner, size: int) -> None:
    """By the step, which would else leave what is queued, full or not, to those who wait."""
    sink, woken, room = ListSink(), threading.Event(), threading.Event()
    barrier: Barrier[str, str] = Barrier(
        sink,
        name="a log",
        runner=runner,
        wake=woken.set,
        config=CommitConfig(delay_ms_max=60_000, queue_bytes_max=8192, batch_bytes_max=4096),
        on_room=room.set,
    )
    barrier.submit("before", size=1)
    delay_ns = barrier.step()
    assert delay_ns is not None
    assert delay_ns > 0
    assert barrier.submit("queued", size=size).wait(30) == "QUEUED"
    barrier.submit("queued", size=size)
    woken.clear()
    with pytest.raises(Busy):
        barrier.submit("refused", size=8193 - size, timeout=0)
    assert woken.is_set()
    assert barrier.step() is None
    assert room.is_set()
    assert sink.batches[-1] == ["queued"]
    barrier.submit("refused", size=8193 - size, timeout=0)
    barrier.close()


def test_an_item_larger_than_the_queue_is_refused(runner: ThreadRunner) -> None:
    barrier = make_barrier(runner, ListSink(), queue_bytes_max=8192, batch_bytes_max=4096)
    with pytest.raises(TooLarge, match="an item's size in bytes is 8193, the maximum is 8192"):
        barrier.commit("big", size=8193)
    assert barrier.commit("fits", size=8192) == "FITS"
