"""What every runner does, threads and the deterministic scheduler alike."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Closed
from lakebed.base.runner import Runner, Task, ThreadRunner
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.base.simulation.scheduler import Scheduler


def _runners() -> list[Callable[[], Runner]]:
    return [ThreadRunner, lambda: Scheduler(Random(5), SimulatedClock())]


@pytest.fixture(params=_runners(), ids=["threads", "scheduler"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    runner: Runner = request.param()
    yield runner
    runner.close()


def test_a_step_runs_at_once_and_whenever_it_is_woken(runner: Runner) -> None:
    ran = [runner.event() for _ in range(3)]
    count = 0

    def step() -> int | None:
        nonlocal count
        if count < 3:
            ran[count].set()
        count += 1
        return None

    task = runner.spawn("worker", step)
    for event in ran:
        assert event.wait(10)
        task.wake()


def test_a_step_is_run_again_after_the_delay_it_asks_for(runner: Runner) -> None:
    moments: list[int] = []
    done = runner.event()

    def step() -> int | None:
        moments.append(runner.clock.monotonic_ns())
        if len(moments) == 3:
            done.set()
            return None
        return 2 * NS_PER_MS

    runner.spawn("ticker", step)
    assert done.wait(10)
    assert all(b - a >= 2 * NS_PER_MS for a, b in pairwise(moments))


def test_a_wake_during_the_step_runs_it_once_more(runner: Runner) -> None:
    tasks: list[Task] = []
    started, done = runner.event(), runner.event()
    runs = 0

    def step() -> int | None:
        nonlocal runs
        started.wait()
        runs += 1
        if runs == 1:
            tasks[0].wake()
        if runs == 2:
            done.set()
        return None

    tasks.append(runner.spawn("self-waking", step))
    started.set()
    assert done.wait(10)


def test_no_step_runs_after_stop_and_stopping_again_is_fine(runner: Runner) -> None:
    ran = runner.event()
    count = 0

    def step() -> int | None:
        nonlocal count
        count += 1
        ran.set()
        return 0

    task = runner.spawn("busy", step)
    assert ran.wait(10)
    task.stop()
    task.stop()
    before = count
    assert not runner.event().wait(0.02)
    assert count == before


@pytest.mark.parametrize("make", _runners(), ids=["threads", "scheduler"])
def test_a_step_that_raises_is_not_run_again_and_close_tells(make: Callable[[], Runner]) -> None:
    runner = make()
    ran = runner.event()
    failed: list[int] = []

    def step() -> int | None:
        failed.append(1)
        ran.set()
        raise ValueError("broken step")

    task = runner.spawn("broken", step)
    assert ran.wait(10)
    task.wake()
    with pytest.raises(ValueError, match="broken step"):
        runner.close()
    runner.close()
    assert len(failed) == 1


@pytest.mark.parametrize("make", _runners(), ids=["threads", "scheduler"])
def test_a_closed_runner_starts_nothing(make: Callable[[], Runner]) -> None:
    runner = make()
    runner.close()
    with pytest.raises(Closed, match="cannot start late"):
        runner.spawn("late", lambda: None)


def test_a_mutex_is_a_context_manager_and_an_event_times_out(runner: Runner) -> None:
    mutex = runner.mutex()
    with mutex:
        pass
    mutex.acquire()
    mutex.release()
    event = runner.event()
    assert not event.is_set()
    assert not event.wait(0.001)
    event.set()
    assert event.is_set()
    assert event.wait()


def test_threads_carry_their_tasks_names_and_end_with_close() -> None:
    runner, ran = ThreadRunner(), threading.Event()
    names: list[str] = []

    def step() -> int | None:
        names.append(threading.current_thread().name)
        ran.set()
        return None

    runner.spawn("flush of orders", step)
    assert ran.wait(10)
    runner.close()
    assert names == ["flush of orders"]
    assert "flush of orders" not in [thread.name for thread in threading.enumerate()]


def test_closing_wakes_a_sleeper() -> None:
    runner = ThreadRunner()
    sleeper = threading.Thread(target=lambda: runner.sleep_ns(60_000_000_000))
    sleeper.start()
    runner.close()
    sleeper.join(10)
    assert not sleeper.is_alive()


def test_a_forked_child_ends_without_waiting_for_threads_it_does_not_have() -> None:
    with ThreadRunner() as runner:
        runner.spawn("idle", lambda: None)
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
