"""Runs the background tasks that compress, upload, restore and evict the segments of all logs.

Each worker is a background task that runs one job of one log at a time. Without a job, it sleeps
until it is woken or until a job or a retry is due. An unexpected error in one log's tiers
is logged, reported by `failures` and retried later; work on other logs continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from lakebed.aof.tiers.budget import TierBudget
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.tiers.tier_scheduler import TierScheduler
from lakebed.aof.tiers.upkeep import LogUpkeep
from lakebed.base.runner import Runner, Task
from lakebed.base.runner.failure_backoff import FailureBackoff

Job = Callable[[TierScheduler], bool]
Result = TypeVar("Result")

_KEEPER = "aof tiers"  # the upkeep task


class Coordinator:
    """Owns the background tasks that work on the tiers of all logs of a root.

    `logs` returns the schedulers of the open logs with tiering on; `upkeeps` returns the upkeep of
    all open logs.
    """

    def __init__(
        self,
        runner: Runner,
        services: TierServices,
        logs: Callable[[], Sequence[TierScheduler]],
        upkeeps: Callable[[], Sequence[LogUpkeep]],
    ) -> None:
        config = services.config
        self.budget = TierBudget(
            tier0_bytes_max=config.tier0_bytes_max,
            tier1_bytes_max=config.tier1_bytes_max,
            mutex=runner.mutex(),
        )
        self._runner = runner
        self._services = services
        self._logs = logs
        self._upkeeps = upkeeps
        self._mutex = runner.mutex()
        self._isolated: dict[str, _Isolated] = {}  # by task
        self._watcher: Task | None = None  # waits for pauses; also in `_tasks`
        self._tasks: list[Task] = []  # guarded by _mutex, like the fields below
        self._keeper: Task | None = None
        self.is_stopping = False

    def start(self) -> None:
        """Starts the tasks. Must be called when a log with tiering on is opened. Idempotent."""
        with self._mutex:
            if self._tasks or self.is_stopping:
                return
            self._start_keeper()
            config, spawn = self._services.config, self._runner.spawn
            kinds: list[tuple[str, int, Job]] = [
                ("compress", config.compression_workers, TierScheduler.compress_next),
                ("upload", config.uploads, TierScheduler.upload_next),
                ("hydrate", config.downloads, TierScheduler.hydrate_next),
            ]
            for name, workers, job in kinds:
                for number in range(workers):
                    task = f"aof {name} {number}"
                    self._tasks.append(spawn(task, self._step_of(task, job, number)))
            isolated = self._isolation("aof pauses")
            self._watcher = spawn("aof pauses", partial(self._watch_for_pause, isolated))
            self._tasks.append(self._watcher)

    def keep(self) -> None:
        """Starts the upkeep task if necessary, and wakes it, because a log has work for it."""
        with self._mutex:
            if not self.is_stopping:
                self._start_keeper()
        self.wake_keeper()

    def wake(self) -> None:
        """Wakes all workers and the upkeep task, because there may be work for them."""
        self._wake_workers()
        self.wake_keeper()

    def wake_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.wake()

    def watch(self) -> None:
        """Wakes the task that waits for pauses between appends.

        Must be called when there is work that may run only in a pause. The workers sleep until that
        task wakes them.
        """
        if self._watcher is not None:
            self._watcher.wake()

    def failures(self) -> dict[str, Exception]:
        """Returns the errors of the logs for which work on the tiers currently fails, by log name.

        The failed work is retried.
        """
        with self._mutex:
            tasks = list(self._isolated.values())
        return {name: error for task in tasks for name, error in task.failures().items()}

    def stop(self) -> None:
        """Stops all tasks, interrupts running jobs and waits until they have ended. Idempotent."""
        with self._mutex:
            self.is_stopping = True
            tasks, self._tasks = self._tasks, []
            tasks += [self._keeper] if self._keeper is not None else []
        self._services.stop()
        for task in tasks:
            task.stop()

    def _start_keeper(self) -> None:
        """Starts the upkeep task if it is not running. The caller must hold the mutex."""
        if self._keeper is None:
            isolated = self._isolation(_KEEPER)
            self._keeper = self._runner.spawn(_KEEPER, partial(self._upkeep, isolated))

    def _wake_workers(self) -> None:
        for task in self._tasks:
            if task is not self._watcher:
                task.wake()

    def _watch_for_pause(self, isolated: _Isolated) -> int | None:
        logs = list(self._logs())
        none: list[int] = []
        times = [
            delay for log in logs for delay in isolated.run(log, log.times_due_ns, failed=none)
        ]
        with self._mutex:
            keeper = self._isolation(_KEEPER)
        rooms = [
            # While the upkeep of a log fails, the keeper does not evict, and must not be woken.
            None if room_ns is None else max(room_ns, keeper.retry_ns(log))
            for log in logs
            for room_ns in [isolated.run(log, log.room_due_ns, failed=None)]
        ]
        if 0 in times:
            self._wake_workers()  # not the keeper, which would only request this watch again
        if 0 in rooms:
            self.wake_keeper()
        retry_ns = isolated.due_ns(logs)
        return min((delay for delay in (*times, *rooms, retry_ns) if delay), default=None)

    def _isolation(self, task: str) -> _Isolated:
        """Returns a task's `_Isolated`, created if necessary. The caller must hold the mutex."""
        return self._isolated.setdefault(task, _Isolated(task, self._runner))

    def _step_of(self, task: str, job: Job, number: int) -> Callable[[], int | None]:
        """Returns the function that a worker task calls repeatedly; it runs at most one job.

        Each worker looks for a job first at a different log, so that no log is always last. The
        caller must hold the mutex.
        """
        isolated = self._isolation(task)

        def step() -> int | None:
            if self.is_stopping:
                return None
            logs = list(self._logs())
            for log in (*logs[number:], *logs[:number]):
                if isolated.run(log, partial(job, log), failed=False):
                    return 0
            delays = [isolated.run(log, log.due_ns, failed=None) for log in logs]
            return _earliest([*delays, isolated.due_ns(logs)])

        return step

    def _upkeep(self, isolated: _Isolated) -> int | None:
        logs, upkeeps = list(self._logs()), list(self._upkeeps())
        steps: list[tuple[TierScheduler | LogUpkeep, Callable[[], int | None]]] = [
            *((log, log.upkeep) for log in logs),
            *((upkeep, upkeep.step) for upkeep in upkeeps),
        ]
        delays = [
            isolated.run(owner, step, failed=None) for owner, step in steps if not self.is_stopping
        ]
        for log in logs:
            log.admission.announce()
        return _earliest([*delays, isolated.due_ns([*logs, *upkeeps])])


