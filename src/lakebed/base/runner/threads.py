"""The runner of a real process: one named thread per task.

The threads of tasks are daemons, so a program that does not call `close()` still ends, once running
computations have ended. No acknowledged data is lost in that case, because data is acknowledged
only when it is durable.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from lakebed.base.clock import NS_PER_S, Clock, SystemClock
from lakebed.base.errors import Closed
from lakebed.base.runner.protocol import Event, Mutex, Step

_log = logging.getLogger(__name__)
_SLICE_S = 0.25


def _computing_count() -> int:
    """Returns the number of threads for `compute`: more than one per core, because some threads
    wait for the disk.
    """
    return 4 + 2 * (os.cpu_count() or 1)


class OnceEvent:
    """An event that is set once and stays set. Creating and setting a `threading.Event` takes five
    times as long.

    It needs no lock, because appending to a list and popping from it are atomic: a waiter checks
    the flag again after adding itself to the list, and `set` empties the list after setting the
    flag.
    """

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[threading.Lock] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiters = self._waiters
        while waiters:
            try:
                waiter = waiters.pop()
            except IndexError:  # another `set` took the last waiter
                return
            waiter.release()

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        if not self._is_set:
            if threading.get_ident() == threading.main_thread().ident:
                _acquire_in_slices(waiter, timeout)
            else:
                waiter.acquire(timeout=-1 if timeout is None else max(timeout, 0))
        return self._is_set


def _acquire_in_slices(waiter: threading.Lock, timeout: float | None) -> None:
    """Waits for the lock in slices of `_SLICE_S`, so that the main thread handles signals.

    A signal that arrives just before the main thread blocks is handled only when the thread wakes
    up, so without slices a keyboard interrupt might never be handled.
    """
    left = math.inf if timeout is None else max(timeout, 0)
    while not waiter.acquire(timeout=min(left, _SLICE_S)):
        left -= _SLICE_S
        if left <= 0:
            return


class ThreadTask:
    """Calls a step repeatedly on its own thread."""

    def __init__(self, name: str, step: Step) -> None:
        self.error: BaseException | None = None
        self._step = step
        self._stopping = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            try:
                delay_ns = self._step()
            except BaseException as error:  # noqa: BLE001 - raised by close()
                self.error = error
                _log.exception("background task %s failed and is stopped", self._thread.name)
                return
            if delay_ns is None or delay_ns > 0:
                self._woken.wait(None if delay_ns is None else delay_ns / NS_PER_S)


class ThreadRunner:
    """The runner of a real process, with one thread per task."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._tasks: list[ThreadTask] = []  # guarded by _lock
        self._computing: ThreadPoolExecutor | None = None  # guarded by _lock

    @property
    def clock(self) -> Clock:
        return self._clock

    def mutex(self) -> Mutex:
        return threading.Lock()

    def event(self) -> Event:
        return OnceEvent()

    def spawn(self, name: str, step: Step) -> ThreadTask:
        with self._lock:
            if self._closed.is_set():
                raise Closed(f"cannot start {name}: the runner is closed")
            task = ThreadTask(name, step)
            self._tasks.append(task)
            return task

    def compute(self, work: Callable[[], object]) -> Future[object]:
        with self._lock:
            if self._closed.is_set():
                raise Closed("cannot start a computation: the runner is closed")
            if self._computing is None:
                self._computing = ThreadPoolExecutor(_computing_count(), "lakebed-computing")
            return self._computing.submit(work)

    def sleep_ns(self, duration_ns: int) -> None:
        self._closed.wait(duration_ns / NS_PER_S)

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            tasks, self._tasks = self._tasks, []
            computing, self._computing = self._computing, None
        if computing is not None:
            computing.shutdown()
        with contextlib.ExitStack() as stack:
            for task in tasks:
                stack.callback(task.stop)
        for task in tasks:
            if task.error is not None:
                raise task.error

    def __enter__(self) -> ThreadRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
