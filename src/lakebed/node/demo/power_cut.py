"""The writer's work on the simulated disk, with the power cut at every I/O step in turn."""

from __future__ import annotations

from functools import partial

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.node.demo.verify import check_acknowledged
from lakebed.node.demo.writer import Acknowledgement, append_batch, log_name

CALLER_COUNT = 3
BATCHES = 2  # of each caller
CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))


class PowerCut:
    """A scenario for `sweep`: callers that share a log, and the ledger of their acks."""

    def __init__(self) -> None:
        self.ledger: list[Acknowledgement] = []

    def run(self, world: World) -> None:
        with _open(world) as manager:
            log = manager.open(log_name(0))
            for caller in range(CALLER_COUNT):
                world.runner.call(f"caller {caller}", partial(self._work, log, caller))
            world.runner.run()

    def check(self, world: World) -> None:
        with _open(world) as manager:
            check_acknowledged(manager.open(log_name(0)), self.ledger)

    def _work(self, log: Aof, caller: int) -> None:
        for batch in range(BATCHES):
            done = append_batch(log, 0, caller, batch)
            if done is not None:
                self.ledger.append(done)


def _open(world: World) -> AofManager:
    return AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner)


def cut_power_everywhere(seed: int) -> int:
    """How many power cuts and kills were tried; raises if one of them lost a record."""
    return sweep(PowerCut, seeds=range(seed, seed + 3), survivors=range(4))
