"""Groups on a simulated machine, and what they are about to deliver."""

from __future__ import annotations

from lakebed.base.counters import Counters
from lakebed.base.runner import Task
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.stroma.group_opener import open_group
from lakebed.stroma.lease_transitions import Grant
from lakebed.stroma.paths import GroupName, GroupPaths
from tests.fakes.stroma_source import FakeSource

ROOT = "/store"
NAME = GroupName("orders", 0, "billing")
PATHS = GroupPaths(ROOT, NAME)
SMALL = GroupConfig(lease_ms=1000, compaction_bytes=KIB, compaction_events=20)


class Opened:
    """A group whose steps the world's runner drives."""

    def __init__(
        self, world: World, source: FakeSource | None = None, config: GroupConfig = SMALL
    ) -> None:
        self.source = source or FakeSource()
        self.source.forget_listeners()  # one group is open at a time; the last one may have crashed
        self.counters = Counters()
        self._task: Task | None = None
        self.group: PartitionGroup = open_group(
            world.disk,
            ROOT,
            NAME,
            source=self.source,
            runner=world.runner,
            config=config,
            wake=self._wake,
            counters=self.counters,
        )
        self._task = world.runner.spawn("group", self.group.step)

    def close(self) -> None:
        self.group.close()
        assert self._task is not None
        self._task.stop()

    def _wake(self) -> None:
        if self._task is not None:
            self._task.wake()


def offsets(grant: Grant) -> list[int]:
    """The messages of a lease, one by one."""
    return [offset for start, end, _ in grant.leased for offset in range(start, end)]


def counts(grant: Grant) -> dict[int, int]:
    """The delivery count of each message of a lease."""
    return {offset: n for start, end, n in grant.leased for offset in range(start, end)}


def singles(numbers: list[int]) -> list[tuple[int, int]]:
    return [(number, number + 1) for number in numbers]


def lease_all(group: PartitionGroup) -> list[int]:
    """Everything that can be leased now."""
    found: list[int] = []
    while taken := offsets(group.lease(1000)):
        found += taken
    return found
