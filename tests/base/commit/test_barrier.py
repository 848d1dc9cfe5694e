"""The barrier with real threads and a sink whose every move the test decides."""

from __future__ import annotations

import threading

import pytest

from lakebed.base.commit import CommitConfig
from lakebed.base.counters import Counters
from lakebed.base.errors import (
    BadConfig,
    Busy,
    Closed,
    InputError,
    LakebedError,
    OutcomeUnknown,
    Poisoned,
    SyncFailed,
)
from lakebed.base.runner import ThreadRunner
from tests.base.commit.barriers import Caller, ListSink, make_barrier, until


def test_a_lone_caller_commits_in_its_own_thread(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink)
    assert barrier.commit("one", size=3) == "ONE"
    assert sink.threads == [threading.current_thread().name]


def test_those_who_come_during_a_commit_share_the_next_one(runner: ThreadRunner) -> None:
    sink, counters = ListSink(), Counters()
    barrier = make_barrier(runner, sink, counters=counters)
    sink.may_go.clear()
    first = Caller(barrier, "first")
    assert sink.entered.acquire(timeout=30)
    others = [Caller(barrier, f"other{n}") for n in range(20)]
    until(lambda: barrier._pending_count == 21)
    sink.may_go.set()
    assert first.joined().result == "FIRST"
    assert [other.joined().result for other in others] == [f"OTHER{n}" for n in range(20)]
    assert [len(batch) for batch in sink.batches] == [1, 20]
    assert sink.threads[1].startswith("caller of other"), "a waiter leads, not a background thread"
    snapshot = counters.snapshot()
    assert snapshot.counters["commit_items"] == 21
    assert snapshot.histograms["commit_duration_ns"].count == 2


def test_a_failed_commit_fails_exactly_those_it_covered(runner: ThreadRunner) -> None:
    """And never acknowledges them with a later batch's success."""
    sink = ListSink()
    barrier = make_barrier(runner, sink)
    sink.outcomes = [None, InputError("this batch fails"), None]
    sink.may_go.clear()
    first = Caller(barrier, "first")
    assert sink.entered.acquire(timeout=30)
    covered = [Caller(barrier, f"covered{n}") for n in range(5)]
    until(lambda: barrier._pending_count == 6)
    sink.may_go.set()
    assert first.joined().result == "FIRST"
    for caller in covered:
        assert isinstance(caller.joined().error, InputError)
    assert barrier.commit("later", size=1) == "LATER"
    assert sink.batches == [["first"], ["later"]]


def test_one_bad_item_does_not_fail_its_neighbours(runner: ThreadRunner) -> None:
    barrier = make_barrier(runner, ListSink(), delay_ms_max=60_000)
    tickets = [barrier.submit(item, size=1) for item in ("good", "bad one", "fine")]
    assert tickets[0].wait() == "GOOD"
    with pytest.raises(InputError, match="bad one"):
        tickets[1].wait()
    assert tickets[2].result() == "FINE"


def test_a_failed_sync_poisons_and_is_never_followed_by_an_ack(runner: ThreadRunner) -> None:
    sink = ListSink()
    sink.outcomes = [SyncFailed("fdatasync", "the file")]
    barrier = make_barrier(runner, sink)
    sink.may_go.clear()
    covered = Caller(barrier, "covered")
    assert sink.entered.acquire(timeout=30)
    queued = Caller(barrier, "queued")
    until(lambda: barrier._pending_count == 2)
    sink.may_go.set()
    assert isinstance(covered.joined().error, SyncFailed)
    assert isinstance(queued.joined().error, Poisoned)
    with pytest.raises(Poisoned, match="refused after a failure"):
        barrier.commit("later", size=1)
    assert sink.batches == []
    barrier.close()


def test_queued_items_go_on_in_the_sink_that_takes_over(runner: ThreadRunner) -> None:
    old, new = ListSink(), ListSink()
    old.outcomes = [SyncFailed("fdatasync", "the old file")]
    causes: list[LakebedError] = []

    def recover(cause: LakebedError) -> ListSink:
        causes.append(cause)
        return new

    barrier = make_barrier(runner, old, recover=recover)
    old.may_go.clear()
    covered = Caller(barrier, "covered")
    assert old.entered.acquire(timeout=30)
    queued = Caller(barrier, "queued")
    until(lambda: barrier._pending_count == 2)
    old.may_go.set()
    assert isinstance(covered.joined().error, SyncFailed)
    assert queued.joined().result == "QUEUED"
    assert barrier.commit("later", size=1) == "LATER"
    assert new.batches == [["queued"], ["later"]]
    assert old.batches == []
    assert [type(cause) for cause in causes] == [SyncFailed]


