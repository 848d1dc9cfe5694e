"""A simulated machine with a store on it: opened, closed, killed, cut off from power.

Everything that is done to the store runs as a thread of the simulated scheduler, so that background
work overtakes it at every lock and disk operation.
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
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store

ROOT = "/store"
STAY_SHARE = 0.7  # of the places where another thread may go on, those where none does: for speed
SWITCHES_PER_S_MAX = 100_000  # of threads: one that runs more often spins

Result = TypeVar("Result")


class Machine:
    """The world, and the store that is open on it, if one is."""

    def __init__(self, seed: int, settings: Settings) -> None:
        self.world = World(seed)
        self.settings = dict(settings)
        self.databases = SimulatedDatabases(self.world.disk)
        self.store: Store | None = None
        self.life = 0  # how often a store was opened
        self._random = Random(f"ids {seed}")
        self._latest_wall_ms = 0
        self.has_retained_topics = False  # dead letters are removed by retention, too

    # Clocks.

    @property
    def now_ns(self) -> int:
        """Monotonic."""
        return self.world.clock.monotonic_ns()

    @property
    def wall_ms(self) -> int:
        return self.world.clock.wall_ns() // NS_PER_MS

    @property
    def latest_wall_ms(self) -> int:
        """The latest moment that the wall clock has shown, before and after it was set."""
        self._latest_wall_ms = max(self._latest_wall_ms, self.wall_ms)
        return self._latest_wall_ms

    def set_clock(self, difference_ns: int) -> None:
        """Set the wall clock on or back."""
        self.latest_wall_ms  # noqa: B018 - notes it
        self.world.clock.skew(difference_ns)

    # Threads.

    def run(self, name: str, function: Callable[[], Result]) -> Result:
        """Run one caller as a simulated thread, until it is done."""
        return self.run_all([(name, function)])[0].result()

    def run_all(self, callers: Sequence[tuple[str, Callable[[], Result]]]) -> list[Call[Result]]:
        """Run callers at the same time, until all are done."""
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
        """As every step of a run needs it; a crash makes a new one."""
        runner = self.world.runner
        runner.switches_per_s_max = SWITCHES_PER_S_MAX
        runner.stay_share = STAY_SHARE
        runner.keeps_trace = False
        runner.count_anew()
        return runner

    def elapse(self, duration_ms: int) -> None:
        """Let time pass, running whatever is due."""
        self._runner().advance(duration_ms * NS_PER_MS)

    # The store.

    def open(self) -> Store:
        """In the caller's thread."""
        configs = configs_of(self.settings)
        retention = configs.topic.retention_bytes or configs.topic.retention_ms
        self.has_retained_topics = self.has_retained_topics or bool(retention)
        self.store = self.open_at(ROOT)
        self.life += 1
        return self.store

    def open_at(self, root: str) -> Store:
        """Another store on the same machine, or the one."""
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
        """A folder with all that is in it, without an operation of the disk."""
        for path in self.world.disk.file_paths():
            if path.startswith(folder + "/"):
                self.world.disk.lose(path)
        self.world.disk.lose(folder)

    def read_only(self) -> ReadOnlyStore:
        return ReadOnlyStore(
            ROOT,
            tier_config=configs_of(self.settings).tiers,
            disk=self.world.disk,
            runner=self.world.runner,
            connector=self.databases.connect,
        )

    def crash(self, crash: Crash, *, survivors: int) -> None:
        """The process or the machine is gone, and is there again without a store that is open."""
        self.store = None
        self.world.restart(crash, survivors=survivors)

    @property
    def is_troubled(self) -> bool:
        """Whether an operation of the disk may fail from now on."""
        disk = self.world.disk
        return disk.faults.is_any or disk.capacity_bytes < UNBOUNDED_BYTES

    def heal(self) -> None:
        """End every fault of the disk that lasts."""
        faults = self.world.disk.faults
        faults.lasting.clear()
        faults.slow_ns.clear()
        faults.unreadable.clear()
        faults.read_only = False
        faults.short_writes = False
        faults.crash_at_step = None
        faults.forget_planned()
        self.world.disk.capacity_bytes = UNBOUNDED_BYTES

    def close(self) -> None:
        """End all threads and let go of everything, whatever state it is in."""
        with contextlib.suppress(Exception):
            self.world.runner.kill_all()
        self.world.disk.restart(Crash.KILL)
        self.databases.close()


@contextlib.contextmanager
def quiet_logs():  # type: ignore[no-untyped-def]
    """A simulation breaks so much that the store's log lines would be in the way."""
    logger = logging.getLogger("lakebed")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
