"""A simulated machine: a disk, a clock and a runner with a common seed."""

from __future__ import annotations

from random import Random

from lakebed.base.simulation.clock import SimulatedClock
from lakebed.base.simulation.disk import Crash, SimulatedDisk
from lakebed.base.simulation.scheduler import Scheduler


class World:
    """A simulated machine for an engine under test. The same seed always gives the same run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.restart_count = 0
        self.random = Random(f"callers {seed}")
        self.clock = SimulatedClock()
        self.runner = Scheduler(Random(f"scheduler {seed}"), self.clock)
        self.disk = SimulatedDisk(Random(f"disk {seed}"), scheduler=self.runner)
        self.disk.trace = self.runner.trace

    @property
    def trace(self) -> list[str]:
        """The thread switches and disk operations since the last restart, in order."""
        return self.runner.trace

    def restart(self, crash: Crash, *, survivors: int = 0) -> None:
        """Crashes the process or the machine, and restarts it with the data that survived."""
        self.runner.kill_all()
        self.disk.restart(crash, survivors=survivors)
        self.disk.steps = 0
        self.restart_count += 1
        again = " again" if self.restart_count == 1 else f" again {self.restart_count}"
        self.runner = Scheduler(Random(f"scheduler {self.seed}{again}"), self.clock)
        self.disk.scheduler = self.runner
        self.disk.trace = self.runner.trace

    def copy(self) -> World:
        """Returns an independent machine with a copy of the disk and the same time."""
        twin = World(self.seed)
        twin.clock.advance(self.clock.monotonic_ns())
        twin.clock.skew(self.clock.wall_ns() - twin.clock.wall_ns())
        twin.disk = self.disk.copy(Random(f"disk {self.seed} copy"), scheduler=twin.runner)
        twin.disk.trace = twin.runner.trace
        return twin
