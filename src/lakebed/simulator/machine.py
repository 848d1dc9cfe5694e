"""A simulated machine on which a store is opened, closed, killed and cut off from power.

Every call to the store runs as a thread of the simulated scheduler, so that background work can
overtake it at every lock and disk operation.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TypeVar

from lakebed.base.clock import NS_PER_MS
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.node import UNBOUNDED_BYTES
from lakebed.base.simulation.scheduler import Call, Scheduler
from lakebed.base.simulation.world import World
from lakebed.simulator.settings import Settings, configs_of
from lakebed.store.store import Store

ROOT = "/store"
STAY_SHARE = 0.7  # share of possible thread switches that are skipped, for speed
SWITCHES_PER_S_MAX = 100_000  # more often means that a thread is spinning

Result = TypeVar("Result")


class Machine:
    """The simulated machine, and the store that is open on it, if any."""

    def __init__(self, seed: int, settings: Settings) -> None:
        self.world = World(seed)
        self.settings = dict(settings)
        self.databases = SimulatedDatabases(self.world.disk)
        self.store: Store | None = None
        self.life = 0  # how many times the store was opened
        self._random = Random(f"ids {seed}")
        self._latest_wall_ms = 0
        self.has_retained_topics = False  # whether topics ever had retention: of dead letters, too

    # Clocks.

    @property
    def now_ns(self) -> int:
        """The current time of the monotonic clock."""
        return self.world.clock.monotonic_ns()

    @property
    def wall_ms(self) -> int:
        return self.world.clock.wall_ns() // NS_PER_MS

    @property
    def latest_wall_ms(self) -> int:
        """The latest time that the wall clock has ever shown, even if it was set back since."""
        self._latest_wall_ms = max(self._latest_wall_ms, self.wall_ms)
        return self._latest_wall_ms

    def set_clock(self, difference_ns: int) -> None:
        """Moves the wall clock by `difference_ns`, forward or back."""
        self.latest_wall_ms  # noqa: B018 - records the time before the change
        self.world.clock.skew(difference_ns)

    # Threads.

    def run(self, name: str, function: Callable[[], Result]) -> Result:
        """Runs the function as a simulated thread and returns its result."""
        return self.run_all([(name, function)])[0].result()

    def run_all(self, callers: Sequence[tuple[str, Callable[[], Result]]]) -> list[Call[Result]]:
        """Runs the functions as simulated threads at the same time, until all have ended."""
        runner = self._runner()
        calls: list[Call[Result]] = []
        for name, function in callers:
            call: Call[Result] = Call()
            calls.append(call)
            runner.start(name, partial(call.settle, function))
        runner.wait_until(
            lambda: all(call.done for call in calls), timeout_ns=None, name="the callers to end"
        )
        return calls

    def _runner(self) -> Scheduler:
        """Returns the scheduler, configured for a run. A crash replaces the scheduler with a new
        one.
        """
        runner = self.world.runner
        runner.switches_per_s_max = SWITCHES_PER_S_MAX
        runner.stay_share = STAY_SHARE
        runner.keeps_trace = False
        runner.count_anew()
        return runner

    def elapse(self, duration_ms: int) -> None:
        """Lets time pass, and runs the threads that become due."""
        self._runner().advance(duration_ms * NS_PER_MS)

    # The store.

    def open(self) -> Store:
        """Opens the store in the calling thread."""
        configs = configs_of(self.settings)
        retention = configs.topic.retention_bytes or configs.topic.retention_ms
        self.has_retained_topics = self.has_retained_topics or bool(retention)
        self.store = self.open_at(ROOT)
        self.life += 1
        return self.store

    def open_at(self, root: str) -> Store:
        """Opens a store at `root`, with the current settings of the run."""
        configs = configs_of(self.settings)
        return Store.open(
            root,
            config=configs.log,
            topic_config=configs.topic,
            group_config=configs.group,
            object_config=configs.objects,
            tier_config=configs.tiers,
            disk=self.world.disk,
            runner=self.world.runner,
            connector=self.databases.connect,
            random=self._random,
        )

    def remove(self, folder: str) -> None:
        """Removes a folder and its contents. This does not count as a disk operation."""
        for path in self.world.disk.file_paths():
            if path.startswith(folder + "/"):
                self.world.disk.lose(path)
        self.world.disk.lose(folder)

    def crash(self, crash: Crash, *, survivors: int) -> None:
        """Kills the process or cuts the power, and restarts the machine. No store is open
        afterwards.
        """
        self.store = None
        self.world.restart(crash, survivors=survivors)

    @property
    def is_troubled(self) -> bool:
        """Whether a disk operation may fail from now on."""
        disk = self.world.disk
        return disk.faults.is_any or disk.capacity_bytes < UNBOUNDED_BYTES

    def heal(self) -> None:
        """Ends all disk faults, including those that are planned."""
        faults = self.world.disk.faults
        faults.lasting.clear()
        faults.slow_ns.clear()
        faults.unreadable.clear()
        faults.read_only = False
        faults.short_writes = False
        faults.crash_at_step = faults.crash_after = None
        faults.forget_planned()
        self.world.disk.capacity_bytes = UNBOUNDED_BYTES

    def close(self) -> None:
        """Ends all simulated threads and releases all resources, whatever the state of the
        machine.
        """
        with contextlib.suppress(Exception):
            self.world.runner.kill_all()
        self.world.disk.restart(Crash.KILL)
        self.databases.close()


@contextlib.contextmanager
def quiet_logs():  # type: ignore[no-untyped-def]
    """Suppresses the store's log lines, because simulated faults would cause very many."""
    logger = logging.getLogger("lakebed")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
