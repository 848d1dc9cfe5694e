"""What the handlers use: the open store, threads for blocking calls, and the limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Final

from lakebed.api.jobs import JOBS, JobKind
from lakebed.base.clock import Clock, SystemClock
from lakebed.base.counters import Counters
from lakebed.base.errors import Busy, LakebedError
from lakebed.edge.body_pump import BodyPlaces, BodyPump
from lakebed.edge.budget import Budget
from lakebed.edge.failures import Failures
from lakebed.edge.worker import Worker
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.http_api.jobs import Jobs
from lakebed.http_api.lease_queue import LeaseQueues
from lakebed.http_api.limits import ApiLimits
from lakebed.http_api.response_builder import problem_response
from lakebed.seglake.lake import Lake
from lakebed.store.store import Store

_log = logging.getLogger(__name__)

LARGE_MAX: Final = 16  # large bodies received at the same time, each using some 10 MB of memory


class Service(Worker):
    """Gives handlers access to the store and to worker threads.

    Used in the event loop's thread. The store itself is thread-safe.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        *,
        jobs: Mapping[str, JobKind] = JOBS,
        limits: ApiLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`clock` measures the duration of requests."""
        super().__init__(executor)
        self.store = store
        self.clock = clock or SystemClock()
        self.limits = limits or ApiLimits()
        self.budget = Budget(
            requests_max=self.limits.requests_max,
            key_requests_max=self.limits.key_requests_max,
            body_bytes_max=self.limits.body_bytes_max,
        )
        self.counters = Counters()  # the API's own, by operation and outcome
        self.jobs = Jobs(
            store,
            jobs,
            clock=store.runner.clock,
            running_max=self.limits.jobs_max,
            kept_max=self.limits.jobs_kept,
        )
        self.is_draining = False  # whether the shutdown has begun, for `health`
        self.failures = Failures(_problem, logger=_log, clock=self.clock)
        self.lease_queues = LeaseQueues()
        self.bodies = BodyPump(self, BodyPlaces(large_max=LARGE_MAX))
        self._lake: Lake | None = None

    async def lake(self) -> Lake:
        """Returns the object store. The first call opens it."""
        if self._lake is None:
            self._lake = await self.run(lambda: self.store.lake)
        return self._lake

    def check_threads(self) -> None:
        """Raises `Busy` if too many calls use or wait for a thread. The app calls it before each
        operation that is not public.
        """
        if self.call_count >= self.limits.threads_max + self.limits.waiting_max:
            raise Busy(
                f"{self.call_count} calls use or wait for a thread, the maximum; retry later"
            )


def _problem(error: LakebedError, request: Request) -> Response:
    return problem_response(error, request_id=request.id)
