"""The service that S3 request handlers use: object store, settings, limits and worker threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import Executor
from typing import TypeVar

from lakebed.base.clock import Clock
from lakebed.base.units import MIB
from lakebed.edge.body_pump import BodyPlaces, BodyPump
from lakebed.edge.budget import Budget
from lakebed.edge.failures import Failures
from lakebed.edge.worker import Worker
from lakebed.s3.errors import response_of
from lakebed.seglake.change import Change, ChangeInSteps
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.lake import Lake

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

REQUESTS_MAX = 10_000  # requests in progress, of all access keys
BODY_BYTES_MAX = 256 * MIB  # memory for small bodies, which are received before the handler runs
LARGE_MAX = 64  # large bodies received at the same time; each takes a few megabytes
PREPARED_MAX = 16  # changes prepared at the same time; each takes a few megabytes
PREPARING_THREADS_MAX = 4


class Service(Worker):
    """What S3 request handlers need: the store, the settings, request limits and worker threads.

    For use in the event loop's thread; only `lake`, `config` and `clock` may be used in others.
    """

    def __init__(
        self, *, lake: Lake, config: EndpointConfig, clock: Clock, executor: Executor
    ) -> None:
        super().__init__(executor)
        self.lake = lake
        self.config = config
        self.clock = clock
        self.budget = Budget(
            requests_max=REQUESTS_MAX,
            key_requests_max=config.inflight_max,
            body_bytes_max=BODY_BYTES_MAX,
        )
        self.bodies = BodyPump(self, BodyPlaces(large_max=LARGE_MAX))
        self.failures = Failures(response_of, logger=_log, clock=clock)
        self._preparing = asyncio.Semaphore(PREPARED_MAX)
        self._preparing_threads = asyncio.Semaphore(PREPARING_THREADS_MAX)

    async def prepared(self, steps: ChangeInSteps[Result]) -> Change[Result]:
        """Runs, in worker threads, the steps that prepare a change, and returns the change.

        Raises the error of a step that fails. Steps of several changes take turns. The first step
        of a change is quick; the others use only some of the threads, so that reads and listings
        can run at the same time.
        """
        try:
            change = await self.run(steps.step)
            if change is None:
                async with self._preparing:
                    while change is None:
                        async with self._preparing_threads:
                            change = await self.run(steps.step)
        finally:
            with contextlib.suppress(ValueError):  # a step still runs in a thread at shutdown
                steps.close()
        return change
