"""What the verbs work with: the open object store, the settings, and threads for what blocks."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Executor
from typing import TypeVar

from lakebed.base.clock import Clock
from lakebed.base.units import MIB
from lakebed.edge.body_pump import BodyPlaces, BodyPump
from lakebed.edge.budget import Budget
from lakebed.edge.worker import Worker
from lakebed.seglake.change import Change, ChangeInSteps
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.lake import Lake

Result = TypeVar("Result")

REQUESTS_MAX = 10_000  # under way
BODY_BYTES_MAX = 256 * MIB  # of bodies that came along with their heads
LARGE_MAX = 64  # bodies that are received at once; each takes some megabytes
PREPARED_MAX = 16  # of some megabytes each
PREPARING_THREADS_MAX = 4


class Service(Worker):
    """Used in the loop's thread; the store itself may be used in any."""

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
        self._preparing = asyncio.Semaphore(PREPARED_MAX)
        self._preparing_threads = asyncio.Semaphore(PREPARING_THREADS_MAX)

    async def prepared(self, steps: ChangeInSteps[Result]) -> Change[Result]:
        """A change that takes long to prepare: its steps take turns with those of others.

        Many of them do not take all threads: others have to read and list meanwhile.
        """
        try:
            change = await self.run(steps.step)
            if change is None:
                async with self._preparing:
                    while change is None:
                        async with self._preparing_threads:
                            change = await self.run(steps.step)
        finally:
            with contextlib.suppress(ValueError):  # a thread is still at it: the node is ending
                steps.close()
        return change
