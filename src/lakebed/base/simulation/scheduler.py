"""The deterministic runner: threads are greenlets, and a seed decides their order.

One greenlet runs at a time. The scheduler can switch to another only where the order of threads
matters, such as at locks, events, sleeps and disk operations. There it draws at random which
greenlet continues. Time passes only when all greenlets wait: then it jumps to the next deadline.

The code that drives a simulation, such as a test, is not scheduled itself: when it waits for an
event or a lock, the greenlets run until it no longer has to wait.

A `SimulatedCrash` in one greenlet ends all of them, as a crash ends all threads.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from random import Random
from typing import Generic, TypeVar
from weakref import WeakSet

from greenlet import GreenletExit, getcurrent, greenlet

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.runner.protocol import Step
from lakebed.base.simulation.clock import SimulatedClock

Result = TypeVar("Result")


_numbers = itertools.count()
_alive: WeakSet[Scheduler] = WeakSet()


@contextmanager
def killing_all() -> Iterator[None]:
    """When the `with` block ends, kills every scheduler that was created in it.

    A suspended greenlet whose variables refer to it is never garbage-collected, and keeps a whole
    simulated machine in memory.
    """
    first = next(_numbers)
    try:
        yield
    finally:
        newer = [scheduler for scheduler in list(_alive) if scheduler.number > first]
        for scheduler in sorted(newer, key=lambda scheduler: scheduler.number):
            scheduler.kill_all()


class SimulatedCrash(BaseException):
    """The simulated machine or process has crashed. Not an `Exception`, so that code that handles
    any `Exception` does not continue after it.
    """


class Deadlock(AssertionError):
    """All threads wait, and no deadline will wake any of them."""


class Livelock(AssertionError):
    """Threads were resumed more than `switches_per_s_max` times within a simulated second."""


class _Strand:
    """A simulated thread."""

    def __init__(self, name: str, body: Callable[[], None], scheduler: Scheduler) -> None:
        self.name = name
        self.waits_for = ""
        self.ended = False
        self._body = body
        self._scheduler = scheduler
        self.greenlet = greenlet(self._run, scheduler.hub)

    def _run(self) -> None:
        try:
            self._body()
        except GreenletExit:
            pass
        except SimulatedCrash as crash:
            self._scheduler.crash = crash
        finally:
            self.ended = True


class Call(Generic[Result]):
    """A function that runs once as a simulated thread, and its result."""

    def __init__(self) -> None:
        self.done = False
        self.error: Exception | None = None
        self._result: list[Result] = []

    def result(self) -> Result:
        if self.error is not None:
            raise self.error
        return self._result[0]

    def settle(self, function: Callable[[], Result]) -> None:
        try:
            self._result.append(function())
        except Exception as error:  # noqa: BLE001 - raised by result()
            self.error = error
        self.done = True


class SimulatedTask:
    """A step that the scheduler calls repeatedly."""

    def __init__(self, name: str, step: Step, scheduler: Scheduler) -> None:
        self.error: Exception | None = None
        self._step = step
        self._scheduler = scheduler
        self._stopping = False
        self._woken = SimulatedEvent(scheduler, f"{name} to be woken")
        self._ended = SimulatedEvent(scheduler, f"{name} to end")
        scheduler.start(name, self._run)

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()
        self._ended.wait()

    def _run(self) -> None:
        while not self._stopping:
            self._woken.reset()
            try:
                delay_ns = self._step()
            except Exception as error:  # noqa: BLE001 - raised by close()
                self.error = error
                break
            if delay_ns is None or delay_ns > 0:
                self._woken.wait(None if delay_ns is None else delay_ns / NS_PER_S)
            else:
                self._scheduler.pause("step again")
        self._ended.set()


class SimulatedEvent:
    def __init__(self, scheduler: Scheduler, name: str = "an event") -> None:
        self._scheduler = scheduler
        self._name = name
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._scheduler.pause("event set")

    def reset(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        timeout_ns = None if timeout is None else round(timeout * NS_PER_S)
        return self._scheduler.wait_until(self.is_set, timeout_ns=timeout_ns, name=self._name)


class SimulatedMutex:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = False

    def acquire(self) -> bool:
        self._scheduler.pause("lock")
        if self._held or self._scheduler.crash is not None:
            self._scheduler.wait_until(lambda: not self._held, timeout_ns=None, name="a lock")
        self._held = True
        return True

    def release(self) -> None:
        assert self._held, "released a lock that is not held"
        self._held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Scheduler:
    """A `Runner` that draws the order of threads from `random`."""

    def __init__(self, random: Random, clock: SimulatedClock) -> None:
        self.hub = getcurrent()
        self.number = next(_numbers)
        _alive.add(self)
        self.crash: SimulatedCrash | None = None
        self.trace: list[str] = []
        self.keeps_trace = True
        self.stay_share = 0.0  # the share of pauses without a thread switch
        self.switch_count = 0  # how many times a thread was resumed
        self.switches_per_s_max: int | None = None  # raises `Livelock` if exceeded
        self._second = (0, 0)  # `switch_count` and time at the start of the current second
        self._random = random
        self._clock = clock
        self._strands: dict[greenlet, _Strand] = {}
        self._ready: list[_Strand] = []
        self._waiting: dict[_Strand, Callable[[], bool]] = {}
        self._deadlines: list[tuple[int, int, _Strand]] = []
        self._numbers = itertools.count()
        self._tasks: list[SimulatedTask] = []
        self._calls: list[Call[object]] = []
        self._closed = False

    @property
    def clock(self) -> SimulatedClock:
        return self._clock

    def mutex(self) -> SimulatedMutex:
        return SimulatedMutex(self)

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self)

    def spawn(self, name: str, step: Step) -> SimulatedTask:
        if self._closed:
            raise Closed(f"cannot start {name}: the runner is closed")
        task = SimulatedTask(name, step, self)
        self._tasks.append(task)
        return task

    def call(self, name: str, function: Callable[[], Result]) -> Call[Result]:
        """Adds a simulated thread that calls `function` once. `run` executes it."""
        call: Call[Result] = Call()
        self._calls.append(call)  # type: ignore[arg-type]
        self.start(name, lambda: call.settle(function))
        return call

    def run(self) -> None:
        """Runs all threads until every function started with `call` has ended."""
        condition = lambda: all(call.done for call in self._calls)  # noqa: E731
        self.wait_until(condition, timeout_ns=None, name="the callers to end")

    def settle(self) -> None:
        """Runs the threads until all of them wait. No time passes."""
        while self._promote():
            self._resume()

    def advance(self, duration_ns: int) -> None:
        """Lets `duration_ns` pass, and runs the threads whose deadlines are reached."""
        until = self._clock.monotonic_ns() + duration_ns
        self.settle()
        while self._deadlines and self._deadlines[0][0] <= until:
            self._pass_time()
            self.settle()
        self._clock.advance(until - self._clock.monotonic_ns())

    def compute(self, work: Callable[[], object]) -> Future[object]:
        """Runs the work immediately in the calling thread, as on a machine with one core. If the
        work raises an error, this method raises it, not `result`.
        """
        done: Future[object] = Future()
        done.set_result(work())
        return done

    def sleep_ns(self, duration_ns: int) -> None:
        self.wait_until(lambda: self._closed, timeout_ns=duration_ns, name="time to pass")

    def close(self) -> None:
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.stop()
        for task in tasks:
            if task.error is not None:
                raise task.error

    def failures(self) -> list[Exception]:
        """Returns the errors of tasks whose step raised. `close` raises the first of them."""
        return [task.error for task in self._tasks if task.error is not None]

    def start(self, name: str, body: Callable[[], None]) -> None:
        strand = _Strand(name, body, self)
        self._strands[strand.greenlet] = strand
        self._ready.append(strand)

    def pause(self, *labels: str) -> None:
        """Lets other threads run before the calling thread continues. Does nothing if the code that
        drives the simulation calls it. Raises `SimulatedCrash` after a crash.
        """
        if self.crash is not None:
            self._check_alive()
        strand = self._strands.get(getcurrent())
        if strand is None:
            return
        if self.keeps_trace:
            self.trace.append(f"{strand.name}: {' '.join(labels)}")
        if self.stay_share and self._random.random() < self.stay_share:
            return
        self._ready.append(strand)
        self.hub.switch()

    def wait_until(
        self, condition: Callable[[], bool], *, timeout_ns: int | None, name: str
    ) -> bool:
        """Waits until `condition` returns True, and then returns True. Returns False on time-out.
        `name` describes in errors what the thread waits for.
        """
        self._check_alive()
        deadline = None if timeout_ns is None else self._clock.monotonic_ns() + max(timeout_ns, 0)
        strand = self._strands.get(getcurrent())
        if strand is None:
            return self._drive_until(condition, deadline, name)
        while not condition():
            if deadline is not None and self._clock.monotonic_ns() >= deadline:
                return False
            strand.waits_for = name
            self._waiting[strand] = condition
            if deadline is not None:
                heapq.heappush(self._deadlines, (deadline, next(self._numbers), strand))
            self.hub.switch()
        return True

    def halt(self, crash: SimulatedCrash) -> None:
        """Records a crash. The running thread is unwound, and all other threads end."""
        self.crash = crash

    def kill_all(self) -> None:
        """Ends all simulated threads immediately. The scheduler cannot be used afterwards."""
        self.crash = self.crash or SimulatedCrash("the process was killed")
        strands, self._strands = self._strands, {}
        self._ready, self._waiting, self._deadlines = [], {}, []
        for strand in strands.values():
            if not strand.ended:
                strand.greenlet.throw(GreenletExit)

    def _check_alive(self) -> None:
        """Raises `SimulatedCrash` after a crash, so that code that is being unwound does not
        continue.

        Each raise creates a new error: raising an error again while it is handled can make a cycle
        of error contexts, which `ExitStack` would follow for ever.
        """
        if self.crash is not None:
            raise SimulatedCrash(str(self.crash))

    def _drive_until(self, condition: Callable[[], bool], deadline: int | None, name: str) -> bool:
        while not condition():
            if self._promote():
                self._resume()
            elif deadline is not None and (
                not self._deadlines or self._deadlines[0][0] >= deadline
            ):
                self._clock.advance(deadline - self._clock.monotonic_ns())
                return condition()
            elif self._deadlines:
                self._pass_time()
            else:
                raise Deadlock(self._who_waits(name))
        return True

    def _promote(self) -> bool:
        """Moves threads that no longer have to wait to the ready list. Returns whether any thread
        is ready.
        """
        for strand in [strand for strand, condition in self._waiting.items() if condition()]:
            self._make_ready(strand)
        return bool(self._ready)

    def _make_ready(self, strand: _Strand) -> None:
        del self._waiting[strand]
        self._deadlines = [entry for entry in self._deadlines if entry[2] is not strand]
        heapq.heapify(self._deadlines)
        self._ready.append(strand)

    def _pass_time(self) -> None:
        deadline, _, strand = self._deadlines[0]
        self._clock.advance(deadline - self._clock.monotonic_ns())
        self._make_ready(strand)

    def _resume(self) -> None:
        strand = self._ready.pop(self._random.randrange(len(self._ready)))
        self.switch_count += 1
        if self.switches_per_s_max is not None and self._is_spinning(self.switches_per_s_max):
            running = ", ".join(sorted({strand.name, *(ready.name for ready in self._ready)}))
            raise Livelock(
                f"more than {self.switches_per_s_max} thread switches within a simulated second: "
                f"{running}"
            )
        self.hub = getcurrent()
        strand.greenlet.parent = self.hub
        strand.greenlet.switch()
        if strand.ended:
            self._strands.pop(strand.greenlet, None)
        if self.crash is not None:
            self.kill_all()
            raise self.crash

    def _is_spinning(self, switches_per_s_max: int) -> bool:
        count, since_ns = self._second
        now_ns = self._clock.monotonic_ns()
        if now_ns >= since_ns + NS_PER_S or now_ns < since_ns:
            self._second = (self.switch_count, now_ns)
            return False
        return self.switch_count - count > switches_per_s_max

    def count_anew(self) -> None:
        """Starts counting switches for `switches_per_s_max` from zero. A driver that runs many
        calls without letting time pass uses this.
        """
        self._second = (self.switch_count, self._clock.monotonic_ns())

    def _who_waits(self, name: str) -> str:
        others = ", ".join(f"{strand.name} for {strand.waits_for}" for strand in self._waiting)
        return f"deadlock: the driver waits for {name}; other waiting threads: {others or 'none'}"
