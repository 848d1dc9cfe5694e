"""Runs jobs in the store. One call starts a job; other calls poll it, wait for it or cancel it.

A few jobs may run at a time; further ones are refused, not queued. The states of the jobs that
ended most recently are kept. Jobs end with the process; a caller whose job was lost in this way
must start it again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakebed.api import media
from lakebed.api.admin import JobState
from lakebed.api.jobs import Arguments, JobKind
from lakebed.api.problems import problem_of
from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import Busy, Closed, InputError, LakebedError, NotFound
from lakebed.base.events import event
from lakebed.store.store import Store

_log = logging.getLogger(__name__)


class Job:
    """One job. The thread that runs it writes `done`, `total` and `was_stopped`; the event loop's
    thread writes all other fields.
    """

    def __init__(self, work_id: str, kind: str, arguments: Arguments, *, started_ms: int) -> None:
        self.work_id = work_id
        self.kind = kind
        self.arguments = dict(arguments)
        self.started_ms = started_ms
        self.state = "running"
        self.done = 0
        self.total = 0
        self.ended_ms: int | None = None
        self.result: dict[str, Any] | None = None
        self.problem: dict[str, Any] | None = None
        self.ended = asyncio.Event()
        self.is_stop_requested = False
        self.was_stopped = False

    def report_progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def is_cancelled(self) -> bool:
        self.was_stopped = self.is_stop_requested
        return self.is_stop_requested

    def described(self) -> JobState:
        return JobState(
            work_id=self.work_id,
            kind=self.kind,
            arguments=self.arguments,
            state=self.state,
            done=self.done,
            total=self.total,
            started_ms=self.started_ms,
            ended_ms=self.ended_ms,
            result=self.result,
            problem=self.problem,
        )


class Jobs:
    """The jobs of one store. Used in the event loop's thread."""

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, JobKind],
        *,
        clock: Clock,
        running_max: int,
        kept_max: int,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._store = store
        self._kinds = dict(kinds)
        self._clock = clock
        self._running_max = running_max
        self._kept_max = kept_max
        self._new_id = new_id
        self._executor = ThreadPoolExecutor(running_max, thread_name_prefix="lakebed-job")
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def kinds(self) -> list[str]:
        return sorted(self._kinds)

    def list(self) -> list[JobState]:
        """Returns the jobs that are running or ended recently, in the order they were started."""
        return [job.described() for job in self._jobs.values()]

    def start(self, kind: str, arguments: Arguments) -> JobState:
        """Starts a job.

        Raises `InputError` if the kind is unknown, `Closed` after `close` or `cut`, and `Busy` if
        too many jobs are running.
        """
        if kind not in self._kinds:
            kind_names = ", ".join(self.kinds()) or "none"
            raise InputError(
                f"unknown kind of job {kind[:40]!r}; the known kinds are: {kind_names}"
            )
        if self._is_closed:
            raise Closed("no job can be started, because the server is shutting down")
        running = sum(not job.ended.is_set() for job in self._jobs.values())
        if running >= self._running_max:
            raise Busy(f"{running} jobs are running, the maximum; wait for one to end")
        job = Job(self._new_id(), kind, arguments, started_ms=self._now_ms())
        self._jobs[job.work_id] = job
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job.described()

    def get(self, work_id: str) -> JobState:
        return self._find(work_id).described()

    def ended(self, work_id: str) -> asyncio.Event:
        """Returns an event that is set when the job has ended."""
        return self._find(work_id).ended

    def cancel(self, work_id: str) -> None:
        """Requests that the job stops at its next step. Has no effect on a job that has ended.

        Raises `NotFound` if there is no such job.
        """
        self._find(work_id).is_stop_requested = True

    async def close(self, timeout_s: float) -> bool:
        """Refuses new jobs, cancels all jobs, and waits up to `timeout_s` for them to end.

        Returns whether all have ended.
        """
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        return not self._tasks

    def cut(self) -> None:
        """Cancels all jobs and refuses new ones, and does not wait for them to end."""
        self._is_closed = True
        for job in self._jobs.values():
            job.is_stop_requested = True
        self._executor.shutdown(wait=False)

    async def _run(self, job: Job) -> None:
        run, loop = self._kinds[job.kind].run, asyncio.get_running_loop()

        def work() -> dict[str, Any]:
            result = run(self._store, job.arguments, job.report_progress, job.is_cancelled)
            media.encode(result, media.JSON)  # fail now rather than at a later request
            return result

        event(_log, "work_started", work_id=job.work_id, kind=job.kind)
        try:
            job.result = await loop.run_in_executor(self._executor, work)
            job.state = "cancelled" if job.was_stopped else "done"
        except LakebedError as error:
            job.state, job.problem = "failed", problem_of(error)
        except Exception as error:  # noqa: BLE001 - unexpected: reported and logged
            job.state = "failed"
            job.problem = problem_of(LakebedError(f"{type(error).__name__}: {error}"))
            _log.error("job %s (%s) failed", job.work_id, job.kind, exc_info=error)
        finally:
            job.ended_ms = self._now_ms()
            job.ended.set()
            self._forget_old()
        event(_log, "work_ended", work_id=job.work_id, kind=job.kind, state=job.state)

    def _find(self, work_id: str) -> Job:
        job = self._jobs.get(work_id)
        if job is None:
            raise NotFound(
                f"there is no job {work_id[:40]!r}; jobs are forgotten some time after they end, "
                "and when the process that ran them ends"
            )
        return job

    def _forget_old(self) -> None:
        ended = [job.work_id for job in self._jobs.values() if job.ended.is_set()]
        for work_id in ended[: -self._kept_max]:
            del self._jobs[work_id]

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // NS_PER_MS
