"""Drives the tiers of all logs of a root: workers that compress, upload, hydrate, and keep order
in the budget they share.

Each worker is a task of the runner whose step does one job of one log. When there is none it rests
until somebody wakes it, or until a job that failed may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.aof.tiers.budget import TierBudget
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.tiers.tiering import LogTiering
from lakebed.aof.tiers.upkeep import LogUpkeep
from lakebed.base.runner import Runner, Task

Job = Callable[[LogTiering], bool]


class Coordinator:
    """Owns the tasks. `logs` gives the tierings of the logs that are open now, `upkeeps` what is to
    be looked after of all of them, those without a tiering too."""

    def __init__(
        self,
        runner: Runner,
        services: TierServices,
        logs: Callable[[], Sequence[LogTiering]],
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
        self._watcher: Task | None = None  # one of the tasks
        self._tasks: list[Task] = []  # guarded by _mutex, as are the next
        self._keeper: Task | None = None
        self.is_stopping = False

    def start(self) -> None:
        """Begin, with the first log whose tiering is on; again is fine."""
        with self._mutex:
            if self._tasks or self.is_stopping:
                return
            self._start_keeper()
            config, spawn = self._services.config, self._runner.spawn
            kinds: list[tuple[str, int, Job]] = [
                ("compress", config.compression_workers, LogTiering.compress_next),
                ("upload", config.uploads, LogTiering.upload_next),
                ("hydrate", config.downloads, LogTiering.hydrate_next),
            ]
            for name, workers, job in kinds:
                for number in range(workers):
                    self._tasks.append(spawn(f"aof {name} {number}", self._step_of(job, number)))
            self._watcher = spawn("aof pauses", self._watch_for_pause)
            self._tasks.append(self._watcher)

    def keep(self) -> None:
        """A log owes something to its tiers, with tiering or without."""
        with self._mutex:
            if not self.is_stopping:
                self._start_keeper()
        self.wake_keeper()

    def wake(self) -> None:
        """There may be work."""
        self._wake_workers()
        self.wake_keeper()

    def wake_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.wake()

    def watch(self) -> None:
        """There is work for which it is not time: one task looks for that, the others rest."""
        if self._watcher is not None:
            self._watcher.wake()

    def stop(self) -> None:
        """No job runs after this returns; one that is under way is cut short. Idempotent."""
        with self._mutex:
            self.is_stopping = True
            tasks, self._tasks = self._tasks, []
            tasks += [self._keeper] if self._keeper is not None else []
        self._services.stop()
        for task in tasks:
            task.stop()

    def _start_keeper(self) -> None:
        """With the mutex."""
        if self._keeper is None:
            self._keeper = self._runner.spawn("aof tiers", self._upkeep)

    def _wake_workers(self) -> None:
        for task in self._tasks:
            if task is not self._watcher:
                task.wake()

    def _watch_for_pause(self) -> int | None:
        logs = list(self._logs())
        times = [delay for log in logs for delay in log.times_due_ns()]
        rooms = [log.room_due_ns() for log in logs]
        if 0 in times:
            self._wake_workers()  # who are busy, maybe: the keeper would only ask to watch again
        if 0 in rooms:
            self.wake_keeper()
        return min((delay for delay in (*times, *rooms) if delay), default=None)

    def _step_of(self, job: Job, number: int) -> Callable[[], int | None]:
        """Workers begin with different logs, so that none is always last."""

        def step() -> int | None:
            if self.is_stopping:
                return None
            logs = list(self._logs())
            for log in (*logs[number:], *logs[:number]):
                if job(log):
                    return 0
            delays = [delay for log in logs if (delay := log.due_ns()) is not None]
            return min(delays, default=None)

        return step

    def _upkeep(self) -> int | None:
        logs = list(self._logs())
        delays = [log.upkeep() for log in logs if not self.is_stopping]
        delays += [upkeep.step() for upkeep in self._upkeeps() if not self.is_stopping]
        for log in logs:
            log.admission.announce()
        return min((delay for delay in delays if delay is not None), default=None)
