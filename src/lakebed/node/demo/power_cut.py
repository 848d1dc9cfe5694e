"""The writer's work on the simulated disk, with the power cut at every I/O step in turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lakebed.base.commit import Barrier, CommitConfig, FileTail
from lakebed.base.layout import Buffer
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.node.demo.verify import check_acknowledged
from lakebed.node.demo.writer import Acknowledgement, encode_batch

PATH = "/log.seg"
CALLER_COUNT = 3
BATCHES = 2  # of each caller


class PowerCut:
    """A scenario for `sweep`: callers that share a barrier, and the ledger of their acks."""

    def __init__(self) -> None:
        self.ledger: list[Acknowledgement] = []

    def run(self, world: World) -> None:
        with world.disk.create(PATH, size=256 * KIB) as file:
            world.disk.sync_folder("/")
            barrier: Barrier[Buffer, int] = Barrier(
                FileTail(file, end=0),
                name=PATH,
                runner=world.runner,
                wake=lambda: None,
                config=CommitConfig(batch_count_max=2),
            )
            for caller in range(CALLER_COUNT):
                world.runner.call(f"caller {caller}", partial(self._work, barrier, caller))
            world.runner.run()

    def check(self, world: World) -> None:
        if self.ledger:
            check_acknowledged(world.disk, PATH, self.ledger)

    def _work(self, barrier: Barrier[Buffer, int], caller: int) -> None:
        for batch in range(BATCHES):
            data = encode_batch(0, caller, batch, timestamp=batch + 1)
            offset = barrier.commit(data, size=len(data))
            self.ledger.append(Acknowledgement(0, caller, batch, offset, len(data)))


def cut_power_everywhere(seed: int) -> int:
    """How many power cuts and kills were tried; raises if one of them lost a record."""
    scenario: Callable[[], PowerCut] = PowerCut
    return sweep(scenario, seeds=range(seed, seed + 16), survivors=range(4))
