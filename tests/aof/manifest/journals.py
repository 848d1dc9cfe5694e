"""A manifest log on a simulated machine."""

from __future__ import annotations

from random import Random

from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.index import ManifestIndex, fold
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.journal_opener import open_journal
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import ManifestRecord
from lakebed.aof.manifest.replay import Moment, ReplayResult, replay
from lakebed.base.counters import Counters
from lakebed.base.errors import LakebedError
from lakebed.base.runner import Task
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

FOLDER = "/log/manifest/00000000000000aa"
QUARANTINE = "/quarantine"
SMALL = ManifestConfig(
    chunk_bytes=16 * KIB, growth_bytes=4 * KIB, commit_bytes=4 * KIB, commit_ms=2, snapshot_chunks=2
)


class Opened:
    """A journal whose steps the world's runner drives."""

    def __init__(self, world: World, config: ManifestConfig = SMALL) -> None:
        self.failures: list[LakebedError] = []
        self.counters = Counters()
        self.steps = 0
        self._task: Task | None = None
        self.journal: Journal
        self.replayed: ReplayResult
        self.journal, self.replayed = open_journal(
            world.disk,
            FOLDER,
            quarantine=QUARANTINE,
            config=config,
            runner=world.runner,
            random=Random(world.seed),
            counters=self.counters,
            wake=self._wake,
            on_failure=self.failures.append,
        )
        self._task = world.runner.spawn("manifest", self._step)

    def close(self) -> None:
        self.journal.close()
        assert self._task is not None
        self._task.stop()

    def _wake(self) -> None:
        if self._task is not None:
            self._task.wake()

    def _step(self) -> int | None:
        self.steps += 1
        return self.journal.step()


def reader(world: World) -> ManifestReader:
    return ManifestReader(world.disk, ManifestPaths(FOLDER))


def stored(world: World) -> list[ManifestRecord]:
    """What is on disk, from the first chunk on."""
    return [placed.record for placed in reader(world).records()]


def replayed(world: World, until: Moment | None = None) -> ManifestIndex:
    return replay(reader(world), until).index


def folded(records: list[ManifestRecord]) -> ManifestIndex:
    return fold(records)