def test_a_recovery_that_fails_refuses_all(runner: ThreadRunner) -> None:
    sink = ListSink()
    sink.outcomes = [SyncFailed("fdatasync", "the file")]

    def recover(cause: LakebedError) -> ListSink:
        raise Busy("no new file to be had")

    barrier = make_barrier(runner, sink, recover=recover)
    with pytest.raises(SyncFailed):
        barrier.commit("one", size=1)
    with pytest.raises(Poisoned, match="no new file to be had"):
        barrier.commit("two", size=1)


def test_a_bug_in_the_sink_is_raised_to_the_leader_and_refuses_the_rest(
    runner: ThreadRunner,
) -> None:
    sink = ListSink()
    sink.outcomes = [KeyboardInterrupt()]
    barrier = make_barrier(runner, sink)
    sink.may_go.clear()
    leader = Caller(barrier, "leader")
    assert sink.entered.acquire(timeout=30)
    queued = Caller(barrier, "queued")
    until(lambda: barrier._pending_count == 2)
    sink.may_go.set()
    assert isinstance(leader.joined().error, KeyboardInterrupt)
    assert isinstance(queued.joined().error, Poisoned)


def test_items_nobody_waits_for_are_committed_in_the_background(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=1)
    done = threading.Event()
    ticket = barrier.submit("unattended", size=1)
    ticket.when_done(done.set)
    assert done.wait(30)
    assert ticket.result() == "UNATTENDED"
    assert sink.threads == ["commit"]
    late = threading.Event()
    ticket.when_done(late.set)
    assert late.is_set()


def test_a_full_batch_does_not_wait_for_its_timer(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=60_000, batch_count_max=4)
    done = threading.Event()
    for n in range(3):
        barrier.submit(f"item{n}", size=1)
    assert sink.batches == []
    barrier.submit("item3", size=1).when_done(done.set)
    assert done.wait(30)
    assert [len(batch) for batch in sink.batches] == [4]


def test_an_awaited_item_waits_for_no_timer_and_takes_those_before_it_along(
    runner: ThreadRunner,
) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=60_000)
    for _ in range(3):
        unattended = barrier.submit("unattended", size=1)
        until(lambda: barrier._is_timed)
        done = threading.Event()
        awaited = barrier.submit("awaited", size=1, timeout=0, is_awaited=True)
        awaited.when_done(done.set)
        assert done.wait(30)
        assert (unattended.result(), awaited.result()) == ("UNATTENDED", "AWAITED")
    assert sink.batches == 3 * [["unattended", "awaited"]]
    assert set(sink.threads) == {"commit"}


def test_awaited_items_that_come_during_a_commit_share_the_next_one(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=60_000)
    sink.may_go.clear()
    barrier.submit("first", size=1, is_awaited=True)
    assert sink.entered.acquire(timeout=30)
    tickets = [barrier.submit(f"item{n}", size=1, is_awaited=True) for n in range(5)]
    done = threading.Event()
    tickets[-1].when_done(done.set)
    sink.may_go.set()
    assert done.wait(30)
    assert sink.batches == [["first"], [f"item{n}" for n in range(5)]]


def test_awaited_items_behind_a_callers_commit_need_nobody_else(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=60_000)
    sink.may_go.clear()
    leader = Caller(barrier, "leader")
    assert sink.entered.acquire(timeout=30)
    done = threading.Event()
    barrier.submit("awaited", size=1, is_awaited=True).when_done(done.set)
    sink.may_go.set()
    assert done.wait(30)
    assert leader.joined().result == "LEADER"
    assert sink.batches == [["leader"], ["awaited"]]


