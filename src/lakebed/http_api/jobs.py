"""Runs jobs in the store: started by one call, followed, waited for and cancelled by others.

A few run at a time and none are queued; of those that ended the last ones are kept. Jobs end with
the process: a caller whose job is gone starts it again.
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
    """One of them. The thread that carries it out writes `done` and `total`, the loop the rest."""

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
        self.is_asked_to_stop = False
        self.was_told_to_stop = False

    def report_progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def is_cancelled(self) -> bool:
        self.was_told_to_stop = self.is_asked_to_stop
        return self.is_asked_to_stop

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
    """In the loop's thread."""

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
        """In the order they were started."""
        return [job.described() for job in self._jobs.values()]

    def start(self, kind: str, arguments: Arguments) -> JobState:
        """`Busy` if too many run; `InputError` if there is no such kind."""
        if kind not in self._kinds:
            known = ", ".join(self.kinds()) or "none"
            raise InputError(f"there is no work of the kind {kind[:40]!r}: known are {known}")
        if self._is_closed:
            raise Closed("the store is being closed")
        running = sum(not job.ended.is_set() for job in self._jobs.values())
        if running >= self._running_max:
            raise Busy(f"{running} jobs are running, which is the maximum")
        job = Job(self._new_id(), kind, arguments, started_ms=self._now_ms())
        self._jobs[job.work_id] = job
        task = asyncio.get_running_loop().create_task(self._carry_out(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job.described()

    def get(self, work_id: str) -> JobState:
        return self._find(work_id).described()

    def ended(self, work_id: str) -> asyncio.Event:
        """Set when it has."""
        return self._find(work_id).ended

    def cancel(self, work_id: str) -> None:
        """It stops at its next step. Nothing happens if it has ended."""
        self._find(work_id).is_asked_to_stop = True

    async def close(self, timeout_s: float) -> bool:
        """Cancel everything; whether all of it ended in time."""
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        return not self._tasks

    def cut(self) -> None:
        """Cancel everything, and do not wait."""
        self._is_closed = True
        for job in self._jobs.values():
            job.is_asked_to_stop = True
        self._executor.shutdown(wait=False)

    async def _carry_out(self, job: Job) -> None:
        run, loop = self._kinds[job.kind].run, asyncio.get_running_loop()

        def carried_out() -> dict[str, Any]:
            result = run(self._store, job.arguments, job.report_progress, job.is_cancelled)
            media.encode(result, media.JSON)  # now, rather than whenever somebody asks
            return result

        event(_log, "work_started", work_id=job.work_id, kind=job.kind)
        try:
            job.result = await loop.run_in_executor(self._executor, carried_out)
            job.state = "cancelled" if job.was_told_to_stop else "done"
        except LakebedError as error:
            job.state, job.problem = "failed", problem_of(error)
        except Exception as error:  # noqa: BLE001 - our own mistake: told, and logged
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
            raise NotFound(f"there is no work {work_id[:40]!r}: it may have ended long ago")
        return job

    def _forget_old(self) -> None:
        ended = [one.work_id for one in self._jobs.values() if one.ended.is_set()]
        for work_id in ended[: -self._kept_max]:
            del self._jobs[work_id]

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // NS_PER_MS
