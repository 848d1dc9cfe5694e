"""One simulated machine: disk, clock and runner that share a seed, and its restart."""

from __future__ import annotations

from random import Random

from lakebed.base.simulation.clock import SimulatedClock
from lakebed.base.simulation.disk import Crash, SimulatedDisk
from lakebed.base.simulation.scheduler import Scheduler


class World:
    """The machine that an engine under test gets. The same seed gives the same run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"callers {seed}")
        self.clock = SimulatedClock()
        self.runner = Scheduler(Random(f"scheduler {seed}"), self.clock)
        self.disk = SimulatedDisk(Random(f"disk {seed}"), scheduler=self.runner)
        self.disk.trace = self.runner.trace

    @property
    def trace(self) -> list[str]:
        """Everything that happened since the last restart, in order."""
        return self.runner.trace

    def restart(self, crash: Crash, *, survivors: int = 0) -> None:
        """Ends the process (or the machine) and starts it again with what survived."""
        self.runner.kill_all()
        self.disk.restart(crash, survivors=survivors)
        self.disk.steps = 0
        self.runner = Scheduler(Random(f"scheduler {self.seed} again"), self.clock)
        self.disk.scheduler = self.runner
        self.disk.trace = self.runner.trace

    def copy(self) -> World:
        """Returns another machine with the same disk, which may then develop differently."""
        twin = World(self.seed)
        twin.clock.advance(self.clock.monotonic_ns())
        twin.disk = self.disk.copy(Random(f"disk {self.seed} copy"), scheduler=twin.runner)
        twin.disk.trace = twin.runner.trace
        return twin
