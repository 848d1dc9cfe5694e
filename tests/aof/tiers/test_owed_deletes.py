"""Objects of segments that retention removed are deleted, with tiering on and with tiering off."""

from __future__ import annotations

import dataclasses

from lakebed.aof.config import RetentionConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.base.simulation.world import World
from tests.aof.tiers.test_tier_scheduler import SECOND, Unreachable, open_tiered
from tests.aof.tiers.tiered_logs import CONFIG, contents, write_segments

KEEPING_ONE = dataclasses.replace(CONFIG, retention=RetentionConfig(count_max=1))


def uploaded(world: World, count: int) -> list[bytes]:
    """A closed log of that many segments, in Tier 2 alone; their payloads."""
    manager, log = open_tiered(world, config=CONFIG)
    written = write_segments(log, count)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    manager.close()
    return written


def keys(log: Aof) -> list[str]:
    return [info.key for info in log.tiers.cold.store.list("aof2/") if "/segment-" in info.key]


def retained(world: World, *, is_reachable: bool) -> tuple[AofManager, Aof]:
    """Opened without tiering, by when retention has removed all but one segment."""
    manager, log = open_tiered(world, config=KEEPING_ONE)
    if not is_reachable:
        log.tiers.cold.store._store = Unreachable()  # type: ignore[attr-defined]
    world.runner.advance(10 * SECOND)
    assert [info.segment_id for info in log.segments()] == [3]
    return manager, log


def test_with_tiering_off_the_objects_of_removed_segments_are_deleted() -> None:
    world = World(1)
    uploaded(world, 4)
    manager, log = retained(world, is_reachable=True)
    assert [key.split("-")[1] for key in keys(log)] == [f"{3:020}"]
    assert log.manifest is not None
    assert list(log.manifest.index().pending_deletes) == []
    assert [place.segment_id for place in log.tiers.residency()] == [3]
    manager.close()


def test_deletes_that_are_owed_from_before_are_carried_out_after_opening() -> None:
    world = World(2)
    uploaded(world, 4)
    manager, log = retained(world, is_reachable=False)
    manager.close()
    manager, log = open_tiered(world, config=CONFIG)
    assert len(keys(log)) == 4
    world.runner.advance(10 * SECOND)
    assert len(keys(log)) == 1
    manager.close()


def test_with_deletes_owed_tier_2_is_repaired_and_segments_are_brought_back() -> None:
    world = World(3)
    written = uploaded(world, 4)
    manager, log = retained(world, is_reachable=False)
    manager.close()
    manager, log = open_tiered(world, config=CONFIG)
    assert log.tiers.repair() == []
    assert log.tiers.hydrate() == [3]
    assert contents(log) == written[15:]
    manager.close()