class _Isolated:
    """Runs one task's work for each log, so that a failure for one log does not affect the others.

    Only the task's thread may use it, but any thread may call `failures` and `retry_ns`.
    """

    def __init__(self, task: str, runner: Runner) -> None:
        self._task = task
        self._clock = runner.clock
        self._failing: WeakKeyDictionary[TierScheduler | LogUpkeep, FailureBackoff] = (
            WeakKeyDictionary()
        )
        self._retry_at_ns: WeakKeyDictionary[TierScheduler | LogUpkeep, int] = WeakKeyDictionary()
        self._failed_work: WeakKeyDictionary[TierScheduler | LogUpkeep, object] = (
            WeakKeyDictionary()
        )

    def run(
        self, owner: TierScheduler | LogUpkeep, work: Callable[[], Result], *, failed: Result
    ) -> Result:
        """Runs `work` for a log and returns its result, or `failed` if it raises an exception.

        After a failure, returns `failed` without running any work of that log until a retry is due.
        The failure ends when the work that failed succeeds, not when other work of the log does.
        """
        if self._retry_at_ns.get(owner, 0) > self._clock.monotonic_ns():
            return failed
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - work on other logs must continue
            failing = self._failing.get(owner) or FailureBackoff(task=self._task, of=owner.name)
            self._failing[owner] = failing
            self._failed_work[owner] = _function_of(work)
            self._retry_at_ns[owner] = self._clock.monotonic_ns() + failing.failed(error)
            return failed
        if owner in self._failing and self._failed_work[owner] == _function_of(work):
            self._failing[owner].succeeded()
        return result

    def retry_ns(self, owner: TierScheduler | LogUpkeep) -> int:
        """Returns the nanoseconds until the failed work of a log is retried, or 0."""
        return max(0, self._retry_at_ns.get(owner, 0) - self._clock.monotonic_ns())

    def due_ns(self, owners: Iterable[TierScheduler | LogUpkeep]) -> int | None:
        """Returns the nanoseconds until the next retry of failed work is due, or None."""
        now_ns = self._clock.monotonic_ns()
        times_ns = (self._retry_at_ns.get(owner, 0) for owner in owners)
        return _earliest([time_ns - now_ns for time_ns in times_ns if time_ns > now_ns])

    def failures(self) -> dict[str, Exception]:
        failing = [(owner.name, failing.error) for owner, failing in list(self._failing.items())]
        return {name: error for name, error in failing if error is not None}


def _function_of(work: Callable[[], object]) -> object:
    """Returns the function that a bound method or a `partial` calls: they are new each time."""
    return getattr(getattr(work, "func", work), "__func__", getattr(work, "func", work))


def _earliest(delays_ns: Iterable[int | None]) -> int | None:
    return min((delay_ns for delay_ns in delays_ns if delay_ns is not None), default=None)
