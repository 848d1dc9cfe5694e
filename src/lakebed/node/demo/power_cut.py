"""Writes to a log on a simulated disk from several callers, and cuts the power at every I/O
step.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import NamedTuple

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.errors import WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import Corrupt
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

CALLER_COUNT = 3
BATCHES = 2  # per caller
BATCH_COUNT = 100  # records per batch
CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))
LOG = "demo"


class Acknowledged(NamedTuple):
    """A batch whose flush was acknowledged."""

    caller: int
    batch: int
    first: RecordId


class PowerCut:
    """A scenario for `sweep`. `ledger` lists the batches whose flush was acknowledged."""

    def __init__(self) -> None:
        self.ledger: list[Acknowledged] = []

    def run(self, world: World) -> None:
        with _open(world) as manager:
            log = manager.open(LOG)
            for caller in range(CALLER_COUNT):
                world.runner.call(f"caller {caller}", partial(self._work, log, caller))
            world.runner.run()

    def check(self, world: World) -> None:
        with _open(world) as manager:
            check_acknowledged(manager.open(LOG), self.ledger)

    def _work(self, log: Aof, caller: int) -> None:
        for batch in range(BATCHES):
            try:
                ids = log.append_records(_payloads(caller, batch), ext_ids=caller)
            except WouldBlock:
                log.wait_for_writable_segment(30)
                continue
            log.flush(ids[-1])
            self.ledger.append(Acknowledged(caller, batch, ids[0]))


def check_acknowledged(log: Aof, ledger: list[Acknowledged]) -> None:
    """Raises `Corrupt` for the first acknowledged batch that is missing or changed."""
    for entry in ledger:
        records = islice(log.read(start=entry.first), BATCH_COUNT)
        if [record.payload for record in records] != _payloads(entry.caller, entry.batch):
            raise Corrupt(
                "an acknowledged batch is missing or changed", path=log.name, offset=entry.first
            )


def cut_power_everywhere(seed: int) -> int:
    """Simulates a kill and two power cuts at every I/O step, each in a run of its own.

    Returns the number of runs. Raises `CaseFailed` if one of them fails, for example because
    acknowledged records were lost.
    """
    return sweep(PowerCut, seeds=[seed], survivors=range(2))


def _payloads(caller: int, batch: int) -> list[bytes]:
    return [
        (b"caller %d batch %d record %d " % (caller, batch, index)).ljust(100, b".")
        for index in range(BATCH_COUNT)
    ]


def _open(world: World) -> AofManager:
    return AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner)
