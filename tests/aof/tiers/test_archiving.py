"""Retention that archives: a segment leaves the log when its bytes are in `archive/`, whichever
tier they come from."""

from __future__ import annotations

import dataclasses
import os

import pytest

from lakebed.aof.config import AofConfig, RetentionConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.paths import ArchivedName
from lakebed.aof.tiers.warm_file import check_segment_file
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from tests.aof.tiers.test_tier_scheduler import SECOND, TIERED, Unreachable, open_tiered
from tests.aof.tiers.tiered_logs import CONFIG, PATHS, contents, write_segments

ARCHIVING = RetentionConfig(count_max=1, archive=True)


def archived(world: World) -> list[int]:
    names = world.disk.names(PATHS.archive)
    for name in names:
        check_segment_file(world.disk, os.path.join(PATHS.archive, name))
    return [int(name[:20]) for name in names]


def objects(world: World) -> int:
    folder = "/store/tier2/aof2"
    streams = world.disk.names(folder) if world.disk.is_folder(folder) else []
    found = [world.disk.names(f"{folder}/{stream}") for stream in streams if stream != "manifest"]
    return sum(name.endswith(".zst") for names in found for name in names)


def evicted(world: World, count: int, *, warm: bool, config: AofConfig = CONFIG) -> list[bytes]:
    """A closed log of that many segments in colder tiers alone; their payloads."""
    manager, log = open_tiered(world, config=config)
    written = write_segments(log, count)
    log.tiers.upload()
    assert len(log.tiers.evict(warm=warm)) == count
    manager.close()
    return written


def reopened(world: World, *, is_tiered: bool) -> tuple[AofManager, Aof]:
    config = TIERED if is_tiered else CONFIG
    return open_tiered(world, config=dataclasses.replace(config, retention=ARCHIVING))


@pytest.mark.parametrize("is_tiered", [True, False])
@pytest.mark.parametrize("warm", [True, False])
def test_segments_outside_tier_0_are_archived_before_they_leave(
    warm: bool, is_tiered: bool
) -> None:
    world = World(1)
    evicted(world, 10, warm=warm)
    manager, log = reopened(world, is_tiered=is_tiered)
    world.runner.advance(10 * SECOND)
    assert archived(world) == list(range(9))
    assert [info.segment_id for info in log.segments()] == [9]
    assert objects(world) == 1, "those of archived segments are deleted"
    manager.close()


def test_a_segment_that_cannot_be_fetched_stays_until_it_can() -> None:
    world = World(2)
    written = evicted(world, 4, warm=True)
    manager, log = reopened(world, is_tiered=False)
    store = log.tiers.cold.store
    reachable = store._store  # type: ignore[attr-defined]
    store._store = Unreachable()  # type: ignore[attr-defined]
    world.runner.advance(30 * SECOND)
    assert archived(world) == []
    assert [info.segment_id for info in log.segments()] == [0, 1, 2, 3]
    store._store = reachable  # type: ignore[attr-defined]
    assert contents(log) == written
    world.runner.advance(120 * SECOND)
    assert archived(world) == [0, 1, 2]
    assert [info.segment_id for info in log.segments()] == [3]
    manager.close()


def test_a_segment_whose_object_is_lost_stays_in_the_log_and_keeps_all_after_it() -> None:
    world = World(3)
    evicted(world, 4, warm=True)
    manager, log = reopened(world, is_tiered=False)
    log.tiers.cold.store.delete(log.tiers.residency()[1].key)
    world.runner.advance(300 * SECOND)
    assert archived(world) == [0]
    assert [info.segment_id for info in log.segments()] == [1, 2, 3]
    assert len(log.tiers.residency()) == 3, "no object was deleted for it"
    manager.close()


def test_a_damaged_file_in_tier_0_is_not_archived_in_place_of_a_whole_object() -> None:
    world = World(4)
    manager, log = open_tiered(world, config=CONFIG)
    write_segments(log, 3)
    log.tiers.upload()
    path = log.segments()[0].path
    manager.close()
    with world.disk.open(path, writable=True) as file:
        file.write_and_sync(200, [b"\xff" * 8])
    manager, log = reopened(world, is_tiered=False)
    world.runner.advance(10 * SECOND)
    assert archived(world) == [0, 1]
    assert not world.disk.exists(path)
    manager.close()


def test_a_segment_that_was_in_a_colder_tier_is_archived_under_the_name_of_its_footer() -> None:
    """So that it is in the archive once, whether it was fetched or moved there."""
    world = World(5)
    world.clock.advance(520_005)  # the manifest log has milliseconds, footers have nanoseconds
    evicted(world, 3, warm=True)
    manager, log = reopened(world, is_tiered=False)
    store = log.tiers.cold.store
    reachable = store._store  # type: ignore[attr-defined]
    store._store = Unreachable()  # type: ignore[attr-defined]
    world.runner.advance(10 * SECOND)  # retention looks at the segments, and cannot archive them
    store._store = reachable  # type: ignore[attr-defined]
    assert len(log.tiers.hydrate()) == 3
    world.runner.advance(120 * SECOND)
    assert archived(world) == [0, 1]
    for name in world.disk.names(PATHS.archive):
        footer = check_segment_file(world.disk, os.path.join(PATHS.archive, name))
        assert ArchivedName.parse(name) == ArchivedName(int(name[:20]), footer.sealed_at)
    manager.close()


class ArchivingColdSegments:
    """Segments of a colder tier are archived under crashes: each is in the log or the archive."""

    COUNT = 4

    def __init__(self) -> None:
        self.evicted = 0

    def run(self, world: World) -> None:
        evicted(world, self.COUNT, warm=world.random.random() < 0.5)
        self.evicted = self.COUNT
        manager, _ = reopened(world, is_tiered=False)
        world.runner.advance(10 * SECOND)
        manager.close()

    def check(self, world: World) -> None:
        manager, log = open_tiered(world, config=CONFIG)
        live = {record.record_id.segment_index for record in log.read()}
        assert set(range(self.evicted)) <= live | set(archived(world))
        manager.close()


@pytest.mark.sweep
def test_a_crash_while_cold_segments_are_archived_loses_none() -> None:
    assert sweep(ArchivingColdSegments, seeds=[1, 2], survivors=range(2), cases_max=500) > 300