def test_waiting_for_an_unattended_item_commits_it_at_once(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=60_000, batch_count_max=2)
    tickets = [barrier.submit(f"item{n}", size=1) for n in range(5)]
    assert [ticket.wait() for ticket in tickets] == [f"ITEM{n}" for n in range(5)]
    assert [item for batch in sink.batches for item in batch] == [f"item{n}" for n in range(5)]


def test_batches_keep_to_the_byte_ceiling(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, batch_bytes_max=4096, delay_ms_max=60_000)
    tickets = [barrier.submit(f"item{n}", size=1500) for n in range(6)]
    tickets[-1].wait()
    assert [len(batch) for batch in sink.batches] == [2, 2, 2]


def test_an_impatient_waiter_leaves_its_item_to_be_committed(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=0)
    sink.may_go.clear()
    first = Caller(barrier, "first")
    assert sink.entered.acquire(timeout=30)
    impatient = Caller(barrier, "impatient", timeout=0.01)
    assert isinstance(impatient.joined().error, OutcomeUnknown)
    follower = Caller(barrier, "follower")
    until(lambda: barrier._pending_count == 3)
    sink.may_go.set()
    assert first.joined().result == "FIRST"
    assert follower.joined().result == "FOLLOWER"
    assert sink.batches == [["first"], ["impatient", "follower"]]


def test_an_heir_that_gives_up_leaves_the_rest_to_the_background(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, delay_ms_max=0)
    sink.may_go.clear()
    first = Caller(barrier, "first")
    assert sink.entered.acquire(timeout=30)
    heir = Caller(barrier, "heir", timeout=0.3)
    until(lambda: barrier._pending_count == 2)
    follower = Caller(barrier, "follower")
    assert isinstance(heir.joined().error, OutcomeUnknown)
    sink.may_go.set()
    assert first.joined().result == "FIRST"
    assert follower.joined().result == "FOLLOWER"


def test_a_callback_that_fails_harms_nobody(runner: ThreadRunner) -> None:
    barrier = make_barrier(runner, ListSink(), delay_ms_max=60_000)
    told = threading.Event()
    ticket = barrier.submit("item", size=1)

    def closed_transport() -> None:
        raise RuntimeError("the transport is closed")

    ticket.when_done(closed_transport)
    ticket.when_done(told.set)
    assert ticket.wait() == "ITEM"
    assert told.is_set()
    assert barrier.commit("next", size=1) == "NEXT"


def test_tickets_of_one_batch_share_their_completion(runner: ThreadRunner) -> None:
    barrier = make_barrier(runner, ListSink(), delay_ms_max=60_000)
    first, second = barrier.submit("a", size=1), barrier.submit("b", size=1)
    assert first.batch is second.batch
    first.wait()
    assert second.is_done


def test_closing_commits_what_is_queued_and_refuses_the_rest(runner: ThreadRunner) -> None:
    sink = ListSink()
    with make_barrier(runner, sink, delay_ms_max=60_000) as barrier:
        tickets = [barrier.submit(f"item{n}", size=1) for n in range(3)]
    assert [ticket.result() for ticket in tickets] == ["ITEM0", "ITEM1", "ITEM2"]
    with pytest.raises(Closed):
        barrier.commit("late", size=1)
    barrier.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_bytes_max": 1},
        {"batch_count_max": 0},
        {"delay_ms_max": -1},
        {"queue_bytes_max": 4096, "batch_bytes_max": 8192},
    ],
)
def test_ceilings_that_cannot_be_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(BadConfig):
        CommitConfig(**settings)


def test_many_threads_lose_no_item_and_no_wake_up(runner: ThreadRunner) -> None:
    sink = ListSink()
    barrier = make_barrier(runner, sink, queue_count_max=50, batch_count_max=16)

    def work(name: int) -> None:
        for n in range(100):
            item = f"{name}-{n}"
            if n % 3:
                assert barrier.commit(item, size=1) == item
            else:
                barrier.submit(item, size=1)

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    barrier.close()
    committed = [item for batch in sink.batches for item in batch]
    assert sorted(committed) == sorted(f"{name}-{n}" for name in range(24) for n in range(100))
    for name in range(24):
        mine = [item for item in committed if item.startswith(f"{name}-")]
        assert mine == [f"{name}-{n}" for n in range(100)], "a caller's items changed their order"
