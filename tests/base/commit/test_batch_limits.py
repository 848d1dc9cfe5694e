"""Items that hold many: how they fill a batch, and that no batch holds more than it may."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.commit import Barrier, CommitConfig, Linger
from lakebed.base.errors import Busy
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB


class NotingSink:
    """Keeps the batches it was given."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def commit(self, items: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(items))
        return [-item for item in items]


def made(
    world: World, linger: Linger | None = None, **limits: int
) -> tuple[Barrier[int, int], NotingSink]:
    sink = NotingSink()
    barrier: Barrier[int, int] = Barrier(
        sink,
        name="a log",
        runner=world.runner,
        wake=lambda: None,
        config=CommitConfig(**limits),
        linger=linger,
    )
    return barrier, sink


def test_a_batch_ends_before_the_item_that_does_not_fit() -> None:
    barrier, sink = made(World(0), batch_count_max=10)
    tickets = [barrier.submit(count, size=1, count=count) for count in (4, 6, 1, 9, 10, 25, 3)]
    assert tickets[-1].wait() == -3
    assert sink.batches == [[4, 6], [1, 9], [10], [25], [3]]
    assert [ticket.result() for ticket in tickets] == [-4, -6, -1, -9, -10, -25, -3]


def test_an_item_counts_as_one_unless_it_says_otherwise() -> None:
    barrier, sink = made(World(0), batch_count_max=3)
    tickets = [barrier.submit(number, size=1) for number in range(7)]
    tickets[-1].wait()
    assert [len(batch) for batch in sink.batches] == [3, 3, 1]


def test_what_is_full_by_its_count_is_due_at_once() -> None:
    world = World(0)
    barrier, sink = made(world, batch_count_max=10, delay_ms_max=1000)
    barrier.submit(1, size=1, count=9)
    delay_ns = barrier.step()
    assert delay_ns is not None
    assert delay_ns > 0
    assert not sink.batches
    barrier.submit(2, size=1, count=1)
    assert barrier.step() is None
    assert sink.batches == [[1, 2]]


def test_an_adaptive_linger_commits_at_once_while_idle() -> None:
    world = World(0)
    barrier, sink = made(world, Linger(delay_ms_max=1000), delay_ms_max=1000)
    barrier.submit(1, size=1)
    assert barrier.step() is None
    assert sink.batches == [[1]]


def test_the_queue_counts_items_not_what_they_hold() -> None:
    barrier, _ = made(World(0), queue_count_max=2)
    barrier.submit(1, size=1, count=1000)
    barrier.submit(2, size=1, count=1000)
    with pytest.raises(Busy):
        barrier.submit(3, size=1, timeout=0)
    barrier.close()
    assert barrier._pending_count == 0


ITEMS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6 * KIB)), min_size=1, max_size=30)


@given(ITEMS)
def test_no_batch_is_larger_than_it_may_be_unless_one_item_is(
    items: list[tuple[int, int]],
) -> None:
    barrier, sink = made(World(0), batch_count_max=20, batch_bytes_max=8 * KIB)
    for number, (count, size) in enumerate(items):
        barrier.submit(number, size=size, count=count)
    barrier.close()
    assert [number for batch in sink.batches for number in batch] == list(range(len(items)))
    for batch in sink.batches:
        if len(batch) > 1:
            assert sum(items[number][0] for number in batch) <= 20
            assert sum(items[number][1] for number in batch) <= 8 * KIB
